package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// drawEvery is the least time between two drawings of a bar.
const drawEvery = 100 * time.Millisecond

// progress shows how much of the work is done, how fast it goes and how long
// the rest will take. A nil one shows nothing. Many goroutines may report to it.
type progress struct {
	mu    sync.Mutex
	bar   *progressbar.ProgressBar
	now   func() time.Time // time.Now but in tests
	about string           // stands before the rates
	total int64            // -1 where nobody knows
	bytes bool             // units are bytes; their rate is shown

	start   time.Time // of the work
	pending int64     // units that the bar does not show yet
	done    int64     // units of this run
	skipped int64     // units that an earlier run did
	tokens  int
	drawn   time.Time
	over    bool // nothing is drawn any more

	// The first batch also pays for what is done once, such as packing weights:
	// the rest is estimated from what came after it.
	settled     time.Time
	settledDone int64
}

// resultsLater are the streams of a command whose results do not appear on
// standard output while it works: they come at the end, or go into a file.
func (s streams) resultsLater() streams {
	s.out = nil
	return s
}

// showsProgress is the rule of every command: there is a bar where standard
// error is a terminal, unless results are streamed to a terminal meanwhile.
func (s streams) showsProgress() bool { return isTerminal(s.err) && !isTerminal(s.out) }

// newProgress shows how much of an input is read. Input of unknown length is
// counted, unless a program that reads the results may be waiting at both ends.
func newProgress(from io.Reader, std streams) *progress {
	file, ok := from.(*os.File)
	if !ok || !std.showsProgress() {
		return nil
	}
	info, err := file.Stat()
	switch {
	case err != nil || info.Mode()&os.ModeCharDevice != 0: // somebody types
		return nil
	case info.Mode().IsRegular() && info.Size() == 0:
		return nil
	case info.Mode().IsRegular():
		return startProgress(info.Size(), std)
	case std.out == nil || isRegular(std.out):
		return startProgress(-1, std)
	}
	return nil
}

// newCount shows how many of n things are done.
func newCount(n int, std streams) *progress {
	if !std.showsProgress() || n == 0 {
		return nil
	}
	return startProgress(int64(n), std, progressbar.OptionShowCount())
}

// newBytes shows how many bytes are moved, of -1 where nobody knows how many
// there will be.
func newBytes(n int64, about string, std streams) *progress {
	if !std.showsProgress() || n == 0 {
		return nil
	}
	p := startProgress(n, std)
	p.about, p.bytes = about, true
	p.begin()
	return p
}

func startProgress(n int64, std streams, more ...progressbar.Option) *progress {
	return &progress{now: time.Now, total: n, bar: progressbar.NewOptions64(n, append(more,
		progressbar.OptionSetWriter(std.err),
		progressbar.OptionSetWidth(30),
		progressbar.OptionSetPredictTime(false), // it knows neither batches nor what was skipped
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionSetSpinnerChangeInterval(0), // no goroutine of its own draws
		progressbar.OptionClearOnFinish(),
	)...)}
}

// begin shows that the work begins now: what was done before it, such as
// opening the model, counts for no rate.
func (p *progress) begin() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start = p.now()
	_ = p.bar.RenderBlank()
}

// skip says that an earlier run did n of the work.
func (p *progress) skip(n int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending += int64(n)
	p.skipped += int64(n)
}

// addDone says that n more are done, with the tokens that they had. They are shown
// when the batch is: a bar that is drawn after the first text of a batch would
// hold the time of all of it against one.
func (p *progress) addDone(n, tokens int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending += int64(n)
	p.done += int64(n)
	p.tokens += tokens
}

// show draws what is done at the end of a batch.
func (p *progress) show() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.over || now.Sub(p.drawn) < drawEvery {
		return
	}
	p.bar.Describe(p.describe())
	_ = p.bar.Add64(p.pending)
	p.pending, p.drawn = 0, now
}

// set says that n of all are done, and shows it.
func (p *progress) set(n int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	more := n - p.skipped - p.done
	p.mu.Unlock()
	p.addDone(int(more), 0)
	p.show()
}

// describe are the rates of this run and the time that is left.
func (p *progress) describe() string {
	var parts []string
	if p.about != "" {
		parts = append(parts, p.about)
	}
	now := p.now()
	if s := now.Sub(p.start).Seconds(); s > 0.5 {
		if p.tokens > 0 {
			parts = append(parts, fmt.Sprintf("%.0f tok/s", float64(p.tokens)/s))
		}
		if p.bytes {
			parts = append(parts, size(int64(float64(p.done)/s))+"/s")
		}
	}
	switch since := now.Sub(p.settled); {
	case p.done == 0:
	case p.settled.IsZero():
		p.settled, p.settledDone = now, p.done
	case p.total > 0 && since > time.Second/2 && p.done > p.settledDone:
		rest := float64(p.total-p.done-p.skipped) / float64(p.done-p.settledDone)
		left := time.Duration(max(0, rest) * float64(since))
		parts = append(parts, left.Round(time.Second).String()+" left")
	}
	return strings.Join(parts, ", ")
}

// clear takes the bar off its line, for a line of text; show draws it again.
func (p *progress) clear() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		_ = p.bar.Clear()
	}
}

// finish takes the bar away for good, before results and reports are written.
func (p *progress) finish() {
	if p == nil {
		return
	}
	p.clear()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
}

// fileOf is the file behind a stream of a command, nil where there is none.
func fileOf(stream any) *os.File {
	if out, ok := stream.(*checkedWriter); ok {
		stream = out.Writer
	}
	f, _ := stream.(*os.File)
	return f
}

func isTerminal(stream any) bool {
	f := fileOf(stream)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how much of the input is done, how fast that goes and when
// all of it will be. A nil one shows nothing.
type progress struct {
	bar    *progressbar.ProgressBar
	start  time.Time // of the work
	tokens int
	now    func() time.Time // time.Now but in tests
}

// newProgress shows a bar where somebody sees it: standard error is a terminal,
// and the results do not scroll through the same one.
func newProgress(from io.Reader, std streams) *progress {
	file, ok := from.(*os.File)
	if !ok || !isRegular(file) || !isTerminal(std.err) || isTerminal(std.out) {
		return nil
	}
	info, err := file.Stat()
	if err != nil {
		return nil
	}
	return startProgress(info.Size(), std, progressbar.OptionShowBytes(true))
}

// newCount shows how many of n things are done.
func newCount(n int, std streams) *progress {
	if !isTerminal(std.err) || isTerminal(std.out) {
		return nil
	}
	return startProgress(int64(n), std, progressbar.OptionShowCount())
}

func startProgress(n int64, std streams, unit progressbar.Option) *progress {
	return &progress{now: time.Now, bar: progressbar.NewOptions64(n, unit,
		progressbar.OptionSetWriter(std.err),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100e6),
		progressbar.OptionClearOnFinish(),
	)}
}

// add says that n more are done.
func (p *progress) add(n int) {
	if p != nil {
		p.bar.Add(n)
	}
}

// begin says that the work begins now: what was done before it, such as opening
// the model, counts for no rate.
func (p *progress) begin() {
	if p != nil {
		p.start = p.now()
		p.bar.StartWithoutRender() // or its own clock would start with the first batch, which took no time then
	}
}

// rate says that n more tokens are done, and shows how many that is a second
// since the work began. The first come in one batch, so there is none before
// some time has passed.
func (p *progress) rate(n int) {
	if p == nil {
		return
	}
	p.tokens += n
	if s := p.now().Sub(p.start).Seconds(); s > 0.5 {
		p.bar.Describe(fmt.Sprintf("%.0f tok/s", float64(p.tokens)/s))
	}
}

func (p *progress) finish() {
	if p != nil {
		p.bar.Clear()
	}
}

func isTerminal(w any) bool {
	if out, ok := w.(*checkedWriter); ok {
		w = out.Writer
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

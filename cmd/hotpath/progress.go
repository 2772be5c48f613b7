package main

import (
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how much of a file was read. A nil one shows nothing.
type progress struct{ bar *progressbar.ProgressBar }

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
	return &progress{progressbar.NewOptions64(info.Size(),
		progressbar.OptionSetWriter(std.err),
		progressbar.OptionShowBytes(true),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100e6),
		progressbar.OptionClearOnFinish(),
	)}
}

func (p *progress) reader(r io.Reader) io.Reader {
	if p == nil {
		return r
	}
	return io.TeeReader(r, p.bar)
}

func (p *progress) finish() {
	if p != nil {
		p.bar.Clear()
	}
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

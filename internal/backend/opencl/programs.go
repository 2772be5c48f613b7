package opencl

import (
	"fmt"
	"runtime"
	"sync"
)

// built is a program that is being compiled, or is compiled.
type built struct {
	ready   chan struct{} // closed when the others are set
	program program
	err     error
}

// program compiles code once. Programs with different code are compiled at the same
// time; whoever wants one that is being compiled waits for it.
func (b *Backend) program(c code) (program, error) {
	key := c.key()
	b.mu.Lock()
	w := b.programs[key]
	if w != nil {
		b.mu.Unlock()
		<-w.ready
		return w.program, w.err
	}
	w = &built{ready: make(chan struct{})}
	b.programs[key] = w
	b.mu.Unlock()
	w.program, w.err = b.compile(c)
	if w.err != nil { // the next call tries again
		b.mu.Lock()
		delete(b.programs, key)
		b.mu.Unlock()
	}
	close(w.ready)
	return w.program, w.err
}

// noWarnings is an option: some compilers print warnings to the standard error output,
// of loops that they do not unroll for example.
const noWarnings = " -w"

// compile makes a program of a kept binary, or of its source. A compiler may refuse an
// extension that the device names: then the program is compiled without extensions.
func (b *Backend) compile(c code) (p program, err error) {
	text := c.source()
	options := []string{b.about.options() + c.defines() + noWarnings}
	if plain := plainOptions + c.defines() + noWarnings; plain != options[0] {
		options = append(options, plain)
	}
	for _, o := range options {
		if p, ok := b.kept.load(b.drv, text, o); ok {
			return p, nil
		}
	}
	for _, o := range options {
		p, failed := b.drv.build(text, o)
		if failed == nil {
			b.kept.store(b.drv, p, text, o)
			return p, nil
		}
		if err == nil {
			err = failed
		}
	}
	return 0, fmt.Errorf("kernels for %s: %w", b.about.Name, err)
}

// mostBuilds is the number of programs that are compiled at a time, at most.
const mostBuilds = 8

// prepare compiles programs that will be wanted, in parallel. It returns the first
// error by the order of the programs.
func (b *Backend) prepare(wanted []code) error {
	var missing []code
	seen := map[string]bool{}
	for _, c := range wanted {
		if key := c.key(); !seen[key] {
			seen[key], missing = true, append(missing, c)
		}
	}
	errs := make([]error, len(missing))
	next := make(chan int, len(missing))
	for i := range missing {
		next <- i
	}
	close(next)
	var all sync.WaitGroup
	for range min(len(missing), runtime.GOMAXPROCS(0), mostBuilds) {
		all.Go(func() {
			for i := range next {
				_, errs[i] = b.program(missing[i])
			}
		})
	}
	all.Wait()
	return firstOf(errs...)
}

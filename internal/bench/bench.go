// Package bench measures kernels, ops and whole models, and says with
// statistics what changed between two measurements.
//
// Groups is the table of benchmarks; Select picks cases from it. Run takes samples
// of them in turn, so that a slow minute of the machine affects all cases alike, and
// gives each sample to an Emit. Read reads a report, as text in Go's benchmark format
// or as JSON, and Compare compares two reports.
//
// Only commands import it. Measurements return the first error that a case
// meets, with the case's name; readers treat files as hostile, name the file
// and what they expected, and never panic.
package bench

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"hotpath/internal/experiment"
	"hotpath/internal/kernel/ceiling"
	"hotpath/internal/kernel/isa"
)

// ErrNoModel reports a group that measures a model, without one, and ErrNoCase
// that nothing is left to measure.
var (
	ErrNoModel = errors.New("-m MODEL is missing")
	ErrNoCase  = errors.New("nothing to measure")
)

// Case is one thing that is measured.
type Case struct {
	// Name has the form Group/key=value/..., without the workers at its end.
	Name    string
	Threads int
	// Open makes ready what a sample runs. Each sample opens its case anew, so
	// that no case owes its figures to one lucky layout of memory.
	Open func(ctx context.Context) (*Work, error)

	cost []Cost // of one operation, known after the first sample
}

// FullName is the name as reports have it: the workers come last.
func (c *Case) FullName() string { return fmt.Sprintf("%s-%d", c.Name, c.Threads) }

// Work is an open case.
type Work struct {
	// Run does the operation n times and returns the time that counts.
	Run func(n int) (time.Duration, error)
	// Cost finds out what one operation costs; asked once a case.
	Cost func() ([]Cost, error)
	// Tokens is how many tokens one operation passes; 0 where that means
	// nothing.
	Tokens float64
	// Passes is how often one operation goes over the same memory, 0 meaning
	// once: the read ceiling is that of the bytes of one pass.
	Passes int
	// Rates are given by cases that measure a rate themselves; the operation
	// and its cost are then not looked at.
	Rates func() ([]Value, error)
	Close func() error
}

// Cost is the arithmetic and the least memory traffic of a step.
type Cost struct {
	Class        string // compute class, which picks the ceiling of the FLOPs
	FLOPs, Bytes float64
}

// Value is one figure of a sample.
type Value struct {
	Value float64
	Unit  string
}

// Sample is one measurement of a case.
type Sample struct {
	Name   string
	Iters  int
	Values []Value
}

// Emit takes samples as they come.
type Emit func(Sample) error

// Options say what is measured, and how often.
type Options struct {
	Threads   int    // the most workers; 0 means one a core
	Precision string // f32, bf16 or auto; "" is auto
	Model     string // a file or directory; "" leaves models out
	Invariant bool   // models answer alike whatever else is in the batch
	Count     int    // samples a case
	Time      time.Duration
}

// Env is what the cases of one process share.
type Env struct {
	Options
	backends map[string]*backend
	encoded  map[weightsKey][]byte
	model    *modelHandle
}

// NewEnv makes ready for measuring; Close frees what cases left open.
func NewEnv(o Options) (*Env, error) {
	if err := isa.Err(); err != nil {
		return nil, err
	}
	if o.Threads == 0 {
		o.Threads = isa.Threads()
	}
	e := &Env{Options: o, backends: map[string]*backend{}, encoded: map[weightsKey][]byte{}}
	if o.Model != "" {
		h, err := openModel(e, o.Model)
		if err != nil {
			return nil, err
		}
		e.model = h
	}
	return e, nil
}

// threads are the numbers of workers that cases run with: powers of two, and
// all there are.
func (e *Env) threads() []int {
	var out []int
	for n := 1; n < e.Threads; n *= 2 {
		out = append(out, n)
	}
	return append(out, e.Threads)
}

// Select lists the cases of the named groups, all of them without a name,
// whose full name matches filter. A group that was named has cases, or the
// model is none for it.
func (e *Env) Select(names []string, filter *regexp.Regexp) ([]*Case, error) {
	for _, name := range names {
		if !slices.ContainsFunc(Groups, func(g Group) bool { return g.Name == name }) {
			return nil, fmt.Errorf("no benchmark %q, expected %s", name, strings.Join(GroupNames(), ", "))
		}
	}
	var out []*Case
	for _, g := range Groups {
		if len(names) > 0 && !slices.Contains(names, g.Name) {
			continue
		}
		if g.Model != "" && e.model == nil {
			if len(names) > 0 {
				return nil, fmt.Errorf("%s: %w", g.Name, ErrNoModel)
			}
			continue
		}
		cases := g.Cases(e)
		if len(names) > 0 && len(cases) == 0 {
			return nil, fmt.Errorf("%s: %w with %s: expected a model that %s", g.Name, ErrNoCase, e.Model, g.Model)
		}
		for _, c := range cases {
			if filter == nil || filter.MatchString(c.FullName()) {
				out = append(out, c)
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: no case matches %q; --list shows them", ErrNoCase, filter)
	}
	return out, nil
}

// Run takes Count samples of each case, one per round, in the order of
// experiment.Place. Each round measures the ceilings again, so that a figure is
// compared with what the machine could do at that time.
func (e *Env) Run(ctx context.Context, cases []*Case, emit Emit) error {
	for round := range e.Count {
		roof := ceiling.NewRoof(ctx)
		for k := range cases {
			c := cases[experiment.Place(round, k, len(cases))]
			s, err := e.sample(ctx, c, roof)
			if err != nil {
				return fmt.Errorf("%s: %w", c.FullName(), err)
			}
			if err := emit(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// sample opens a case, measures it once and closes it.
func (e *Env) sample(ctx context.Context, c *Case, roof *ceiling.Roof) (s Sample, err error) {
	if err := ctx.Err(); err != nil {
		return s, err
	}
	w, err := c.Open(ctx)
	if err != nil {
		return s, err
	}
	if w.Close != nil {
		defer func() {
			if cerr := w.Close(); err == nil {
				err = cerr
			}
		}()
	}
	s = Sample{Name: c.FullName(), Iters: 1}
	if w.Rates != nil {
		if s.Values, err = w.Rates(); err == nil {
			err = ctx.Err()
		}
		return s, err
	}
	if c.cost == nil {
		if c.cost, err = w.Cost(); err != nil {
			return s, err
		}
	}
	m, err := measure(ctx, w.Run, e.Time)
	if err != nil {
		return s, err
	}
	s.Iters, s.Values = m.n, m.values(c, w, roof)
	return s, ctx.Err() // it ends the ceilings too, with less than they are
}

// measurement is n operations.
type measurement struct {
	n             int
	elapsed       time.Duration
	mallocs, heap uint64
}

// measure repeats an operation until it took at least d. What was left over by
// preparations is collected before the clock starts.
func measure(ctx context.Context, run func(n int) (time.Duration, error), d time.Duration) (m measurement, err error) {
	if _, err := run(1); err != nil { // caches, tables, lazily made programs
		return m, err
	}
	runtime.GC()
	var before, after runtime.MemStats
	for m.n = 1; ; {
		runtime.ReadMemStats(&before)
		m.elapsed, err = run(m.n)
		runtime.ReadMemStats(&after)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return m, err
		}
		m.mallocs, m.heap = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
		if m.elapsed >= d || m.n >= 1e9 {
			return m, nil
		}
		// A fifth more than needed, but no wild guess from a short measure.
		each := max(1, int64(m.elapsed)/int64(m.n))
		m.n = max(m.n+1, min(100*m.n, int(int64(d)*6/5/each)+1))
	}
}

// values are the figures of a measurement.
func (m measurement) values(c *Case, w *Work, roof *ceiling.Roof) []Value {
	each := max(m.elapsed.Seconds(), 1e-9) / float64(m.n)
	var total Cost
	for _, cost := range c.cost {
		total.FLOPs += cost.FLOPs
		total.Bytes += cost.Bytes
	}
	out := []Value{{each * 1e9, "ns/op"}}
	add := func(v float64, unit string) {
		if v > 0 {
			out = append(out, Value{v, unit})
		}
	}
	add(w.Tokens/each, "tok/s")
	add(total.FLOPs/each/1e9, "GFLOP/s")
	add(total.Bytes/each/1e9, "GB/s")
	add(100*floor(roof, c, total.Bytes/float64(max(1, w.Passes)))/each, "%ceiling")
	add(total.FLOPs, "flops/op")
	add(total.Bytes, "bytes/op")
	return append(out, Value{float64(m.heap / uint64(m.n)), "B/op"}, Value{float64(m.mallocs / uint64(m.n)), "allocs/op"})
}

// repeated makes a Run of an operation whose whole time counts.
func repeated(f func() error) func(n int) (time.Duration, error) {
	return func(n int) (time.Duration, error) {
		start := time.Now()
		for range n {
			if err := f(); err != nil {
				return 0, err
			}
		}
		return time.Since(start), nil
	}
}

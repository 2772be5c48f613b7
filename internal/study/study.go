// Package study makes experiments with a model on this machine and writes what
// they show: which mode of sharing work is faster, what each optimisation gains,
// how speed scales with threads, what a faster kernel would gain, and how sizes fit
// the caches.
//
// Experiments follow package experiment: arms take turns, the baseline is compared
// with a second instance of itself, and every difference has an interval. Studies
// is the table of studies; Run makes one and gives a Report, which Write puts into a
// folder.
//
// Only commands import it. Errors are those of the work; a report with a blank
// in it is an error too.
package study

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"hotpath/internal/kernel/ceiling"
	"hotpath/internal/kernel/isa"
)

// ErrNoModel reports a study that needs a model, without one.
var ErrNoModel = errors.New("-m MODEL is missing")

// Options say what is studied.
type Options struct {
	Model     string // a file or directory
	Threads   int    // the most workers; 0 means one a core
	Precision string // f32, bf16 or auto; "" is auto
	Invariant bool   // answers do not depend on what else is in the batch
	Quick     bool   // two blocks and small sizes: to see it work, not to learn from
	// Budget is about how long the experiments take together; 0 is the
	// study's own.
	Budget time.Duration
	// Steps limits whatif to kinds of steps, or names of steps, that contain
	// one of these.
	Steps []string
	// Progress, if not nil, is told what is being done.
	Progress func(what string, done, of int)
}

// Study is a row of the table.
type Study struct {
	Name  string
	What  string
	Model bool // needs one
	run   func(ctx context.Context, s *session) (*Report, error)
}

// Studies is the table of studies.
var Studies = []Study{
	{"parallelism", "fine, coarse or auto: which way of sharing a batch is faster, and when", true, parallelism},
	{"ablation", "what each optimisation is worth: each switched off alone", true, ablation},
	{"scaling", "threads, batch and length; what keeps more threads from being faster", true, scaling},
	{"whatif", "what would be gained if one kind of step were faster", true, whatif},
	{"cache", "tiles, batches and widths against the caches of this machine", false, caching},
	{"tiles", "an OpenCL device: what choosing the tile of a product by its shape is worth", false, deviceTiles},
	{"transfers", "an OpenCL device: copies that do not block, and embedding lookup there", false, transfers},
}

// Names lists the table.
func Names() []string {
	names := make([]string, len(Studies))
	for i, s := range Studies {
		names[i] = s.Name
	}
	return names
}

// Needs reports whether a study needs a model.
func Needs(name string) bool {
	for _, s := range Studies {
		if s.Name == name {
			return s.Model
		}
	}
	return false
}

// Run makes a study.
func Run(ctx context.Context, name string, o Options) (*Report, error) {
	for _, st := range Studies {
		if st.Name != name {
			continue
		}
		if st.Model && o.Model == "" {
			return nil, fmt.Errorf("study %s: %w", name, ErrNoModel)
		}
		s, err := open(o)
		if err != nil {
			return nil, err
		}
		r, err := st.run(ctx, s)
		if err = errors.Join(err, s.close()); err != nil {
			return nil, err
		}
		r.Name, r.Created = name, time.Now().UTC().Round(0)
		r.Facts = append(s.facts(ctx), r.Facts...)
		if ctx.Err() != nil { // facts that were cut short are none
			return nil, context.Cause(ctx)
		}
		if o.Quick {
			r.Advice = append([]string{"Made with --quick: two blocks of small work show that the study runs, and nothing about this machine. Rely on none of what follows."}, r.Advice...)
		}
		return r, r.Check()
	}
	return nil, fmt.Errorf("no study %q, expected %s", name, strings.Join(Names(), ", "))
}

// designs shares the time of a study out among its experiments.
type designs struct {
	quick  bool
	left   int
	budget time.Duration
	until  time.Time // when the budget is spent
	// limited leaves experiments out that would end more than a third of the
	// budget later.
	limited bool
}

// plan is for so many experiments that take so long altogether.
func (s *session) plan(experiments int, budget time.Duration) *designs {
	if s.Budget > 0 {
		budget = s.Budget
	}
	return &designs{quick: s.Quick, left: experiments, budget: budget, until: time.Now().Add(budget)}
}

// room is the time that there is at most from now on.
func (d *designs) room() time.Duration { return time.Until(d.until.Add(d.budget / 3)) }

// skip leaves an experiment out.
func (d *designs) skip() { d.left-- }

// next is the design of the next experiment: what is left of the time is shared
// by the experiments that are left, so that a slow one shortens the others.
func (d *designs) next() Design {
	if d.quick {
		return quickDesign
	}
	x := fullDesign
	x.Budget = time.Until(d.until) / time.Duration(max(1, d.left))
	x.Seed = uint64(d.left)
	if d.limited {
		x.Limit = max(time.Second, d.room())
	}
	d.left--
	if x.Budget <= 0 {
		x.Least = 3 // late already: as few as an interval can be made of
	}
	return x
}

func (s *session) say(done, of int, format string, args ...any) {
	if s.Progress != nil {
		s.Progress(fmt.Sprintf(format, args...), done, of)
	}
}

// facts are those of the machine, the build and the model.
func (s *session) facts(ctx context.Context) []Fact {
	h := isa.Host()
	c := ceiling.Measure(ctx, s.Threads)
	rates := []string{"f32 " + number(c.F32/1e9) + " GFLOP/s"}
	for _, class := range []string{"bf16", "i8g32"} {
		if v := c.Class[class]; v > 0 {
			rates = append(rates, class+" "+number(v/1e9)+" GFLOP/s")
		}
	}
	rates = append(rates, "memory "+number(c.Read/1e9)+" GB/s")
	out := []Fact{
		{"machine", fmt.Sprintf("%s, %d cores, tier %s, %s/%s", h.Brand, h.Cores, isa.Active(), runtime.GOOS, runtime.GOARCH)},
		{"caches", cacheNames(h)},
		{"ceilings", strings.Join(rates, ", ") + ", measured after the experiments with " + plural(s.Threads, "thread")},
		{"go", runtime.Version()},
	}
	if s.model != nil {
		m := s.model.Config()
		out = append(out, Fact{"model", fmt.Sprintf("%s (%s): %d layers, width %d, %s parameters", s.name, m.Arch, m.Layers, m.Dim, number(float64(m.ParamCount)))})
	}
	method := "arms in random order and back, in blocks; the interval is 95 per cent of a bootstrap over the log-ratios of blocks; the control is the baseline against a second instance of itself"
	if s.Quick {
		method += "; --quick: two blocks, which show that it works and nothing else"
	}
	return append(out, Fact{"method", method})
}

func cacheNames(h isa.Machine) string {
	var parts []string
	for _, l := range []struct {
		name  string
		bytes int
	}{{"L1d", h.L1D}, {"L2", h.L2}, {"L3", h.L3}} {
		if l.bytes > 0 {
			parts = append(parts, l.name+" "+bytes(float64(l.bytes)))
		}
	}
	if len(parts) == 0 {
		return "this system does not say"
	}
	return strings.Join(parts, ", ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// bytes writes a size in binary units.
func bytes(v float64) string {
	for _, u := range []struct {
		unit string
		size float64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if v >= u.size {
			return number(v/u.size) + " " + u.unit
		}
	}
	return number(v) + " B"
}

// millis writes seconds.
func millis(s float64) string {
	if math.Abs(s) < 1e-3 {
		return number(s*1e6) + " µs"
	}
	return number(s*1e3) + " ms"
}

// change writes a log-ratio of times as per cent with its interval.
func change(e Estimate) string {
	p := e.Percent()
	if p.N < 2 {
		return fmt.Sprintf("%+.1f %%", p.Mid)
	}
	return fmt.Sprintf("%+.1f %% (%+.1f to %+.1f)", p.Mid, finite(p.Low, -100), finite(p.High, 999))
}

package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"hotpath/internal/perf"
)

// seenCondition is a condition that was looked at closely, in each mode.
type seenCondition struct {
	*condition
	modes []*observation // as modes
}

func (c *seenCondition) texts() string { return fmt.Sprintf("%d of %s", c.batch, c.mix.name) }

// parallelWhy looks at one batch of each mix with all CPUs: what workers do and
// wait for in each mode, and what the scheduler and the collector have to do.
func (s *session) parallelWhy(ctx context.Context, cells []*condition) ([]Section, error) {
	calls := 10
	if s.Quick {
		calls = 2
	}
	var seen []*seenCondition
	for _, c := range s.closely(cells) {
		seen = append(seen, &seenCondition{condition: c})
	}
	flames := Section{Title: "Flame graphs"}
	for k, m := range modes {
		var o opened
		r, rec, err := s.recorded(&o, setMode(m, s.Threads))
		for _, c := range seen {
			if err != nil {
				break
			}
			s.say(len(cells), len(cells), "looking at %s, %s", m, c.mix.name)
			var ob *observation
			ob, err = observe(ctx, r, rec, c.work, calls)
			c.modes = append(c.modes, ob)
		}
		if err == nil && k != autoArm {
			var picture string
			if picture, err = flame(rec.Snapshot()); err == nil {
				flames.Figures = append(flames.Figures, Figure{"flame-" + m.String(), fmt.Sprintf("All observed calls in %s mode.", m), picture})
			}
		}
		if err = errors.Join(err, o.close()); err != nil {
			return nil, err
		}
	}
	return []Section{whySection(seen), hotSpots(seen), s.waitSection(seen), schedSection(seen), flames}, nil
}

// closely lists the conditions that are looked at closely: the largest batch of
// each mix, up to the one that is shown.
func (s *session) closely(cells []*condition) (out []*condition) {
	last := map[string]*condition{}
	for _, c := range cells {
		if c.cpus == s.Threads && c.batch <= shown {
			last[c.mix.name] = c
		}
	}
	for _, c := range cells {
		if last[c.mix.name] == c {
			out = append(out, c)
		}
	}
	return out
}

// whySection says why one mode takes less time than the other, by what was
// measured: work, rate, clock, cache misses and waiting.
func whySection(seen []*seenCondition) Section {
	sec := Section{Title: "Why", Table: &Table{Left: 2, Head: []string{"texts", "mode", "time of a call", "GFLOP", "GB moved", "runs", "computing, all workers", "GFLOP/s per worker", "not computing, all workers", "clock", "cache misses"}}}
	for _, c := range seen {
		for k, o := range c.modes {
			flops, bytes := o.work()
			compute, rest := o.computing(), o.laneSeconds()-o.computing()
			sec.Table.addRow(c.texts(), modes[k].String(), millis(o.wall), number(flops/1e9), number(bytes/1e9), number(float64(o.ledger.Runs)/float64(o.calls)),
				millis(compute), number(flops/1e9/max(compute, 1e-12)), millis(rest), o.clock(), o.misses())
		}
		sec.Text = append(sec.Text, explain(c))
	}
	return sec
}

// laneSeconds is workers times wall of one call.
func (o *observation) laneSeconds() float64 { return o.wall * float64(o.workers) }

// computing is the time that all workers computed, of one call.
func (o *observation) computing() float64 {
	return float64(o.ledger.Compute) / 1e9 / float64(o.calls)
}

func (o *observation) clock() string {
	cycles, ok := o.event(perf.Cycles)
	if !ok || o.computing() <= 0 {
		return "not counted here"
	}
	return number(cycles/1e9/o.computing()) + " G cycles per second of compute"
}

func (o *observation) misses() string {
	v, ok := o.event(perf.CacheMisses)
	if !ok {
		return "not counted here"
	}
	return number(v)
}

// explain divides the difference between fine and coarse among what workers did
// and waited for: the parts add up to the difference.
func explain(c *seenCondition) string {
	fine, coarse := c.modes[fineArm], c.modes[coarseArm]
	diff := coarse.laneSeconds() - fine.laneSeconds()
	type part struct {
		name string
		by   float64
	}
	var parts []part
	x, y := fine.parts(), coarse.parts()
	for i, name := range ledgerParts {
		parts = append(parts, part{name, (y[i]*coarse.laneSeconds() - x[i]*fine.laneSeconds()) / 100})
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(math.Abs(b.by), math.Abs(a.by)) })
	var said []string
	for _, p := range parts[:4] {
		said = append(said, fmt.Sprintf("%s %+.3g ms", p.name, 1e3*p.by))
	}
	found := map[string]string{"coarse": "The experiment above found coarse faster", "fine": "The experiment above found fine faster", "void": "The experiment above is void"}[c.better()]
	flopsF, bytesF := fine.work()
	flopsC, bytesC := coarse.work()
	ratio := func(a, b float64) string {
		if b == 0 {
			return "as many"
		}
		return fmt.Sprintf("%.2f times the", a/b)
	}
	return fmt.Sprintf("%s: %s. In these calls coarse took %+.3g ms of the workers' time against fine (%.3g and %.3g ms, all workers together): %s. "+
		"Coarse computed %s FLOPs and moved %s bytes of fine, at %s against %s GFLOP/s per worker.%s",
		c.texts(), cmp.Or(found, "The experiment above shows no difference"), 1e3*diff, 1e3*coarse.laneSeconds(), 1e3*fine.laneSeconds(), strings.Join(said, ", "),
		ratio(flopsC, flopsF), ratio(bytesC, bytesF), number(flopsC/1e9/max(coarse.computing(), 1e-12)), number(flopsF/1e9/max(fine.computing(), 1e-12)), counters(fine, coarse))
}

// counters compares events of the processor where they are counted.
func counters(fine, coarse *observation) string {
	var said []string
	for _, e := range []struct{ event, name string }{{perf.Cycles, "cycles"}, {perf.Instructions, "instructions"}, {perf.CacheMisses, "cache misses"}} {
		x, ok := fine.event(e.event)
		y, too := coarse.event(e.event)
		if ok && too && x > 0 {
			said = append(said, fmt.Sprintf("%.2f times the %s", y/x, e.name))
		}
	}
	if len(said) == 0 {
		return " This machine counts neither cycles nor cache misses for us, so that the reason for a difference in rate is not known beyond this."
	}
	return " It took " + strings.Join(said, ", ") + " of fine."
}

// hotSpots lists the ops that take most time, in both modes.
func hotSpots(seen []*seenCondition) Section {
	const top = 6
	sec := Section{Title: "Hot spots", Text: []string{"The ops that take most of the workers' compute time per call, in fine and in coarse mode. A fused step counts as the op that most of it is."},
		Table: &Table{Left: 2, Head: []string{"texts", "op", "fine", "share of compute", "coarse", "coarse against fine", "fine GFLOP/s", "coarse GFLOP/s"}}}
	for _, c := range seen {
		fine, coarse := c.modes[fineArm], c.modes[coarseArm]
		names := slices.SortedFunc(maps.Keys(fine.ops), func(a, b string) int {
			return cmp.Or(cmp.Compare(fine.ops[b].time, fine.ops[a].time), cmp.Compare(a, b))
		})
		var all float64
		for _, o := range fine.ops {
			all += o.time
		}
		for _, name := range names[:min(top, len(names))] {
			x, y := fine.ops[name], coarse.ops[name]
			of, to := x.time/1e9/float64(fine.calls), y.time/1e9/float64(coarse.calls)
			sec.Table.addRow(c.texts(), name, millis(of), fmt.Sprintf("%.1f %%", 100*x.time/max(all, 1)), millis(to), fmt.Sprintf("%+.3g ms", 1e3*(to-of)),
				number(x.flops/max(x.time, 1)), number(y.flops/max(y.time, 1)))
		}
	}
	return sec
}

func (s *session) waitSection(seen []*seenCondition) Section {
	sec := Section{Title: "Where workers wait", Text: []string{
		"Workers × wall time of a call, in per cent, as the ledger stamps it. Barrier is waiting for others before a step; dispatch in coarse mode is a worker's time before its first run and between its runs, where batches are put together; idle is a worker that a run did not need, and one whose last run of a coarse round has ended while others go on; outside runs is what neither runs nor rounds cover.",
	}, Table: &Table{Left: 2, Head: append([]string{"texts", "mode"}, ledgerParts...)}}
	stacks := Stacks{Title: fmt.Sprintf("Where the time of %s goes, up to %d texts per call", plural(s.Threads, "worker"), shown), Unit: "% of workers × wall", Parts: ledgerParts}
	for _, c := range seen {
		for k, o := range c.modes {
			row, parts := []string{c.texts(), modes[k].String()}, o.parts()
			for _, p := range parts {
				row = append(row, fmt.Sprintf("%.1f", p))
			}
			sec.Table.addRow(row...)
			stacks.Rows = append(stacks.Rows, Stack{c.mix.name + ", " + modes[k].String(), parts})
		}
	}
	sec.Figures = []Figure{{"waits", "Where workers spend a call, by mix and mode.", stacks.SVG()}}
	return sec
}

func schedSection(seen []*seenCondition) Section {
	sec := Section{Title: "Scheduler and allocations", Text: []string{
		"Of one call. Waiting for a thread is the time that goroutines were ready and had none, as the Go scheduler counts it; context switches are the kernel's."},
		Table: &Table{Left: 2, Head: []string{"texts", "mode", "runs", "goroutines", "allocations", "allocated", "waiting for a thread", "context switches", "GC pauses"}}}
	for _, c := range seen {
		for k, o := range c.modes {
			n := float64(o.calls)
			sec.Table.addRow(c.texts(), modes[k].String(), number(float64(o.ledger.Runs)/n), fmt.Sprint(o.goroutines), number(math.Round(o.mallocs*10)/10), bytes(o.heap),
				millis(o.queued), o.switches(), millis(float64(o.ledger.GC)/n/1e9/float64(o.workers)))
		}
	}
	return sec
}

package study

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"hotpath/internal/engine"
	"hotpath/internal/experiment"
)

// scalePoint is the same work with another number of threads.
type scalePoint struct {
	threads int
	seen    *observation
}

// threadCounts are all numbers up to eight, then powers of two and all.
func threadCounts(most int) []int {
	var out []int
	for n := 1; n <= min(most, 8); n++ {
		out = append(out, n)
	}
	for n := 16; n < most; n *= 2 {
		out = append(out, n)
	}
	if most > 8 {
		out = append(out, most)
	}
	return out
}

// amdahl fits time(n) = t1 * (serial + (1-serial)/n) to times relative to one
// thread, by least squares; serial is the part that more threads do not help.
func amdahl(threads []int, relative []float64) float64 {
	var xy, xx float64
	for i, n := range threads {
		x := 1 - 1/float64(n) // relative = 1/n + serial*(1 - 1/n)
		xy += x * (relative[i] - 1/float64(n))
		xx += x * x
	}
	if xx == 0 {
		return 1
	}
	return max(0, min(1, xy/xx))
}

// serialPart is Amdahl's serial part with its interval: the fit of each block.
func serialPart(t *Trial, threads []int) Estimate {
	var fits []float64
	for b := range t.Blocks {
		rel := make([]float64, len(threads))
		one := t.Seconds[0][2*b] + t.Seconds[0][2*b+1]
		for i := range threads {
			rel[i] = (t.Seconds[i][2*b] + t.Seconds[i][2*b+1]) / one
		}
		fits = append(fits, amdahl(threads, rel))
	}
	return experiment.Mean(fits)
}

func scaling(ctx context.Context, s *session) (*Report, error) {
	works := s.growing()
	experiments := 2 + len(works)
	d := s.plan(experiments-1, 100*time.Second)
	r := &Report{
		Title:    "Scaling: threads, batch and length",
		Question: "How does the rate grow with threads, with the batch and with the length of texts, and what keeps it from growing further?",
	}
	threads := threadCounts(s.Threads)
	w := s.usual()
	trial, points, err := s.byThreads(ctx, w, threads, d.next())
	if err != nil {
		return nil, err
	}
	r.Trials = append(r.Trials, NamedTrial{"threads", trial})
	sec, advice := threadSections(w, threads, trial, points)
	r.Sections, r.Advice = append(r.Sections, sec...), append(r.Advice, advice...)
	for i, g := range works {
		s.say(1+i, experiments, "%s", g.title)
		t, err := s.bySize(ctx, g, d.next())
		if err != nil {
			return nil, err
		}
		r.Trials = append(r.Trials, NamedTrial{g.title, t})
		sec, advice := g.section(t)
		r.Sections, r.Advice = append(r.Sections, sec), append(r.Advice, advice)
	}
	return r, nil
}

// byThreads measures work with each number of threads, and looks where the time
// goes with each.
func (s *session) byThreads(ctx context.Context, w work, threads []int, d Design) (_ *Trial, _ []scalePoint, err error) {
	var o opened
	defer func() { err = errors.Join(err, o.close()) }()
	var arms []Arm
	var points []scalePoint
	for _, n := range threads {
		s.say(0, 1, "opening the model for %s", plural(n, "thread"))
		var x opened
		seen, rec, err := s.recorded(&x, setup{engine: engine.Options{Workers: n}})
		if err == nil {
			var ob *observation
			if ob, err = observe(ctx, seen, rec, w, map[bool]int{true: 2, false: 8}[s.Quick]); err == nil {
				points = append(points, scalePoint{n, ob})
			}
		}
		if err = errors.Join(err, x.close()); err != nil {
			return nil, nil, err
		}
		r, err := s.start(&o, setup{engine: engine.Options{Workers: n}})
		if err != nil {
			return nil, nil, err
		}
		arms = append(arms, r.arm(plural(n, "thread"), w))
	}
	again, err := s.start(&o, setup{engine: engine.Options{Workers: 1}})
	if err != nil {
		return nil, nil, err
	}
	s.say(0, 1, "%s with %s", w.name, strings.Trim(strings.ReplaceAll(fmt.Sprint(threads), " ", ", "), "[]")+" threads")
	t, err := d.Measure(ctx, arms, again.arm("1 thread again", w))
	return t, points, err
}

// limits divides what n threads lose against n times one thread: in per cent of
// n × wall. Inflation is that the same work takes more compute time with more
// threads: shared memory, caches, power.
func limits(points []scalePoint) (names []string, loss [][]float64) {
	names = []string{"useful", "compute takes longer", "barriers", "dispatch and idle", "outside runs"}
	one := float64(points[0].seen.ledger.Compute) / float64(points[0].seen.calls)
	for _, p := range points {
		parts := p.seen.parts()
		all := p.seen.wall * float64(p.seen.workers) * 1e9
		useful := 100 * one / all
		loss = append(loss, []float64{min(useful, parts[0]), max(0, parts[0]-useful), parts[1], parts[2] + parts[3], parts[4] + max(0, parts[5])})
	}
	return names, loss
}

func threadSections(w work, threads []int, t *Trial, points []scalePoint) ([]Section, []string) {
	names, loss := limits(points)
	tab := &Table{Left: 1, Head: []string{"threads", "time", "tok/s", "speed-up", "efficiency", "verdict against one thread"}}
	meas := Series{Name: "measured", PointsOnly: true}
	for i, n := range threads {
		up := t.Ratio(i).Map(func(v float64) float64 { return math.Exp(-v) })
		verdict, ratio := "the baseline", "1"
		if i > 0 {
			verdict, ratio = string(t.Judge(i)), fmt.Sprintf("%.2f (%.2f to %.2f)", up.Mid, up.Low, up.High)
		}
		tab.addRow(fmt.Sprint(n), millis(t.Time(i).Mid), number(w.rate(t.Time(i)).Mid), ratio, fmt.Sprintf("%.0f %%", 100*up.Mid/float64(n)), verdict)
		meas.X, meas.Y = append(meas.X, float64(n)), append(meas.Y, up.Mid)
		meas.Low, meas.High = append(meas.Low, finite(up.Low, up.Mid)), append(meas.High, finite(up.High, up.Mid))
	}
	secs := []Section{{Title: "Threads", Table: tab, Text: []string{"The work: " + w.name + ". The control, one thread against one thread again, differs by " + change(t.Noise()) + "."}}}
	last := len(threads) - 1
	var advice []string
	if last == 0 {
		secs[0].Text = append(secs[0].Text, "There is one processor: nothing can be said about threads.")
		return secs, []string{"With one processor there is nothing to scale: threads were not varied."}
	}
	serial := serialPart(t, threads)
	model, ideal := Series{Name: "Amdahl's law", withoutPoint: true}, Series{Name: "ideal", withoutPoint: true}
	for n := 1.0; n <= float64(threads[last]); n += max(0.25, float64(threads[last])/64) {
		model.X, model.Y = append(model.X, n), append(model.Y, 1/(serial.Mid+(1-serial.Mid)/n))
		ideal.X, ideal.Y = append(ideal.X, n), append(ideal.Y, n)
	}
	lines, caption := []Series{model, ideal, meas}, "Speed-up over one thread with 95 per cent intervals, beside Amdahl's law with the fitted serial part."
	fitted := fmt.Sprintf("Amdahl's law fits with a serial part of %.1f %% (%.1f to %.1f): however many threads, the speed-up stays below %s.",
		100*serial.Mid, 100*max(0, serial.Low), 100*min(1, serial.High), ceilingOf(serial.Mid))
	switch {
	case t.Void():
		lines, caption = lines[1:], "Speed-up over one thread with 95 per cent intervals."
		fitted = "The experiment is " + voided(t) + "."
	case len(threads) < leastFit:
		lines, caption = lines[1:], "Speed-up over one thread with 95 per cent intervals."
		fitted = fmt.Sprintf("Amdahl's law is not fitted: %d numbers of threads are not enough points, expected %d or more. Nothing is said about more than %d threads, the most that were measured.", len(threads), leastFit, threads[last])
	}
	top := slices.IndexFunc(loss[last][1:], func(v float64) bool { return v == slices.Max(loss[last][1:]) }) + 1
	secs[0].Text = append(secs[0].Text, fitted)
	secs[0].Figures = []Figure{{"speedup", caption,
		Lines{Title: "Speed-up with threads", XLabel: "threads", YLabel: "times one thread", FromZero: true, Series: lines}.SVG()}}
	stacks := Stacks{Title: "What threads are spent on", Unit: "% of threads × wall", Parts: names}
	lim := &Table{Left: 1, Head: append([]string{"threads"}, names...)}
	for i, n := range threads {
		row := []string{fmt.Sprint(n)}
		for _, v := range loss[i] {
			row = append(row, fmt.Sprintf("%.1f %%", v))
		}
		lim.addRow(row...)
		stacks.Rows = append(stacks.Rows, Stack{plural(n, "thread"), loss[i]})
	}
	secs = append(secs, Section{Title: "What limits", Table: lim, Text: []string{
		"Useful is the compute time of one thread alone. Compute takes longer where threads share caches, memory or power; barriers are waits for the slowest; outside runs is what only one thread does: putting batches together, sampling."},
		Figures: []Figure{{"limits", "Where the time of all threads goes.", stacks.SVG()}}})
	switch t.Judge(last) {
	case experiment.Faster:
		advice = append(advice, fmt.Sprintf("Use %s, the most that were measured: %.2f times as fast as one (time: %s). What keeps it from %d times is first of all: %s (%.0f %% of the threads' time).",
			plural(threads[last], "thread"), math.Exp(-t.Ratio(last).Mid), change(t.Ratio(last)), threads[last], names[top], loss[last][top]))
	case experiment.Slower:
		advice = append(advice, fmt.Sprintf("Use one thread: %d threads change the time by %s.", threads[last], change(t.Ratio(last))))
	case experiment.Void:
		advice = append(advice, fmt.Sprintf("Threads: the experiment is %s.", voided(t)))
	default:
		advice = append(advice, fmt.Sprintf("%d threads are not shown to be faster than one (%s): the machine was too uneven to say, or something else had its processors.", threads[last], change(t.Ratio(last))))
	}
	return secs, advice
}

// leastFit is how many numbers of threads Amdahl's law is fitted to at least: of
// two it fits any.
const leastFit = 3

func ceilingOf(serial float64) string {
	if serial < 0.005 {
		return "some hundreds"
	}
	return fmt.Sprintf("%.1f", 1/serial)
}

// growth is work of growing size.
type growth struct {
	title, label string
	sizes        []int
	works        []work
}

// growing are the sizes that the study varies.
func (s *session) growing() []growth {
	batches, lengths := []int{1, 2, 4, 8, 16, 32, 64}, []int{16, 32, 64, 128, 256}
	if s.Quick {
		batches, lengths = []int{1, 4}, []int{8, 16}
	}
	longest := s.model.Config().MaxSeq
	lengths = slices.DeleteFunc(lengths, func(n int) bool { return n > longest/2 && n > 16 && !s.encodes() || n > longest })
	b, l := growth{title: "Batch", label: "texts of 32 tokens in a call"}, growth{title: "Length", label: "tokens of a text, 4 texts in a call"}
	if !s.encodes() {
		b.label, l.label = "sequences at once, 8 tokens each after a prompt of 8", "tokens of one prompt"
	}
	for _, n := range batches {
		b.sizes = append(b.sizes, n)
		if s.encodes() {
			b.works = append(b.works, s.embed(s.texts(7, even(n, min(32, longest)))))
		} else {
			b.works = append(b.works, s.generate(s.texts(7, even(n, 8)), 8))
		}
	}
	for _, n := range lengths {
		l.sizes = append(l.sizes, n)
		if s.encodes() {
			l.works = append(l.works, s.embed(s.texts(8, even(4, n))))
		} else {
			l.works = append(l.works, s.generate(s.texts(8, even(1, n)), 1))
		}
	}
	return []growth{b, l}
}

func (s *session) bySize(ctx context.Context, g growth, d Design) (_ *Trial, err error) {
	var o opened
	defer func() { err = errors.Join(err, o.close()) }()
	r, err := s.start(&o, setup{engine: engine.Options{NoPrefix: true}})
	if err != nil {
		return nil, err
	}
	var arms []Arm
	for i, w := range g.works {
		arms = append(arms, r.arm(fmt.Sprint(g.sizes[i]), w))
	}
	return d.Measure(ctx, arms, Arm{})
}

func (g growth) section(t *Trial) (Section, string) {
	tab := &Table{Left: 1, Head: []string{g.label, "time", "tok/s", "time a token against the smallest"}}
	s := Series{Name: "tokens a second"}
	best := 0
	var rates []Estimate
	for i, w := range g.works {
		e := w.rate(t.Time(i))
		rates = append(rates, e)
		if e.Mid > rates[best].Mid {
			best = i
		}
		rel := t.Ratio(i)
		shift := math.Log(float64(g.works[0].tokens) / float64(w.tokens))
		against := "the baseline"
		if i > 0 {
			against = change(rel.Map(func(v float64) float64 { return v + shift }))
		}
		tab.addRow(fmt.Sprint(g.sizes[i]), millis(t.Time(i).Mid), number(e.Mid), against)
		s.X, s.Y = append(s.X, float64(g.sizes[i])), append(s.Y, e.Mid)
		s.Low, s.High = append(s.Low, finite(e.Low, e.Mid)), append(s.High, finite(e.High, e.Mid))
	}
	sec := Section{Title: g.title, Table: tab, Figures: []Figure{{strings.ToLower(g.title), "Tokens a second over size; the band is the 95 per cent interval.",
		Lines{Title: "Rate by " + strings.ToLower(g.title), XLabel: g.label, YLabel: "tokens a second", LogX: true, FromZero: true, Series: []Series{s}}.SVG()}}}
	// How long a token takes at the best size against size i, block by block.
	against := func(i int) Estimate {
		return t.Between(best, i).Map(func(v float64) float64 {
			return v + math.Log(float64(g.works[i].tokens)/float64(g.works[best].tokens))
		})
	}
	if t.Void() {
		sec.Text = []string{"The experiment is " + voided(t) + "."}
		return sec, fmt.Sprintf("%s: the experiment is %s.", g.title, voided(t))
	}
	if experiment.Judge(against(0), t.Noise()) != experiment.Faster {
		return sec, fmt.Sprintf("%s: no size is shown to have a higher rate than %d.", g.title, g.sizes[0])
	}
	enough := best // the smallest size than which the best is not shown to be better
	for i := range best {
		if experiment.Judge(against(i), t.Noise()) != experiment.Faster {
			enough = i
			break
		}
	}
	times := against(0).Map(func(v float64) float64 { return math.Exp(-v) })
	return sec, fmt.Sprintf("%s: the rate is highest at %d (%s tok/s), %.1f times that of %d (%.1f to %.1f); %s.",
		g.title, g.sizes[best], number(rates[best].Mid), times.Mid, g.sizes[0], times.Low, times.High, g.beyond(enough))
}

// leastBeyond is how many larger sizes must show no gain before one may say that
// there is none.
const leastBeyond = 2

// beyond says what larger sizes give, as far as they were measured.
func (g growth) beyond(enough int) string {
	last := len(g.sizes) - 1
	switch {
	case enough == last:
		return fmt.Sprintf("%d is the largest measured, and larger ones may be faster still", g.sizes[last])
	case last-enough < leastBeyond:
		return fmt.Sprintf("there are not enough points beyond %d to say whether it grows further, %d is the largest measured", g.sizes[enough], g.sizes[last])
	}
	return fmt.Sprintf("from %d up to %d, the largest measured, no further gain is shown", g.sizes[enough], g.sizes[last])
}

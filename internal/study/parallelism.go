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

// mix is a kind of batch by the lengths of its texts.
type mix struct {
	name    string
	lengths []int // that take turns
	batches []int
}

func (m mix) batch(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = m.lengths[i%len(m.lengths)]
	}
	return out
}

var (
	mixes = []mix{
		{"5, 15 and 40 tokens", []int{5, 15, 40}, []int{8, 16, 32, 64, 128}},
		{"12 tokens each", []int{12}, []int{8, 16, 32, 64, 128}},
		{"256 tokens each", []int{256}, []int{8, 32}},
	}
	quickMixes = []mix{
		{"5, 15 and 40 tokens", []int{5, 15, 40}, []int{8, 32}},
		{"12 tokens each", []int{12}, []int{8}},
	}
	modes = []engine.Mode{engine.Fine, engine.Coarse, engine.Auto}
)

// shown is the condition that is looked at closely.
const shown = 32

// cpuCounts are powers of two and all there are.
func cpuCounts(most int) []int {
	var out []int
	for n := 1; n < most; n *= 2 {
		out = append(out, n)
	}
	return append(out, most)
}

// condition is one cell of the grid with what was measured in it.
type condition struct {
	cpus, batch int
	mix         mix
	work        work
	trial       *Trial // arms as modes
	without     string // why there is none
}

func (c *condition) name() string {
	return fmt.Sprintf("%s, %d texts of %s", plural(c.cpus, "CPU"), c.batch, c.mix.name)
}

func parallelism(ctx context.Context, s *session) (*Report, error) {
	if !s.model.Config().CanEmbed {
		return nil, fmt.Errorf("study parallelism: %s does not embed, and only embedding shares batches in more than one way", s.name)
	}
	grid := mixes
	if s.Quick {
		grid = quickMixes
	}
	var cells []*condition
	counts := cpuCounts(s.Threads)
	slices.Reverse(counts) // all CPUs first: where time runs out, the others are left out
	for _, n := range counts {
		for _, m := range grid {
			if m.lengths[0] > s.model.Config().MaxSeq {
				continue
			}
			for _, b := range m.batches {
				cells = append(cells, &condition{cpus: n, batch: b, mix: m, work: s.embed(s.texts(uint64(b), m.batch(b)))})
			}
		}
	}
	d := s.plan(len(cells), 150*time.Second)
	d.limited = true
	if err := s.grid(ctx, cells, d); err != nil {
		return nil, err
	}
	left := Section{Title: "Left out"}
	var without []string
	for _, c := range cells {
		if c.trial == nil {
			without = append(without, fmt.Sprintf("%s (%s)", c.name(), c.without))
		}
	}
	if len(without) > 0 {
		left.Text = []string{"There was no time for these; --time gives more: " + strings.Join(without, "; ") + "."}
	}
	cells = slices.DeleteFunc(cells, func(c *condition) bool { return c.trial == nil })
	if len(cells) == 0 {
		return nil, errors.New("study parallelism: there was no time for a single experiment: give more with --time")
	}
	r := &Report{
		Title:    "Parallelism: fine, coarse or auto",
		Question: "Fine lets all workers share each step of one run; coarse gives each worker whole texts of its own; auto, the default, picks for each batch. Which is faster, when, and why?",
		Advice:   parallelAdvice(cells),
	}
	r.Sections = append(r.Sections, parallelTable(cells), parallelFigures(cells))
	why, err := s.parallelWhy(ctx, cells)
	if err != nil {
		return nil, err
	}
	r.Sections = append(r.Sections, why...)
	if len(left.Text) > 0 {
		r.Sections = append(r.Sections, left)
	}
	for _, c := range cells {
		r.Trials = append(r.Trials, NamedTrial{c.name(), c.trial})
	}
	return r, nil
}

// grid measures all conditions, with engines for one number of CPUs at a time.
func (s *session) grid(ctx context.Context, cells []*condition, d *designs) (err error) {
	var engines opened
	defer func() { err = errors.Join(err, engines.close()) }()
	var arms []*running
	opened := 0          // for how many CPUs
	var perToken float64 // seconds, as last seen
	for i, c := range cells {
		// What cannot be done is not begun: a batch that takes minutes would be
		// warmed up only to be left out.
		if fewestTakes := perToken * float64(c.work.tokens*2*experiment.Fewest*(len(modes)+1)); d.limited && !d.quick && fewestTakes > max(0, d.room().Seconds()) {
			c.without = fmt.Sprintf("about %.1f s", fewestTakes)
			d.skip()
			continue
		}
		if opened != c.cpus {
			opened = c.cpus
			if err := engines.close(); err != nil {
				return err
			}
			arms = arms[:0]
			for _, m := range append(modes, engine.Fine) { // the last is the control
				r, err := s.start(&engines, setMode(m, c.cpus))
				if err != nil {
					return err
				}
				arms = append(arms, r)
			}
		}
		s.say(i, len(cells), "%s", c.name())
		var run []Arm
		for k, m := range modes {
			run = append(run, arms[k].arm(m.String(), c.work))
		}
		c.trial, err = d.next().Measure(ctx, run, arms[len(modes)].arm("fine again", c.work))
		if errors.Is(err, experiment.ErrNoTime) {
			c.without, err = strings.TrimPrefix(err.Error(), experiment.ErrNoTime.Error()+": "), nil
			continue
		}
		if err != nil {
			return err
		}
		perToken = c.trial.Median(fineArm) / float64(c.work.tokens)
	}
	return nil
}

// Arms of a condition's trial, as modes has them.
const (
	fineArm = iota
	coarseArm
	autoArm
)

// better names the mode that a condition speaks for, or "either", or "void".
func (c *condition) better() string {
	switch c.trial.Judge(coarseArm) {
	case experiment.Void:
		return "void"
	case experiment.Faster:
		return "coarse"
	case experiment.Slower:
		return "fine"
	}
	return "either"
}

// autoLoss is how much slower auto is than the better of the two, where that is
// shown.
func (c *condition) autoLoss() (Estimate, bool) {
	base := fineArm
	if c.better() == "coarse" {
		base = coarseArm
	}
	e := c.trial.Between(autoArm, base)
	return e, experiment.Judge(e, c.trial.Noise()) == experiment.Slower
}

func parallelTable(cells []*condition) Section {
	t := &Table{Left: 2, Head: []string{"CPUs", "texts", "batch", "use", "fine", "coarse", "auto", "coarse against fine, time", "auto against fine, time", "control", "blocks"}}
	for _, c := range cells {
		cells := []string{fmt.Sprint(c.cpus), c.mix.name, fmt.Sprint(c.batch), c.better()}
		for k := range modes {
			cells = append(cells, number(c.work.rate(c.trial.Time(k)).Mid)+" tok/s")
		}
		t.addRow(append(cells, change(c.trial.Ratio(coarseArm)), change(c.trial.Ratio(autoArm)), change(c.trial.Noise()), fmt.Sprint(c.trial.Blocks))...)
	}
	return Section{Title: "Timing", Table: t, Text: []string{
		"A change of time below zero is faster. The column of what to use names a mode only where the interval of coarse against fine excludes zero. A row whose control excludes zero is void: fine differed from fine there."}}
}

func parallelFigures(cells []*condition) Section {
	sec := Section{Title: "Pictures"}
	type key struct {
		cpus int
		mix  string
	}
	series := map[key]*[3]Series{}
	var order []key
	var bars []Bar
	for _, c := range cells {
		k := key{c.cpus, c.mix.name}
		if series[k] == nil {
			series[k] = &[3]Series{{Name: "fine"}, {Name: "coarse"}, {Name: "auto"}}
			order = append(order, k)
		}
		for i := range modes {
			e := c.work.rate(c.trial.Time(i))
			r := &series[k][i]
			r.X, r.Y = append(r.X, float64(c.batch)), append(r.Y, e.Mid)
			r.Low, r.High = append(r.Low, finite(e.Low, e.Mid)), append(r.High, finite(e.High, e.Mid))
		}
		e := c.trial.Ratio(coarseArm).Percent()
		color := 7
		if v := c.better(); v == "coarse" {
			color = 2
		} else if v == "fine" {
			color = 1
		}
		bars = append(bars, Bar{Label: fmt.Sprintf("%d CPU, %d × %s", c.cpus, c.batch, c.mix.name), Value: e.Mid, Low: finite(e.Low, e.Mid), High: finite(e.High, e.Mid), Color: color})
	}
	sec.Figures = append(sec.Figures, Figure{"coarse-against-fine", "Time of coarse against fine: left of zero coarse is faster. Green: coarse shown to be faster, orange: fine, grey: neither, or void.",
		Bars{Title: "Coarse against fine", Unit: "% time", Bars: bars}.SVG()})
	for i, k := range order {
		if len(series[k][0].X) < 2 {
			continue // a point is no line; the bars and the table have it
		}
		sec.Figures = append(sec.Figures, Figure{fmt.Sprintf("rate-%d", i+1), fmt.Sprintf("Tokens a second over the batch size, %s, texts of %s; bands are 95 per cent intervals.", plural(k.cpus, "CPU"), k.mix),
			Lines{Title: fmt.Sprintf("%s, texts of %s", plural(k.cpus, "CPU"), k.mix), XLabel: "texts in a call", YLabel: "tokens a second", LogX: true, FromZero: true, Series: series[k][:]}.SVG()})
	}
	return sec
}

// parallelAdvice says which mode to use when.
func parallelAdvice(cells []*condition) []string {
	var out []string
	type key struct {
		cpus int
		mix  string
	}
	groups := map[key][]*condition{}
	var order []key
	for _, c := range cells {
		k := key{c.cpus, c.mix.name}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], c)
	}
	for _, k := range order {
		by := map[string][]*condition{}
		for _, c := range groups[k] {
			by[c.better()] = append(by[c.better()], c)
		}
		for _, m := range []string{"coarse", "fine"} {
			if len(by[m]) == 0 {
				continue
			}
			var batches []string
			lo, hi := math.Inf(1), math.Inf(-1)
			for _, c := range by[m] {
				batches = append(batches, fmt.Sprint(c.batch))
				gain := 100 * (1 - math.Exp(-math.Abs(c.trial.Ratio(coarseArm).Mid)))
				lo, hi = min(lo, gain), max(hi, gain)
			}
			gain := fmt.Sprintf("%.0f to %.0f %%", lo, hi)
			if len(by[m]) == 1 || hi-lo < 1 {
				gain = fmt.Sprintf("%.0f %%", hi)
			}
			out = append(out, fmt.Sprintf("With %s and texts of %s use %s for batches of %s: it takes %s less time than the other way.", plural(k.cpus, "CPU"), k.mix, m, strings.Join(batches, ", "), gain))
		}
		if n := len(by["either"]); n > 0 {
			var batches []string
			for _, c := range by["either"] {
				batches = append(batches, fmt.Sprint(c.batch))
			}
			out = append(out, fmt.Sprintf("With %s and texts of %s no difference is shown for batches of %s: leave auto in place.", plural(k.cpus, "CPU"), k.mix, strings.Join(batches, ", ")))
		}
		if n := len(by["void"]); n > 0 {
			var batches []string
			for _, c := range by["void"] {
				batches = append(batches, fmt.Sprint(c.batch))
			}
			out = append(out, fmt.Sprintf("With %s and texts of %s nothing can be said about batches of %s: these rows are void, because fine differed from fine there.", plural(k.cpus, "CPU"), k.mix, strings.Join(batches, ", ")))
		}
	}
	var misses []string
	valid := 0
	for _, c := range cells {
		if !c.trial.Void() {
			valid++
		}
		if e, lost := c.autoLoss(); lost {
			misses = append(misses, fmt.Sprintf("%s (%s)", c.name(), change(e)))
		}
	}
	switch {
	case valid == 0:
		return append(out, fmt.Sprintf("Nothing can be said about auto: all %d conditions are void. Leave the machine alone meanwhile, or give it more --time.", len(cells)))
	case len(misses) == 0:
		return append(out, fmt.Sprintf("Auto is not shown to be slower than the better mode in any of the %d conditions that are not void: it needs no setting.", valid))
	}
	return append(out, fmt.Sprintf("Auto is shown to be slower than the better mode in %d of %d conditions that are not void: %s.", len(misses), valid, strings.Join(misses, "; ")))
}

package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"hotpath/internal/experiment"
	"hotpath/internal/plan"
	"hotpath/profile"
	"hotpath/profile/export"
)

// A step cannot be made faster at will, but everything else can be made slower.
// Where every step takes slowdown times as long except those of one kind, that
// kind is slowdown times as fast as the rest, on a clock that runs slowdown
// times slower. Against the run in which every step is slowed alike, the
// difference is what the kind contributes to the time of the whole: with what
// others wait for it, and without what is hidden behind others. The factor is
// small, so that waits at barriers stay as short as they are: long ones end in
// parking, which costs time of its own.
const slowdown = 1.25

// unevenLog is the width of the control's interval, as a log-ratio, from which on
// gains mean nothing: as much as slowing everything does.
const unevenLog = slowdown - 1

// target is what is asked about: the steps of one kind.
type target struct {
	name  string
	match func(kind, step string) bool
	share float64 // of the profile's compute, in per cent
}

// Whatif is what a target contributes.
type Whatif struct {
	Target string
	Share  float64 // of the time that steps computed, in per cent, by the profile
	// Seconds of one run of the work that would be gone if the target took no
	// time.
	Seconds Estimate
}

// Gain is the time in seconds that a run would take less if the target were f
// times as fast.
func (w Whatif) Gain(f float64) Estimate {
	return w.Seconds.Map(func(s float64) float64 { return s * (1 - 1/f) })
}

// targets are the ops with their shares, the largest first; those that the
// options name, or all of some weight. A fused step counts as the op that most of
// it is, as compare.Compare has it.
func (s *session) targets(p *profile.Profile) []target {
	shares, ops := map[string]float64{}, map[string]string{} // of each op; of each step by name
	var all float64
	for _, r := range p.Top(-1, profile.ByTime) {
		ops[r.Step.Name] = r.Step.MainOp()
		shares[r.Step.MainOp()] += float64(r.LaneTime())
		all += float64(r.LaneTime())
	}
	var out []target
	if len(s.Steps) > 0 {
		for _, want := range s.Steps {
			t := target{name: want, match: func(kind, step string) bool {
				return ops[step] == want || kind == want || strings.Contains(step, want)
			}}
			for _, r := range p.Top(-1, profile.ByTime) {
				if t.match(r.Step.Op, r.Step.Name) {
					t.share += 100 * float64(r.LaneTime()) / all
				}
			}
			out = append(out, t)
		}
		return out
	}
	for kind, v := range shares {
		if pc := 100 * v / all; pc >= 1 {
			out = append(out, target{kind, func(_, step string) bool { return ops[step] == kind }, pc})
		}
	}
	slices.SortFunc(out, func(a, b target) int { return cmp.Compare(b.share, a.share) })
	return out[:min(len(out), 7)]
}

// slowed enters a delay of every step that keep does not spare, on top of the
// one that the engine has already.
func (r *running) slowed(keep func(kind, step string) bool) func() func() {
	return func() func() {
		leave := r.enter()
		r.be.Delay(func(s *plan.Step) float64 {
			f := 1.0
			if r.hook != nil {
				f = r.hook(s)
			}
			if keep != nil && keep(s.Kind, s.Name) {
				return f
			}
			return f * slowdown
		})
		return func() {
			r.be.Delay(r.hook)
			leave()
		}
	}
}

// slowedTurn is how long a turn takes at least. Neighbours change the speed of a
// machine within fractions of a second: the shorter the turns, the more alike are
// those that are compared. On two busy cores turns of one run gave a quarter of
// the error that turns of eight gave in the same time.
const slowedTurn = 2 * time.Millisecond

// contributions measures what each target contributes to work on r. The trial's
// arms are: all slowed, each target spared, the work as it is, and further ones.
func contributions(ctx context.Context, r *running, w work, targets []target, d Design, further ...Arm) ([]Whatif, *Trial, error) {
	run := func(ctx context.Context) error { return w.run(ctx, r.Engine) }
	arms := []Arm{{Name: "all slowed", Run: run, Enter: r.slowed(nil)}}
	for _, t := range targets {
		arms = append(arms, Arm{Name: "all but " + t.name, Run: run, Enter: r.slowed(t.match)})
	}
	arms = append(arms, Arm{Name: "as it is", Run: run, Enter: r.enter})
	trial, err := d.Measure(ctx, append(arms, further...), Arm{})
	if err != nil {
		return nil, nil, err
	}
	out := make([]Whatif, len(targets))
	for i, t := range targets {
		out[i] = Whatif{t.name, t.share, contribution(trial, i+1, len(targets)+1)}
	}
	return out, trial, nil
}

// contribution is the time in seconds of one run as it is that a spared kind
// contributes: what sparing it takes off the run in which all is slowed, over
// what the slow-down added to the kind. Both the saving and the length of the
// slowed run are ratios of neighbours in time: on a machine that has a fast and a
// slow minute, medians of two arms may be of different minutes.
func contribution(t *Trial, spared, asItIs int) Estimate {
	now, slow := t.Median(asItIs), math.Exp(-t.Ratio(asItIs).Mid) // slow: times as long as now
	return t.Ratio(spared).Map(func(v float64) float64 {
		return now * slow * -math.Expm1(v) / (slowdown - 1)
	})
}

func whatif(ctx context.Context, s *session) (rep *Report, err error) {
	w := s.usual()
	s.say(0, 2, "looking where the time goes")
	var o opened
	defer func() { err = errors.Join(err, o.close()) }()
	seen, rec, err := s.recorded(&o, setup{})
	if err != nil {
		return nil, err
	}
	if _, err = observe(ctx, seen, rec, w, 3); err != nil {
		return nil, err
	}
	targets := s.targets(rec.Snapshot())
	if len(targets) == 0 {
		return nil, errors.New("study whatif: no step was recorded")
	}
	for _, t := range targets {
		if t.share == 0 {
			return nil, fmt.Errorf("study whatif: no step is of kind %q or has it in its name", t.name)
		}
	}
	r, err := s.start(&o, setup{})
	if err != nil {
		return nil, err
	}
	s.say(1, 2, "slowing all but one of %d kinds of steps, in turn", len(targets))
	d := s.plan(1, 90*time.Second).next()
	d.Most, d.Slice = max(d.Least, 400), min(d.Slice, slowedTurn)
	if s.Quick {
		d.Most = d.Least
	}
	found, trial, err := contributions(ctx, r, w, targets, d)
	if err != nil {
		return nil, err
	}
	now := trial.Median(len(targets) + 1)
	rep = &Report{
		Title:    "What if: the worth of a faster step",
		Question: fmt.Sprintf("If one kind of step were faster, how much faster would the whole be? The work: %s.", w.name),
		Trials:   []NamedTrial{{w.name, trial}},
		Facts:    []Fact{{"work", w.name}, {"time now", millis(now)}, {"slowed by", fmt.Sprintf("%.2f times: steps wait after each share for %.2f of the time that it took", slowdown, slowdown-1.0)}},
	}
	rep.Advice = whatifAdvice(found, trial, now)
	rep.Sections = whatifSections(found, trial, now)
	return rep, nil
}

// uneven reports a control that may differ from the baseline by as much as
// slowing everything does.
func uneven(t *Trial) bool {
	n := t.Noise()
	return !(n.High-n.Low < unevenLog)
}

func whatifAdvice(found []Whatif, t *Trial, now float64) []string {
	var out []string
	ranked := slices.Clone(found)
	slices.SortStableFunc(ranked, func(a, b Whatif) int { return cmp.Compare(b.Seconds.Mid, a.Seconds.Mid) })
	for _, w := range ranked {
		if i := slices.IndexFunc(found, func(x Whatif) bool { return x.Target == w.Target }); t.Judge(i+1) != experiment.Faster {
			continue
		}
		g := w.Gain(2)
		out = append(out, fmt.Sprintf("If %s were twice as fast, the whole would take %.1f %% less time (%.1f to %.1f): %s of %s.", w.Target,
			100*g.Mid/now, 100*g.Low/now, 100*g.High/now, millis(g.Mid), millis(now)))
		if len(out) == 3 {
			break
		}
	}
	if t.Void() {
		return []string{fmt.Sprintf("The experiment is %s.", voided(t))}
	}
	if uneven(t) {
		return []string{fmt.Sprintf("The machine was too uneven to say: everything slowed differs from the same again by %s. Leave it alone meanwhile, or give it more --time.", change(t.Noise()))}
	}
	if len(out) == 0 {
		return []string{"No kind of step is shown to be worth making faster: every interval includes zero."}
	}
	return out
}

func whatifSections(found []Whatif, trial *Trial, now float64) []Section {
	t := &Table{Left: 1, Head: []string{"kind of step", "share of compute, by the profile", "contribution to the whole", "gain at 1.2 ×", "gain at 2 ×", "gain at no time at all", "verdict"}}
	var bars []Bar
	lines := Lines{Title: "How much less time the whole takes", XLabel: "times as fast as now", YLabel: "% less time"}
	var sum float64
	pc := func(e Estimate) string {
		return fmt.Sprintf("%.1f %% (%.1f to %.1f)", 100*e.Mid/now, 100*finite(e.Low, 0)/now, 100*finite(e.High, now)/now)
	}
	for i, w := range found {
		verdict := "no gain shown"
		switch trial.Judge(i + 1) {
		case experiment.Faster:
			verdict = "worth it"
		case experiment.Void:
			verdict = string(experiment.Void)
		}
		t.addRow(w.Target, fmt.Sprintf("%.1f %%", w.Share), pc(w.Seconds), pc(w.Gain(1.2)), pc(w.Gain(2)), millis(w.Seconds.Mid), verdict)
		sum += w.Seconds.Mid
		g := w.Gain(2).Map(func(v float64) float64 { return 100 * v / now })
		bars = append(bars, Bar{Label: w.Target, Value: g.Mid, Low: finite(g.Low, g.Mid), High: finite(g.High, g.Mid), Color: export.OpColor(w.Target)})
		if i < 5 {
			s := Series{Name: w.Target, withoutPoint: true}
			for _, f := range []float64{1, 1.1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4} {
				e := w.Gain(f).Map(func(v float64) float64 { return 100 * v / now })
				s.X, s.Y = append(s.X, f), append(s.Y, e.Mid)
				s.Low, s.High = append(s.Low, finite(e.Low, e.Mid)), append(s.High, finite(e.High, e.Mid))
			}
			lines.Series = append(lines.Series, s)
		}
	}
	together := fmt.Sprintf("The kinds that were asked about contribute %.1f %% of the %s together; the rest is other steps, waiting, and what happens between runs.", 100*sum/now, millis(now))
	if trial.Void() {
		together = "The experiment is " + voided(trial) + "."
	} else if uneven(trial) {
		together = "The machine was too uneven: take none of these figures for one of the model. The intervals hold what is so, and nearly all else."
	}
	return []Section{
		{Title: "Gains", Table: t, Text: []string{
			together,
			fmt.Sprintf("The control, everything slowed against the same again, differs by %s, over %s.", change(trial.Noise()), plural(trial.Blocks, "block")),
		}, Figures: []Figure{
			{"gain-twice", "Less time for the whole if one kind of step were twice as fast, with 95 per cent intervals.", Bars{Title: "Twice as fast: what the whole gains", Unit: "% less time", Bars: bars}.SVG()},
			{"gain-curve", "The same over the speed-up of the kind; bands are 95 per cent intervals.", lines.SVG()},
		}},
		{Title: "How it is measured", Text: []string{
			"Nothing can be made faster for an experiment, but all else can be made slower: every lane waits after each share of a step for a multiple of the time that the share took. Slowing all steps but one kind, and dividing the clock by the slow-down, gives the run in which that kind is faster. Against the run in which all steps are slowed, what is outside of steps cancels.",
			"A share of compute says where time is spent; the contribution says what is gained without it. The first is larger where the time is hidden behind other work, the second where others wait for it.",
		}},
	}
}

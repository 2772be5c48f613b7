package study

import (
	"math"
	"strings"
	"testing"

	"hotpath/internal/engine"
	"hotpath/internal/testmodels"
	"hotpath/profile"
	"hotpath/profile/compare"
)

// trialOf has blocks in which arm i takes seconds[i] and the control takes control,
// with some noise.
func trialOf(control float64, seconds ...float64) *Trial {
	t := &Trial{Seconds: make([][]float64, len(seconds)), Blocks: 12}
	for b := range 2 * t.Blocks {
		noise := 1 + 0.001*math.Sin(float64(b*b))
		for i, s := range seconds {
			t.Names = append(t.Names[:i], "arm")
			t.Seconds[i] = append(t.Seconds[i], s*noise)
		}
		t.Control = append(t.Control, control*(1+0.001*math.Cos(float64(b*b))))
	}
	return t
}

// A control that differs voids what it stands beside, and the advice says so.
func TestVoidTrialsSaySo(t *testing.T) {
	g := growth{title: "Batch", label: "texts", sizes: []int{1, 2, 4}, works: []work{{tokens: 1}, {tokens: 2}, {tokens: 4}}}
	if _, advice := g.section(trialOf(1.2, 1, 1.2, 1.5)); !strings.Contains(advice, "void") || !strings.Contains(advice, "control") {
		t.Error(advice)
	}
	if _, advice := g.section(trialOf(1, 1, 1.2, 1.5)); strings.Contains(advice, "void") {
		t.Error(advice)
	}
	c := &condition{cpus: 2, batch: 8, mix: mixes[0], trial: trialOf(1.2, 1, 0.5, 0.5)}
	if c.better() != "void" {
		t.Errorf("a void condition speaks for %s", c.better())
	}
	if advice := strings.Join(parallelAdvice([]*condition{c}), " "); !strings.Contains(advice, "void") || strings.Contains(advice, "use coarse") {
		t.Error(advice)
	}
}

// What lies beyond the sizes that were measured is not known, and not said.
func TestScalingSaysWhatWasMeasured(t *testing.T) {
	works := func(n int) (out []work) {
		for i := range n {
			out = append(out, work{tokens: 1 << i})
		}
		return out
	}
	for _, c := range []struct {
		seconds []float64
		want    string
	}{
		{[]float64{1, 1.2, 1.5, 2}, "8 is the largest measured, and larger ones may be faster still"},
		{[]float64{1, 1.2, 1.5, 3}, "there are not enough points beyond 4"},
		{[]float64{1, 1, 2, 4, 8}, "from 2 up to 16, the largest measured, no further gain is shown"},
	} {
		sizes := []int{1, 2, 4, 8, 16}[:len(c.seconds)]
		if _, advice := (growth{title: "Batch", label: "texts", sizes: sizes, works: works(len(sizes))}).section(trialOf(1, c.seconds...)); !strings.Contains(advice, c.want) {
			t.Errorf("%q does not say %q", advice, c.want)
		}
	}
	seen := func(n int) scalePoint {
		return scalePoint{n, &observation{wall: 1, workers: n, calls: 1, ledger: profile.Ledger{Compute: 5e8, LaneTime: 1e9}}}
	}
	secs, _ := threadSections(work{name: "w", tokens: 1}, []int{1, 2}, trialOf(1, 1, 0.6), []scalePoint{seen(1), seen(2)})
	if text := strings.Join(secs[0].Text, " "); !strings.Contains(text, "not enough points") || strings.Contains(text, "however many threads") {
		t.Error(text)
	}
}

// whatif asks about the ops that compare names.
func TestWhatifNamesOpsAsCompareDoes(t *testing.T) {
	for _, m := range []string{"bert", "llama"} {
		s, err := open(Options{Model: testmodels.Dir(t, m)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		var o opened
		defer o.close()
		rec := profile.NewRecorder(profile.Options{})
		x := setMode(engine.Fine, s.Threads)
		x.engine.Recorder = rec
		r, err := s.start(&o, x)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.usual().run(t.Context(), r.Engine); err != nil {
			t.Fatal(err)
		}
		p := rec.Snapshot()
		c, err := compare.Compare([]*profile.Profile{p}, []*profile.Profile{p}, "a", "b")
		if err != nil {
			t.Fatal(err)
		}
		known := map[string]bool{}
		for i := range c.Plans {
			for k := range c.Plans[i].Kinds {
				known[c.Plans[i].Kinds[k].Name] = true
			}
		}
		targets := s.targets(p)
		if len(targets) == 0 {
			t.Fatalf("%s: no targets", m)
		}
		for _, target := range targets {
			if !known[target.name] {
				t.Errorf("%s: whatif asks about %q, compare has %v", m, target.name, known)
			}
		}
	}
}

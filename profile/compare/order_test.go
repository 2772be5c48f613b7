package compare

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"hotpath/profile"
)

// drifting is a machine whose speed wanders from recording to recording too, for
// all steps and for each kind by itself: neighbours in time are alike.
type drifting struct {
	*machine
	all, kind float64 // standard deviations
	keep      float64 // of the last recording's speed in the next
	speed     map[string]float64
	at        time.Time
}

func (d *drifting) record(rng *rand.Rand, slow func(*profile.Step) float64) *profile.Profile {
	if d.speed == nil {
		d.speed = map[string]float64{"": d.all * rng.NormFloat64()}
		for _, k := range simKinds {
			d.speed[k.op] = d.kind * rng.NormFloat64()
		}
	}
	fresh := math.Sqrt(1 - d.keep*d.keep)
	d.speed[""] = d.keep*d.speed[""] + fresh*d.all*rng.NormFloat64()
	for _, op := range []string{"linear", "attention", "norm", "gelu", "add"} {
		d.speed[op] = d.keep*d.speed[op] + fresh*d.kind*rng.NormFloat64()
	}
	p := d.machine.record(rng, 20, func(s *profile.Step) float64 { return math.Exp(d.speed[""]+d.speed[s.Op]) * slow(s) })
	d.at = d.at.Add(time.Second)
	p.Created = d.at
	return p
}

// However few recordings of each side there are, and in whichever order they
// were made, those of one build do not differ in 98 of 100 trials: two pairs are
// one comparison of how far pairs stray, not two, and where all of one side came
// first, no side shows what the machine did between them.
func TestCompareInAnyOrder(t *testing.T) {
	const trials = 100
	for _, c := range []struct {
		name, order string
		drift       drifting
	}{
		{"two pairs", "abab", drifting{machine: &machines[2], all: 0.1, kind: 0.04, keep: 0.7}},
		{"two pairs, turned", "abba", drifting{machine: &machines[1], all: 0.1, kind: 0.04}},
		{"one after the other", "aaaabbbb", drifting{machine: &machines[0], all: 0.2, kind: 0.06, keep: 0.95}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(23, uint64(len(c.order))))
			noise := 0
			for range trials {
				m, sides := c.drift, map[rune][]*profile.Profile{}
				for _, side := range c.order {
					sides[side] = append(sides[side], m.record(rng, asIs))
				}
				d := compare(t, sides['a'], sides['b'])
				if len(d.Different()) > 0 {
					noise++
				}
				if warned := len(d.Warnings) > 0 && strings.Contains(d.Warnings[0], "in turn"); warned != (c.order == "aaaabbbb") {
					t.Fatalf("warnings %q", d.Warnings)
				}
			}
			t.Logf("%d of %d differ of one build", noise, trials)
			if noise > trials/50 {
				t.Errorf("%d of %d recordings of one build compare as different", noise, trials)
			}
		})
	}
}

// Fewer bytes are less work even where FLOPs are the limit, so that they save no
// time by themselves; the line above all says that no time is sure; and what is
// true of several recordings is said once.
func TestFewerBytesAreLessWork(t *testing.T) {
	d := Diff{Name: "linear", Verdict: Same, FLOPs: [2]int64{10, 10}, Bytes: [2]int64{100, 50}}
	d.countWork(&phaseWork{})
	if d.Verdict != LessWork {
		t.Errorf("half of the bytes are %q", d.Verdict)
	}
	none := Diff{Verdict: Same}
	c := &Comparison{Plans: []PlanDiff{{Kinds: []Diff{d}, Common: none, Wait: none, Total: none}}, Total: Diff{Before: 100, After: 40}}
	if got, want := c.Summary(), "B differs from A, but not in its time: linear has less work."; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
	for range 3 {
		c.warn("the precision differs: %q and %q", "f32", "auto")
	}
	if len(c.Warnings) != 1 {
		t.Errorf("warnings %q", c.Warnings)
	}
}

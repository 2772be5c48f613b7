package experiment

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// synthetic gives trials of a machine with drift and outliers, without a clock.
func synthetic(rng *rand.Rand, blocks int, effect float64) *Trial {
	t := &Trial{Names: []string{"a", "b"}, Seconds: make([][]float64, 2), Blocks: blocks}
	now := 0.0
	draw := func(scale float64) float64 {
		now++
		noise := math.Exp(0.05 * rng.NormFloat64())
		if rng.Float64() < 0.05 { // somebody else had the processor
			noise *= 1 + 2*rng.Float64()
		}
		return scale * (1 + 0.01*now) * noise
	}
	for range blocks {
		a, b, c := draw(1), draw(math.Exp(effect)), draw(1)
		c2, b2, a2 := draw(1), draw(math.Exp(effect)), draw(1)
		t.Seconds[0] = append(t.Seconds[0], a, a2)
		t.Seconds[1] = append(t.Seconds[1], b, b2)
		t.Control = append(t.Control, c, c2)
	}
	return t
}

// The interval holds the truth as often as it says, for samples as small as the
// studies use.
func TestIntervalsCover(t *testing.T) {
	for _, blocks := range []int{4, 6, 10, 30} {
		const trials = 200
		rng := rand.New(rand.NewPCG(1, uint64(blocks)))
		held, wrong := 0, 0
		for range trials {
			s := synthetic(rng, blocks, 0.1)
			if e := s.Ratio(1); e.Low <= 0.1 && 0.1 <= e.High {
				held++
			}
			if s.Noise().ExcludesZero() {
				wrong++
			}
		}
		if held < trials*92/100 {
			t.Errorf("%d blocks: %d of %d intervals hold the truth, expected 95 per cent", blocks, held, trials)
		}
		if wrong > trials*8/100 {
			t.Errorf("%d blocks: %d of %d controls differ from themselves", blocks, wrong, trials)
		}
	}
}

func TestDriftCancels(t *testing.T) {
	// A machine that gets slower with every run, and two arms that are equal.
	now := 0.0
	tr := &Trial{Seconds: make([][]float64, 2)}
	next := func() float64 { now++; return 1 + 0.02*now }
	for range 8 {
		a, b := next(), next()
		b2, a2 := next(), next()
		tr.Seconds[0] = append(tr.Seconds[0], a, a2)
		tr.Seconds[1] = append(tr.Seconds[1], b, b2)
	}
	if e := tr.Ratio(1); math.Abs(e.Mid) > 1e-12 {
		t.Errorf("a steady drift shows as a difference of %v", e)
	}
}

func TestJudge(t *testing.T) {
	none := Estimate{0, -0.01, 0.01, 8}
	for _, c := range []struct {
		ratio, control Estimate
		want           Verdict
	}{
		{Estimate{-0.2, -0.3, -0.1, 8}, none, Faster},
		{Estimate{0.2, 0.1, 0.3, 8}, none, Slower},
		{Estimate{0.2, -0.1, 0.3, 8}, none, NoDifference},
		{Estimate{0.2, 0.1, 0.3, 8}, Estimate{0.1, 0.05, 0.15, 8}, Void},
		{Estimate{1.2, 1.1, 1.3, 8}, Estimate{0.1, 0.05, 0.15, 8}, Void}, // however large it is
		{Estimate{0.2, -0.1, 0.3, 8}, Estimate{-0.1, -0.15, -0.05, 8}, Void},
		{Estimate{0.2, 0.1, 0.3, 1}, none, NoDifference}, // one block shows nothing
	} {
		if got := Judge(c.ratio, c.control); got != c.want {
			t.Errorf("%+v against %+v: %q, expected %q", c.ratio, c.control, got, c.want)
		}
	}
}

// Blocks go through all arms and back, the control is measured as often, and
// what an arm enters it leaves.
func TestMeasureOrder(t *testing.T) {
	var log []string
	inside := 0
	arm := func(name string) Arm {
		return Arm{Name: name,
			Run: func(context.Context) error {
				if inside != 1 {
					t.Errorf("%s runs with %d entered", name, inside)
				}
				log = append(log, name)
				return nil
			},
			Enter: func() func() { inside++; return func() { inside-- } },
		}
	}
	d := Design{Least: 3, Most: 3, Seed: 1}
	tr, err := d.Measure(context.Background(), []Arm{arm("a"), arm("b")}, arm("c"))
	if err != nil {
		t.Fatal(err)
	}
	if tr.Blocks != 3 || len(tr.Seconds[0]) != 6 || len(tr.Seconds[1]) != 6 || len(tr.Control) != 6 {
		t.Fatalf("%+v", tr)
	}
	log = log[3:] // the warm-up of each
	for i := 0; i < len(log); i += 6 {
		b := log[i : i+6]
		if b[0] != b[5] || b[1] != b[4] || b[2] != b[3] || b[0] == b[1] || b[1] == b[2] || b[0] == b[2] {
			t.Errorf("block %v is not all arms there and back", b)
		}
	}
}

func TestMeasureStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	runs := 0
	a := Arm{Name: "a", Run: func(context.Context) error {
		if runs++; runs == 4 {
			cancel()
		}
		return nil
	}}
	if _, err := (Design{Least: 1000, Most: 1000}).Measure(ctx, []Arm{a, a}, Arm{}); err == nil || runs > 5 {
		t.Errorf("error %v after %d runs", err, runs)
	}
}

func TestBudgetDecidesBlocks(t *testing.T) {
	a := Arm{Name: "a", Run: func(context.Context) error { time.Sleep(time.Millisecond); return nil }}
	tr, err := (Design{Least: 2, Most: 9, Budget: time.Hour}).Measure(context.Background(), []Arm{a}, Arm{})
	if err != nil || tr.Blocks != 9 {
		t.Errorf("%d blocks of 9 that time allows, %v", tr.Blocks, err)
	}
	tr, err = (Design{Least: 2, Most: 9}).Measure(context.Background(), []Arm{a}, Arm{})
	if err != nil || tr.Blocks != 2 {
		t.Errorf("%d blocks without time, expected the least, %v", tr.Blocks, err)
	}
}

// TestPlaces: two rounds mirror each other, and over all rounds each arm has been
// first as often.
func TestPlaces(t *testing.T) {
	const n = 4
	var first [n]int
	for round := 0; round < 2*n; round += 2 {
		for j := range n {
			if a, b := Place(round, j, n), Place(round+1, n-1-j, n); a != b {
				t.Errorf("round %d: arm %d has place %d, and %d in the mirror", round, a, j, b)
			}
		}
		first[Place(round, 0, n)]++
		first[Place(round+1, 0, n)]++
	}
	if first != [n]int{2, 2, 2, 2} {
		t.Errorf("arms were first %v times, expected twice each", first)
	}
	if Place(0, 0, n) != 0 || Place(0, 3, n) != 3 {
		t.Error("the first round is not in the order of the arms")
	}
}

// TestRounds: the interval of a statistic holds rounds together, and is the same
// for the same samples.
func TestRounds(t *testing.T) {
	values := []float64{1, 1, 1, 3, 3}
	mean := func(rounds []int) (sum float64) {
		for _, r := range rounds {
			sum += values[r] / float64(len(rounds))
		}
		return sum
	}
	e := Rounds(len(values), mean)
	if math.Abs(e.Mid-1.8) > 1e-12 || !(e.Low >= 1 && e.Low < 1.8 && e.High > 1.8 && e.High <= 3) || e.N != 5 {
		t.Errorf("%+v", e)
	}
	if again := Rounds(len(values), mean); again != e {
		t.Errorf("%+v, and again %+v", e, again)
	}
}

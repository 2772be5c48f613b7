package sample

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func newSampler(t testing.TB, p Params) *Sampler {
	t.Helper()
	s := new(Sampler)
	if err := s.Reset(p); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestGreedyTakesTheFirstOfTheBest(t *testing.T) {
	s := newSampler(t, Params{})
	if id, err := s.Sample([]float32{1, 3, 2, 3}, new(Scratch)); err != nil || id != 1 {
		t.Fatalf("%d, %v, expected 1", id, err)
	}
}

func TestBadLogitsAreErrors(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, temperature := range []float32{0, 1} {
		s, w := newSampler(t, Params{Temperature: temperature, TopP: 0.9}), new(Scratch)
		for _, logits := range [][]float32{{}, {nan}, {1, nan, 2}, {nan, 1}, {1, inf}, {-inf, -inf}} {
			if id, err := s.Sample(logits, w); !errors.Is(err, ErrLogits) {
				t.Errorf("%v at %v gave %d, %v", logits, temperature, id, err)
			}
		}
		if id, err := s.Sample([]float32{-inf, -5, -inf}, w); err != nil || id != 1 {
			t.Errorf("one token left: %d, %v", id, err)
		}
	}
}

func TestBadParamsAreErrors(t *testing.T) {
	nan := float32(math.NaN())
	for _, p := range []Params{{Temperature: -1}, {Temperature: nan}, {TopK: -1}, {TopP: 1.5}, {TopP: nan}, {MinP: -0.1}, {MinP: nan}} {
		if err := new(Sampler).Reset(p); err == nil {
			t.Errorf("%+v was taken", p)
		}
	}
}

// reference is the chain written out: sort, cut, cut, cut.
func reference(logits []float32, p Params) []int32 {
	ids := make([]int32, len(logits))
	for i := range ids {
		ids[i] = int32(i)
	}
	slices.SortStableFunc(ids, func(a, b int32) int {
		switch {
		case logits[a] > logits[b]:
			return -1
		case logits[a] < logits[b]:
			return 1
		}
		return int(a - b)
	})
	if p.TopK > 0 {
		ids = ids[:min(p.TopK, len(ids))]
	}
	prob := func() []float64 {
		out, sum := make([]float64, len(ids)), 0.0
		for i, id := range ids {
			out[i] = math.Exp(float64(logits[id]) - float64(logits[ids[0]]))
			sum += out[i]
		}
		for i := range out {
			out[i] /= sum
		}
		return out
	}
	if p.TopP > 0 && p.TopP < 1 {
		sum, n := 0.0, 0
		for _, q := range prob() {
			if sum >= float64(p.TopP) {
				break
			}
			sum += q
			n++
		}
		ids = ids[:n]
	}
	if p.MinP > 0 {
		q := prob()
		n := 0
		for n < len(q) && q[n] >= float64(p.MinP)*q[0] {
			n++
		}
		ids = ids[:n]
	}
	return ids
}

func TestCandidatesAreThoseOfTheChain(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		logits := make([]float32, 1+r.IntN(60))
		for i := range logits {
			logits[i] = float32(math.Round(r.NormFloat64()*8) / 4) // ties
		}
		p := Params{Temperature: 1}
		if r.IntN(2) == 0 {
			p.TopK = 2 + r.IntN(20)
		}
		if r.IntN(2) == 0 {
			p.TopP = r.Float32()
		}
		if r.IntN(2) == 0 {
			p.MinP = r.Float32() * 0.3
		}
		got, want := chosen(logits, p), reference(logits, p)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%+v of %v: %v, expected %v", p, logits, got, want)
		}
	}
}

func TestDrawsFollowTheDistribution(t *testing.T) {
	logits := []float32{0, 1, 2, -1}
	const temperature, n = 0.7, 40000
	s, w := newSampler(t, Params{Temperature: temperature, Seed: 5}), new(Scratch)
	var count [4]float64
	for range n {
		id, err := s.Sample(logits, w)
		if err != nil {
			t.Fatal(err)
		}
		count[id]++
	}
	sum := 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v) / temperature)
	}
	for i, v := range logits {
		want := math.Exp(float64(v)/temperature) / sum
		if got := count[i] / n; math.Abs(got-want) > 5*math.Sqrt(want/n) {
			t.Errorf("token %d was drawn in %.4f of the cases, expected %.4f", i, got, want)
		}
	}
}

func TestSeedsRepeat(t *testing.T) {
	logits := make([]float32, 100)
	draw := func(seed uint64) (out [50]int32) {
		s, w := newSampler(t, Params{Temperature: 1, Seed: seed}), new(Scratch)
		for i := range out {
			out[i], _ = s.Sample(logits, w)
		}
		return out
	}
	first, again := draw(1), draw(1)
	if first != again {
		t.Error("one seed drew two series")
	}
	if first == draw(2) {
		t.Error("two seeds drew one series")
	}
}

func TestSampleAllocatesNothing(t *testing.T) {
	logits := make([]float32, 5000)
	for i := range logits {
		logits[i] = float32(i%97) / 10
	}
	for _, p := range []Params{{}, {Temperature: 1}, {Temperature: 1, TopK: 40, TopP: 0.9, MinP: 0.05}, {Temperature: 1, TopP: 0.9}, {Temperature: 1, TopP: 0.5, TopK: 5000}, {Temperature: 1, MinP: 1e-30}} {
		s, w := newSampler(t, p), new(Scratch)
		if n := testing.AllocsPerRun(5, func() {
			if _, err := s.Sample(logits, w); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%+v: %v allocations", p, n)
		}
	}
}

// A scan goes by pieces; a plain loop says what it must find, ties, infinities,
// denormals and NaN of both signs included, wherever they lie. Scans of two ranges
// find the same together.
func TestPeakAgrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	special := []float32{float32(math.NaN()), math.Float32frombits(0xffc00000), float32(math.Inf(1)), float32(math.Inf(-1)), 0, 9, 1e30, -1e30, 1e-40, 2e-40, -1e-40}
	for range 3000 {
		logits := make([]float32, rng.IntN(5*scanned/2))
		most := float32(rng.IntN(2) * 8)
		for i := range logits {
			logits[i] = most - float32(rng.IntN(9)) // many equals
		}
		if most == 0 && rng.IntN(2) == 0 {
			for i := range logits {
				logits[i] -= 1e-40
			}
		}
		for range rng.IntN(3) {
			if len(logits) > 0 {
				logits[rng.IntN(len(logits))] = special[rng.IntN(len(special))]
			}
		}
		want, bad := int32(-1), false
		for i, v := range logits {
			if bad = bad || v != v; v > float32(math.Inf(-1)) && (want < 0 || v > logits[want]) {
				want = int32(i)
			}
		}
		bad = bad || want < 0 || math.IsInf(float64(logits[want]), 1)
		whole := Scan(logits, 0, len(logits))
		cut := min(len(logits), rng.IntN(3)*scanned)
		if two := Scan(logits, 0, cut).Then(Scan(logits, cut, len(logits))); two.nan != whole.nan || whole.nan < 0 && two != whole {
			t.Fatalf("%d logits, cut at %d: %+v, expected %+v", len(logits), cut, two, whole)
		}
		got, err := whole.first(logits)
		if (err != nil) != bad || err == nil && got != want {
			t.Fatalf("%d logits: token %d, error %v, expected %d or an error: %v", len(logits), got, err, want, bad)
		}
	}
}

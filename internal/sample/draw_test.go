package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"hotpath/internal/kernel/isa"
)

// tiers runs f under every tier that the machine has and that has kernels of
// its own for vectors.
func tiers(t *testing.T, f func(t *testing.T)) {
	for _, tier := range isa.Available() {
		if tier.Vector() != tier {
			continue
		}
		t.Run(tier.String(), func(t *testing.T) {
			defer isa.Use(tier)()
			f(t)
		})
	}
}

// chosen are the ids of the candidates.
func chosen(logits []float32, p Params) []int32 {
	w, top := new(Scratch), float64(slices.Max(logits))
	w.reserve(len(logits))
	var keys []uint64
	switch {
	case p.byTopK(len(logits)) && p.TopK <= few:
		keys = w.fewBest(logits, top, p)
	case p.ordered():
		w.countBins(logits, top)
		keys = w.from(logits, w.cut(logits, top, p, mass{}))
	default:
		keys = w.above(logits, p.floor(top))
	}
	var ids []int32
	for _, key := range keys {
		ids = append(ids, idOf(key))
	}
	return ids
}

// plainly is what Sample does after it has found the best token, in float64 and
// with all tokens in order: the candidates and the one that r picks.
func plainly(logits []float32, p Params, r float64) (ids []int32, picked int32) {
	top := float64(slices.Max(logits))
	prob := func(id int32) float64 { return math.Exp(float64(logits[id]) - top) }
	floor := math.Inf(-1)
	if p.MinP > 0 {
		floor = top + math.Log(float64(p.MinP))
	}
	total := 0.0
	for id := range logits {
		ids = append(ids, int32(id))
		total += prob(int32(id))
	}
	byTopP := p.TopP > 0 && p.TopP < 1
	ordered := p.TopK > 0 || byTopP
	if ordered { // the best first, equals by id
		sort.SliceStable(ids, func(i, j int) bool { return logits[ids[i]] > logits[ids[j]] })
	}
	if p.TopK > 0 && p.TopK < len(ids) {
		ids, total = ids[:p.TopK], 0
		for _, id := range ids {
			total += prob(id)
		}
	}
	if byTopP {
		sum, n := 0.0, 0
		for ; n < len(ids) && sum < float64(p.TopP)*total; n++ {
			sum += prob(ids[n])
		}
		ids = ids[:n]
	}
	ids = slices.DeleteFunc(ids, func(id int32) bool {
		return float64(logits[id]) < floor || math.IsInf(float64(logits[id]), -1)
	})
	if ordered {
		slices.Reverse(ids)
	}
	weight := make([]float64, len(ids))
	for i, id := range ids {
		weight[i] = math.Exp((float64(logits[id]) - top) / float64(p.Temperature))
	}
	return ids, ids[pick(weight, r)]
}

// shape is one kind of logits.
type shape struct {
	name string
	at   func(rng *rand.Rand, i int) float32
}

var shapes = []shape{
	{"normal", func(rng *rand.Rand, _ int) float32 { return float32(rng.NormFloat64() * 3) }},
	{"peaked", func(rng *rand.Rand, _ int) float32 { return float32(math.Pow(rng.Float64(), 8) * 25) }},
	{"equal", func(*rand.Rand, int) float32 { return -2.5 }},
	{"ties", func(rng *rand.Rand, _ int) float32 { return float32(rng.IntN(7)) - 3 }},
	{"rising", func(_ *rand.Rand, i int) float32 { return float32(i) / 1000 }},
	{"falling", func(_ *rand.Rand, i int) float32 { return -float32(i) / 50 }},
	{"zeros of both signs", func(_ *rand.Rand, i int) float32 { return float32(math.Copysign(0, float64(i%3)-1)) }},
	{"denormal", func(_ *rand.Rand, i int) float32 { return -float32(i%5) * 1e-40 }},
	{"one huge", func(_ *rand.Rand, i int) float32 {
		if i == 1 {
			return 3e38
		}
		return float32(i % 3)
	}},
	{"masked", func(rng *rand.Rand, i int) float32 {
		if i%4 > 0 {
			return float32(math.Inf(-1))
		}
		return float32(rng.NormFloat64())
	}},
	{"all but one masked", func(_ *rand.Rand, i int) float32 {
		if i > 0 {
			return float32(math.Inf(-1))
		}
		return -4
	}},
}

func (s shape) logits(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = s.at(rng, i)
	}
	return v
}

func choices(n int) (out []Params) {
	for _, k := range []int{0, 2, 40, n - 1, n, n + 1} {
		for _, p := range []float32{0, 1e-9, 0.3, 0.5, 0.9, 0.999, 0.99999994, 1} {
			for _, m := range []float32{0, 1e-30, 0.05, 1} {
				if k >= 0 && k != 1 {
					out = append(out, Params{Temperature: []float32{0.8, 1, 0.1, 3, 1e-40}[len(out)%5], TopK: k, TopP: p, MinP: m})
				}
			}
		}
	}
	return out
}

// Every tier finds the candidates and draws the token that a full sort with
// sums in float64 does.
func TestDrawsWhatAFullSortDraws(t *testing.T) {
	sizes := []int{1, 2, 3, 16, 63, 64, 65, 1000, scanned, scanned + 1, 5000}
	tiers(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(11, 12))
		w := new(Scratch)
		for _, n := range append(sizes, 60000) {
			for _, kind := range shapes {
				logits, name := kind.logits(rng, n), kind.name
				all := choices(n)
				rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				all = all[:min(len(all), 1+20000/n)] // a full sort takes long
				for _, p := range all {
					p.Seed = rng.Uint64()
					s := newSampler(t, p)
					again := newSampler(t, p)
					r := float64(again.rng.Uint64()>>11) / (1 << 53)
					ids, want := plainly(logits, p, r)
					got, err := s.Sample(logits, w)
					if err != nil || got != want {
						t.Fatalf("%d logits, %s, %+v: drew %d (%v), expected %d", n, name, p, got, err, want)
					}
					if !slices.Equal(chosen(logits, p), ids) {
						t.Fatalf("%d logits, %s, %+v: candidates differ", n, name, p)
					}
				}
			}
		}
	})
}

// Random numbers on the border between two tokens draw the token that the
// weights decide for.
func TestDrawsOnBorders(t *testing.T) {
	tiers(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(13, 14))
		for _, n := range []int{1, 2, 65, scanned + 300} {
			for _, kind := range shapes {
				logits, name := kind.logits(rng, n), kind.name
				for _, temperature := range []float64{0.5, 1} {
					w, top := new(Scratch), float64(slices.Max(logits))
					w.reserve(n)
					weight, total := make([]float64, n), 0.0
					for i, v := range logits {
						weight[i] = math.Exp((float64(v) - top) / temperature)
						total += weight[i]
					}
					sum := 0.0
					for i, x := range weight {
						sum += x
						for _, r := range []float64{sum / total, math.Nextafter(sum/total, 0), sum/total - 1e-8, sum/total + 1e-8, sum/total - 1e-5, sum/total + 1e-5} {
							if i%61 != 0 && n-i > 3 || r < 0 || r >= 1 {
								continue
							}
							if got, want := w.drawAny(logits, top, temperature, r), pick(weight, r); got != int32(want) {
								t.Fatalf("%s of %d at %v: drew %d, expected %d", name, n, r, got, want)
							}
						}
					}
				}
			}
		}
	})
}

// Shares that end on the border between two tokens keep those that the exact
// sum decides for.
func TestTopPOnBorders(t *testing.T) {
	tiers(t, func(t *testing.T) {
		for _, n := range []int{2, 4, 64, 512, 4096} {
			logits := make([]float32, n)
			for _, share := range []float32{0.25, 0.5, 0.75} {
				for _, share := range []float32{share, math.Nextafter32(share, 0), math.Nextafter32(share, 1)} {
					p := Params{Temperature: 1, TopP: share}
					want := int(math.Ceil(float64(share) * float64(n)))
					if got := len(chosen(logits, p)); got != want {
						t.Errorf("top-p %v of %d equal tokens keeps %d, expected %d", share, n, got, want)
					}
				}
			}
		}
	})
}

func TestSplit(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	for range 2000 {
		keys := make([]uint64, 1+rng.IntN(300))
		for i := range keys {
			switch rng.IntN(3) {
			case 0:
				keys[i] = uint64(i) << 40
			case 1:
				keys[i] = uint64(len(keys)-i)<<40 | 1
			default:
				keys[i] = rng.Uint64()
			}
		}
		sorted := slices.Sorted(slices.Values(keys))
		n := rng.IntN(len(keys))
		split(keys, n)
		if keys[n] != sorted[n] || n > 0 && slices.Max(keys[:n]) > keys[n] || slices.Min(keys[n:]) < keys[n] {
			t.Fatalf("%d of %d keys are not apart", n, len(keys))
		}
	}
}

// BenchmarkSample takes logits that are spread like a small language model's.
func BenchmarkSample(b *testing.B) {
	for _, n := range []int{49152, 151936} {
		logits := make([]float32, n)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range logits {
			logits[i] = float32(rng.NormFloat64() * 2.5)
		}
		for i := range 300 {
			logits[rng.IntN(n)] = 16 - 2*float32(math.Log2(float64(i+1)))
		}
		for _, c := range []struct {
			name string
			p    Params
		}{
			{"greedy", Params{}},
			{"temperature", Params{Temperature: 0.8}},
			{"top-k=40", Params{Temperature: 0.8, TopK: 40}},
			{"top-p=0.9", Params{Temperature: 0.8, TopP: 0.9}},
			{"min-p=0.05", Params{Temperature: 0.8, MinP: 0.05}},
			{"all", Params{Temperature: 0.8, TopK: 40, TopP: 0.9, MinP: 0.05}},
		} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				s, w := newSampler(b, c.p), new(Scratch)
				for b.Loop() {
					if _, err := s.Sample(logits, w); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// A small nucleus is the one that the histogram finds, and is found where there is one.
func TestSmallNucleus(t *testing.T) {
	tiers(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		small := 0
		for range 400 {
			logits, spread := make([]float32, 2000), 1+9*rng.Float64()
			for i := range logits {
				logits[i] = float32(rng.NormFloat64() * spread)
			}
			p := Params{Temperature: 1, TopP: float32(0.2 + 0.79*rng.Float64()), MinP: float32(0.2 * rng.Float64())}
			top, w := float64(slices.Max(logits)), new(Scratch)
			w.reserve(len(logits))
			keys, _, ok := w.smallNucleus(logits, top, p)
			if !ok {
				continue
			}
			small++
			keys = slices.Clone(keys)
			w.countBins(logits, top)
			if want := w.from(logits, w.cut(logits, top, p, mass{})); !slices.Equal(keys, want) {
				t.Fatalf("%+v: %d tokens, expected %d", p, len(keys), len(want))
			}
		}
		if small < 100 || small == 400 {
			t.Errorf("%d of 400 were small", small)
		}
	})
}

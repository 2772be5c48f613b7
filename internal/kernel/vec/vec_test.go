package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hotpath/internal/kernel/isa"
)

var lengths = []int{0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 129, 384, 1000}

// tiers runs f under every tier that the machine has.
func tiers(t *testing.T, f func(t *testing.T)) {
	for _, tier := range isa.Available() {
		t.Run(tier.String(), func(t *testing.T) {
			defer isa.Use(tier)()
			f(t)
		})
	}
}

// poisoned is a slice of n values at an odd offset inside one that is all
// NaN, and a function that reports a write outside of it.
func poisoned(n int) (s []float32, intact func() bool) {
	const margin = 33
	nan := float32(math.NaN())
	all := make([]float32, n+2*margin)
	for i := range all {
		all[i] = nan
	}
	return all[margin : margin+n : margin+n], func() bool {
		for i := range margin {
			if all[i] == all[i] || all[n+margin+i] == all[n+margin+i] {
				return false
			}
		}
		return true
	}
}

func noise(rng *rand.Rand, n int, scale float32) []float32 {
	v, _ := poisoned(n)
	for i := range v {
		v[i] = (2*rng.Float32() - 1) * scale
	}
	return v
}

func near(got float32, want, rel, abs float64) bool {
	return math.Abs(float64(got)-want) <= rel*math.Abs(want)+abs
}

func phi(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
func sig(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
func tanhGelu(x float64) float64 {
	return x * sig(2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))
}

// maps holds every kernel of the form dst[i] = f(a[i], b[i], old dst[i]).
var maps = []struct {
	name     string
	run      func(dst, a, b []float32)
	want     func(a, b, d float64) float64
	scale    float32
	rel, abs float64
}{
	{"Add", Add, func(a, b, d float64) float64 { return a + b }, 3, 1e-7, 1e-9},
	{"Mul", Mul, func(a, b, d float64) float64 { return a * b }, 3, 1e-7, 1e-30},
	{"Scale", func(dst, a, b []float32) { Scale(dst, a, 0.37) }, func(a, b, d float64) float64 { return a * float64(float32(0.37)) }, 3, 1e-7, 1e-30},
	{"Axpy", func(dst, a, b []float32) { Axpy(dst, a, -1.5) }, func(a, b, d float64) float64 { return d - 1.5*a }, 3, 2e-7, 3e-7},
	{"Exp", func(dst, a, b []float32) { Exp(dst, a, 0.75) }, func(a, b, d float64) float64 { return math.Exp(float64(float32(a) - 0.75)) }, 85, 2e-7, 0},
	{"Gelu", func(dst, a, b []float32) { Gelu(dst, a) }, func(a, b, d float64) float64 { return a * phi(a) }, 8, 1e-6, 1e-30},
	{"GeluTanh", func(dst, a, b []float32) { GeluTanh(dst, a) }, func(a, b, d float64) float64 { return tanhGelu(a) }, 4, 2e-6, 1e-30},
	{"Silu", func(dst, a, b []float32) { Silu(dst, a) }, func(a, b, d float64) float64 { return a * sig(a) }, 20, 1e-6, 1e-30},
	{"Tanh", func(dst, a, b []float32) { Tanh(dst, a) }, func(a, b, d float64) float64 { return math.Tanh(a) }, 3, 1e-7, 2e-7},
	{"SoftCap", func(dst, a, b []float32) { SoftCap(dst, a, 5) }, func(a, b, d float64) float64 { return 5 * math.Tanh(a/5) }, 20, 1e-7, 2e-6},
	{"NormGrad", func(dst, a, b []float32) { NormGrad(dst, a, b, 0.25, 1.5, -0.5, 0.75) }, func(a, b, d float64) float64 {
		return 1.5 * (a + 0.5 - (b-0.25)*0.75)
	}, 3, 3e-7, 1e-6},
	{"NormWeightGrad", func(dst, a, b []float32) { NormWeightGrad(dst, a, b, 0.25, 1.5) }, func(a, b, d float64) float64 {
		return d + a*(b-0.25)*1.5
	}, 3, 3e-7, 2e-6},
	{"GeluMul", GeluMul, func(a, b, d float64) float64 { return a * phi(a) * b }, 5, 1e-6, 1e-30},
	{"GeluTanhMul", GeluTanhMul, func(a, b, d float64) float64 { return tanhGelu(a) * b }, 4, 2e-6, 1e-30},
	{"SiluMul", SiluMul, func(a, b, d float64) float64 { return a * sig(a) * b }, 20, 1e-6, 1e-30},
	{"GeluGrad", GeluGrad, func(a, b, d float64) float64 {
		return a * (phi(b) + b*math.Exp(-b*b/2)/math.Sqrt(2*math.Pi))
	}, 5, 1e-6, 1e-6},
	// 1-sigmoid cancels far from zero; the factor there is about 30, dy 5.
	{"GeluTanhGrad", GeluTanhGrad, func(a, b, d float64) float64 {
		const h = 1e-5
		return a * (tanhGelu(b+h) - tanhGelu(b-h)) / (2 * h)
	}, 5, 1e-6, 2e-5},
	{"SiluGrad", SiluGrad, func(a, b, d float64) float64 { return a * sig(b) * (1 + b*(1-sig(b))) }, 10, 1e-6, 2e-6},
}

func TestMaps(t *testing.T) {
	tiers(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		for _, k := range maps {
			for _, n := range lengths {
				a, b, old := noise(rng, n, k.scale), noise(rng, n, k.scale), noise(rng, n, k.scale)
				dst, intact := poisoned(n)
				copy(dst, old)
				k.run(dst, a, b)
				if !intact() {
					t.Fatalf("%s: length %d: wrote outside", k.name, n)
				}
				for i, got := range dst {
					want := k.want(float64(a[i]), float64(b[i]), float64(old[i]))
					if !near(got, want, k.rel, k.abs) {
						t.Fatalf("%s(%g, %g)[%d of %d] = %g, want %g (relative %.2g)", k.name, a[i], b[i], i, n, got, want, math.Abs(float64(got)/want-1))
					}
				}
				// In place, and the value does not depend on the position.
				inPlace := append([]float32(nil), a...)
				if k.name != "AddTo" && k.name != "Axpy" && k.name != "NormWeightGrad" { // those read dst
					k.run(inPlace, inPlace, b)
					for i := range dst {
						if inPlace[i] != dst[i] {
							t.Fatalf("%s in place: [%d of %d] = %g, want %g", k.name, i, n, inPlace[i], dst[i])
						}
						one := []float32{old[i]}
						k.run(one, a[i:i+1], b[i:i+1])
						if one[0] != dst[i] {
							t.Fatalf("%s alone: %g, at %d of %d: %g", k.name, one[0], i, n, dst[i])
						}
					}
				}
			}
		}
	})
}

func TestReductions(t *testing.T) {
	tiers(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		for _, n := range lengths {
			a, b := noise(rng, n, 2), noise(rng, n, 2)
			var sum, sq, from, dot, dotFrom, mag float64
			greatest := math.Inf(-1)
			for i := range a {
				x, y := float64(a[i]), float64(b[i])
				sum, sq, from, dot, dotFrom = sum+x, sq+x*x, from+(x-0.5)*(x-0.5), dot+x*y, dotFrom+x*(y-0.5)
				mag += math.Abs(x) + math.Abs(x*y) + x*x + 1
				greatest = max(greatest, x)
			}
			for _, c := range []struct {
				name string
				got  float32
				want float64
			}{
				{"Sum", Sum(a), sum}, {"SumSquares", SumSquares(a), sq}, {"SumSquaresFrom", SumSquaresFrom(a, 0.5), from},
				{"Dot", Dot(a, b), dot}, {"DotFrom", DotFrom(a, b, 0.5), dotFrom},
			} {
				if !near(c.got, c.want, 1e-7, 1e-6*mag) {
					t.Errorf("%s of %d = %g, want %g", c.name, n, c.got, c.want)
				}
			}
			if got := Max(a); float64(got) != greatest {
				t.Errorf("Max of %d = %g, want %g", n, got, greatest)
			}
			for i := range a { // a maximum in any lane, all negative elsewhere
				c := make([]float32, n)
				for j := range c {
					c[j] = -2
				}
				c[i] = -1
				if Max(c) != -1 {
					t.Fatalf("Max of %d misses position %d", n, i)
				}
			}
		}
	})
}

func TestExpEdges(t *testing.T) {
	inf := float32(math.Inf(1))
	tiers(t, func(t *testing.T) {
		for _, c := range []struct{ x, want float32 }{
			{0, 1}, {-inf, 0}, {inf, inf}, {-1000, 0}, {-87.5, 0}, {200, inf}, {88.72, float32(math.Exp(float64(float32(88.72))))},
		} {
			for _, n := range []int{1, 16, 19} {
				x := make([]float32, n)
				for i := range x {
					x[i] = c.x
				}
				sum := Exp(x, x, 0)
				for _, got := range x {
					if got != c.want && !near(got, float64(c.want), 2e-7, 0) {
						t.Errorf("exp(%g) = %g, want %g", c.x, got, c.want)
					}
				}
				if want := float64(c.want) * float64(n); want < math.MaxFloat32 && !near(sum, want, 1e-6, 0) {
					t.Errorf("sum of %d exp(%g) = %g, want %g", n, c.x, sum, want)
				}
			}
		}
		x := []float32{float32(math.NaN())}
		if s := Exp(x, x, 0); x[0] == x[0] || s == s {
			t.Errorf("exp(NaN) = %g, sum %g", x[0], s)
		}
		y := []float32{1, -inf, 3, 2}
		Softmax(y)
		if !near(y[0], math.Exp(-2)/(math.Exp(-2)+1+math.Exp(-1)), 1e-6, 0) || y[1] != 0 {
			t.Errorf("softmax = %v", y)
		}
	})
}

func TestNorms(t *testing.T) {
	tiers(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 6))
		for _, n := range lengths {
			x, w, b := noise(rng, n, 1), noise(rng, n, 2), noise(rng, n, 2)
			for i := range x {
				x[i] += 3
			}
			var sum, sq float64
			for _, v := range x {
				sum, sq = sum+float64(v), sq+float64(v)*float64(v)
			}
			mean := sum / float64(n)
			variance := 0.0
			for _, v := range x {
				variance += (float64(v) - mean) * (float64(v) - mean) / float64(n)
			}
			const eps = 1e-5
			inv := 1 / math.Sqrt(variance+eps)
			for name, f := range map[string]struct {
				run  func(dst []float32)
				want func(i int) float64
			}{
				"RMSNorm": {func(dst []float32) { RMSNorm(dst, x, w, eps) },
					func(i int) float64 { return float64(x[i]) / math.Sqrt(sq/float64(n)+eps) * float64(w[i]) }},
				"LayerNorm": {func(dst []float32) { LayerNorm(dst, x, w, b, eps) },
					func(i int) float64 { return (float64(x[i])-mean)*inv*float64(w[i]) + float64(b[i]) }},
				"LayerNorm without bias": {func(dst []float32) { LayerNorm(dst, x, w, nil, eps) },
					func(i int) float64 { return (float64(x[i]) - mean) * inv * float64(w[i]) }},
			} {
				dst, intact := poisoned(n)
				f.run(dst)
				if !intact() {
					t.Fatalf("%s of %d: wrote outside", name, n)
				}
				for i, got := range dst {
					// A row of one has no spread: its noise is divided by sqrt(eps).
					if !near(got, f.want(i), 1e-6, 2e-6*max(1, inv)) {
						t.Fatalf("%s[%d of %d] = %g, want %g", name, i, n, got, f.want(i))
					}
				}
			}
		}
	})
}

func TestRoPE(t *testing.T) {
	tiers(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(7, 8))
		for _, c := range []struct{ heads, dim, half int }{{3, 64, 32}, {2, 80, 20}, {1, 10, 5}, {2, 32, 12}, {1, 16, 8}, {2, 4, 0}} {
			for variant := range 4 {
				inter, inverse := variant&1 != 0, variant&2 != 0
				cos, sin := make([]float32, c.half), make([]float32, c.half)
				for j := range cos {
					a := rng.Float64() * 6
					cos[j], sin[j] = float32(math.Cos(a)), float32(math.Sin(a))
				}
				x, intact := poisoned(c.heads * c.dim)
				copy(x, noise(rng, len(x), 1))
				old := append([]float32(nil), x...)
				RoPE(x, c.heads, c.dim, cos, sin, inter, inverse)
				if !intact() {
					t.Fatalf("%+v: wrote outside", c)
				}
				want := make([]float64, len(old))
				for i, v := range old {
					want[i] = float64(v)
				}
				for h := range c.heads {
					for j := range c.half {
						p, q := h*c.dim+j, h*c.dim+j+c.half
						if inter {
							p, q = h*c.dim+2*j, h*c.dim+2*j+1
						}
						s := float64(sin[j])
						if inverse {
							s = -s
						}
						a, b, co := float64(old[p]), float64(old[q]), float64(cos[j])
						want[p], want[q] = a*co-b*s, b*co+a*s
					}
				}
				for i, got := range x {
					if !near(got, want[i], 1e-6, 2e-7) {
						t.Fatalf("%+v variant %d: [%d] = %g, want %g", c, variant, i, got, want[i])
					}
				}
			}
		}
	})
}

func TestNothingAllocates(t *testing.T) {
	tiers(t, func(t *testing.T) {
		a, b, c := make([]float32, 77), make([]float32, 77), make([]float32, 77)
		if n := testing.AllocsPerRun(5, func() {
			for _, k := range maps {
				k.run(c, a, b)
			}
			Sum(a)
			Dot(a, b)
			DotFrom(a, b, 1)
			AdamW(a, b, c, c, &AdamWStep{Eps: 1})
			Max(a)
			RMSNorm(c, a, b, 1e-6)
			LayerNorm(c, a, b, a, 1e-6)
			RoPE(c, 1, 77, a[:32], b[:32], false, false)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func BenchmarkMaps(bench *testing.B) {
	const n = 1536
	a, b, dst := make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range a {
		a[i] = float32(i%17)/4 - 2
	}
	for _, tier := range isa.Available() {
		for _, k := range maps {
			bench.Run(fmt.Sprintf("%s/tier=%v", k.name, tier), func(bench *testing.B) {
				defer isa.Use(tier)()
				for bench.Loop() {
					k.run(dst, a, b)
				}
				bench.ReportMetric(n*float64(bench.N)/bench.Elapsed().Seconds()/1e9, "Gvalue/s")
			})
		}
	}
}

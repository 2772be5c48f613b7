package vec

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestWithin(t *testing.T) {
	inf := float32(math.Inf(1))
	special := []float32{float32(math.NaN()), inf, -inf, 0, float32(math.Copysign(0, -1)), 1e-40, -1e-40, 0.5}
	tiers(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 6))
		for _, n := range append([]int{127, 128, 192, 4096, 4100}, lengths...) {
			for _, low := range []float32{-inf, -math.MaxFloat32, -1, 0, 1e-40, 0.5, 0.99, 2, inf, special[0]} {
				high := []float32{inf, 0, 0.6, 2e-40, special[0]}[rng.IntN(5)]
				a := noise(rng, n, 1)
				for range n / 8 {
					a[rng.IntN(n)] = special[rng.IntN(len(special))]
				}
				var want []int32
				var wantValues []float32
				for i, x := range a {
					if x >= low && x < high {
						want, wantValues = append(want, int32(i)), append(wantValues, x)
					}
				}
				const margin, mark = 20, -7
				all, allValues := make([]int32, n+2*margin), make([]float32, n+2*margin)
				for i := range all {
					all[i], allValues[i] = mark, mark
				}
				got, gotValues := all[margin:margin+n:margin+n], allValues[margin:margin+n:margin+n]
				count := IndexesWithin(got, a, low, high)
				if !slices.Equal(got[:count], want) {
					t.Fatalf("%d values from %v to %v: %v, expected %v", n, low, high, got[:count], want)
				}
				if count := ValuesWithin(gotValues, a, low, high); !slices.Equal(gotValues[:count], wantValues) {
					t.Fatalf("%d values from %v to %v: %v, expected %v", n, low, high, gotValues[:count], wantValues)
				}
				if count := ValuesWithin(a, a, low, high); !slices.Equal(a[:count], wantValues) {
					t.Fatalf("%d values from %v to %v in place: %v, expected %v", n, low, high, a[:count], wantValues)
				}
				for i := range margin {
					if all[i] != mark || all[margin+n+i] != mark || allValues[i] != mark || allValues[margin+n+i] != mark {
						t.Fatalf("%d values: wrote outside of dst", n)
					}
				}
			}
		}
	})
}

func TestBins(t *testing.T) {
	tiers(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(5, 7))
		for _, n := range append([]int{127, 128, 192, 4096, 4100}, lengths...) {
			for _, spread := range []float32{0, 1e-40, 0.01, 1, 30, 3e38} {
				a, top := noise(rng, n, spread), spread
				for i := range a {
					if top = max(top, a[i]); i%7 == 3 {
						a[i] = float32(math.Inf(-1))
					}
				}
				const margin, mark = 40, 9999
				all := make([]uint16, n+2*margin)
				for i := range all {
					all[i] = mark
				}
				got := all[margin : margin+n : margin+n]
				Bins(got, a, top, 64, 2047)
				for i, x := range a {
					y := (top - x) * 64
					if want := uint16(min(float64(y), 2047)); got[i] != want {
						t.Fatalf("%d values, top %v: %v is in bin %d, expected %d", n, top, x, got[i], want)
					}
				}
				for i := range margin {
					if all[i] != mark || all[margin+n+i] != mark {
						t.Fatalf("%d values: wrote outside of dst", n)
					}
				}
			}
		}
	})
}

func TestExpSum(t *testing.T) {
	tiers(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(7, 8))
		for _, n := range append([]int{128, 4096, 50001}, lengths...) {
			for _, spread := range []float32{0, 1e-3, 1, 30, 1e4, 1e38} {
				for _, scale := range []float64{1, 1 / 0.7, 0.01, 1e3, 1e44} {
					a, most := noise(rng, n, spread), float32(0)
					if n > 0 {
						a[n/2] = float32(math.Inf(-1))
						a[n/3] = 1e-40
						most = max(slices.Max(a), 0)
						a[n-1] = most
					}
					want := 0.0
					for _, x := range a {
						want += math.Exp((float64(x) - float64(most)) * scale)
					}
					if got := ExpSum(a, float64(most), scale); math.Abs(got-want) > 5e-12*want {
						t.Fatalf("%d values up to %v, scale %v: %v, expected %v", n, spread, scale, got, want)
					}
					if n > 1024 || scale > 1e30 {
						continue
					}
					if got := RoughExpSum(a, most, float32(scale)); math.Abs(got-want) > 2e-5*want {
						t.Fatalf("%d values up to %v, scale %v: roughly %v, expected %v", n, spread, scale, got, want)
					}
				}
			}
		}
	})
}

// A single power shows the error that a sum hides.
func TestExpSumOfOne(t *testing.T) {
	tiers(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(9, 1))
		low := float32(math.Inf(-1))
		a := make([]float32, 64)
		for range 2000 {
			for i := range a {
				a[i] = low
			}
			x := -rng.Float32() * 50
			a[rng.IntN(64)] = x
			want := math.Exp(float64(x))
			if got := ExpSum(a, 0, 1); math.Abs(got-want) > 2e-12*want {
				t.Fatalf("e^%v is %v, expected %v", x, got, want)
			}
			if got := RoughExpSum(a, 0, 1); math.Abs(got-want) > 2e-5*want {
				t.Fatalf("e^%v is roughly %v, expected %v", x, got, want)
			}
		}
	})
}

func BenchmarkLogits(bench *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	a, ids := noise(rng, 49152, 10), make([]int32, 1024)
	bench.Run("IndexesWithin", func(b *testing.B) {
		for b.Loop() {
			for i := 0; i < len(a); i += len(ids) {
				IndexesWithin(ids, a[i:i+len(ids)], 9.9, 11)
			}
		}
	})
	values := make([]float32, len(a))
	bench.Run("ValuesWithin", func(b *testing.B) {
		for b.Loop() {
			ValuesWithin(values, a, 0, 11)
		}
	})
	bins := make([]uint16, 1024)
	bench.Run("Bins", func(b *testing.B) {
		for b.Loop() {
			for i := 0; i < len(a); i += len(bins) {
				Bins(bins, a[i:i+len(bins)], 10, 64, 2047)
			}
		}
	})
	bench.Run("ExpSum", func(b *testing.B) {
		for b.Loop() {
			ExpSum(a, 10, 1)
		}
	})
	bench.Run("RoughExpSum", func(b *testing.B) {
		for b.Loop() {
			for i := 0; i < len(a); i += 1024 {
				RoughExpSum(a[i:i+1024], 10, 1)
			}
		}
	})
}

// TestFetch: asking for lines changes nothing and takes any slice.
func TestFetch(t *testing.T) {
	a := []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}
	for i := range a {
		Fetch(a[i:])
		Fetch(a[:i])
	}
	Fetch([]byte(nil))
	Fetch(make([]byte, 1))
	for i, v := range a {
		if v != float32(i+1) {
			t.Errorf("value %d is %g after Fetch", i, v)
		}
	}
}

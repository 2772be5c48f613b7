package gemm

import (
	"math"
	"math/rand/v2"
	"testing"

	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// TestMixRows holds every tier to float64 sums: rows that lie within longer
// ones, as a head's do, with guards around what is written.
func TestMixRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	values := func(n int) []float32 {
		f := make([]float32, n)
		for i := range f {
			f[i] = float32(rng.NormFloat64())
		}
		return f
	}
	for _, tier := range isa.Available() {
		t.Run(tier.String(), func(t *testing.T) {
			defer isa.Use(tier)()
			for _, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.Q8_0, tensor.Q4_0} {
				for m := 1; m <= 9; m++ {
					n, k, all := []int{1, 7, 64}[m%3], 32*(1+m%4), 160
					rb := d.RowBytes(all)
					raw := make([]byte, n*rb)
					if err := tensor.Quantize(raw, d, values(n*all)); err != nil {
						t.Fatal(err)
					}
					w := &Stored{Data: raw[d.RowBytes(32):], DType: d, N: n, K: k, RowBytes: rb}
					decodedAll := make([]float32, n*all)
					if err := tensor.Dequantize(decodedAll, d, raw); err != nil {
						t.Fatal(err)
					}
					ldd, ldp := k+3, n+2
					p, old := values(m*ldp), values(m*ldd)
					for _, add := range []bool{false, true} {
						got := append([]float32(nil), old...)
						MixRows(got, ldd, p, ldp, m, w, n, add)
						for i := range m {
							for c := range ldd {
								var want, size float64
								if add || c >= k {
									want = float64(old[i*ldd+c])
								}
								for r := range n {
									if c < k {
										v := float64(p[i*ldp+r]) * float64(decodedAll[r*all+32+c])
										want += v
										size += math.Abs(v)
									}
								}
								if math.Abs(float64(got[i*ldd+c])-want) > 1e-5*size+1e-6*math.Abs(want) {
									t.Fatalf("%v add=%v: %d rows over %d of %d: [%d,%d] is %g, expected %g", d, add, m, n, k, i, c, got[i*ldd+c], want)
								}
							}
						}
					}
				}
			}
		})
	}
}

package gemm

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// largest is what a block's codes, and what its offsets, come to at most beside
// its first and second half.
var largest = map[tensor.DType][2]float64{
	tensor.Q8_0: {128}, tensor.Q4_0: {8}, tensor.Q4_1: {15, 1}, tensor.Q5_0: {16}, tensor.Q5_1: {31, 1},
	tensor.Q4_K: {63 * 15, 63}, tensor.Q5_K: {63 * 31, 63}, tensor.Q6_K: {128 * 32},
	tensor.Q2_K: {15 * 3, 15}, tensor.Q3_K: {32 * 4}, tensor.IQ4_NL: {127}, tensor.IQ4_XS: {32 * 127},
}

// direct1 are the types that one row multiplies with as they lie, floats apart.
func direct1() []tensor.DType {
	return append(slices.Sorted(maps.Keys(largest)), tensor.MXFP4)
}

// TestGemvExtremes multiplies blocks of any bytes, with halves that are zero,
// denormal, the largest of either sign or ordinary, with x from tiny to large:
// what comes out is within rounding of the decoded values' product, and the
// same whatever range of rows it was asked for in.
func TestGemvExtremes(t *testing.T) {
	scales := []uint16{0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x3c00, 0x2e66, 0xae66, 0x7bff, 0xfbff}
	tiers(t, func(t *testing.T, tier isa.Tier) {
		rng := rand.New(rand.NewPCG(7, 7))
		for d, most := range largest {
			block, size := d.Info().BlockLen, d.Info().BlockBytes
			for _, blocks := range []int{1, 2, 3, 7} {
				for _, n := range []int{1, 3, 4, 9} {
					k := blocks * block
					data := make([]byte, n*blocks*size)
					for i := range data {
						data[i] = byte(rng.Uint32())
					}
					for at := 0; at < len(data); at += size {
						for _, h := range halves[d] {
							binary.LittleEndian.PutUint16(data[at+h:], scales[rng.IntN(len(scales))])
						}
					}
					w, err := NewStored(data, d, n, k)
					if err != nil {
						t.Fatal(err)
					}
					values := make([]float32, n*k)
					if err := tensor.Dequantize(values, d, data); err != nil {
						t.Fatal(err)
					}
					x, xs := noise(rng, k), make([]float32, XSumsLen(k))
					for i := range x {
						x[i] *= []float32{0, 1e-6, 1, 1, 1000}[rng.IntN(5)]
					}
					XSums(xs, x, d)
					got, intact := poisoned(n)
					GemvRows(got, w, x, xs, 0, n)
					name := fmt.Sprintf("%v [%d,%d]", d, n, k)
					if !intact() {
						t.Fatalf("%s: wrote outside", name)
					}
					for r := range n {
						var want, bound float64
						for i := range k {
							want += float64(values[r*k+i]) * float64(x[i])
							b := data[(r*blocks+i/block)*size:]
							for j, h := range halves[d] {
								s := tensor.F16ToF32(binary.LittleEndian.Uint16(b[h:]))
								bound += math.Abs(float64(s)*float64(x[i])) * most[j]
							}
						}
						if !(math.Abs(float64(got[r])-want) <= 1e-6*bound) {
							t.Fatalf("%s: row %d = %g, want %g within %g", name, r, got[r], want, 1e-6*bound)
						}
					}
					parts, _ := poisoned(n)
					for r := range n { // as many workers as rows
						GemvRows(parts, w, x, xs, r, r+1)
					}
					same(t, name+" row by row", parts, got)
					for _, workers := range []int{2, 4} {
						parts, _ = poisoned(n)
						for i := range workers {
							GemvRows(parts, w, x, xs, i*n/workers, (i+1)*n/workers)
						}
						same(t, fmt.Sprintf("%s of %d workers", name, workers), parts, got)
					}
				}
			}
		}
	})
}

// TestGemvEachCode gives one value at a time a place of its own in x, so that a
// code, a bit or a scale taken from a wrong place shows whole.
func TestGemvEachCode(t *testing.T) {
	tiers(t, func(t *testing.T, tier isa.Tier) {
		rng := rand.New(rand.NewPCG(8, 8))
		for _, d := range direct1() {
			k := 2 * d.Info().BlockLen
			w, values := store(t, rng, d, 4, k)
			x, xs, dst := make([]float32, k), make([]float32, XSumsLen(k)), make([]float32, 4)
			for i := range k {
				x[i] = 1
				XSums(xs, x, d)
				GemvRows(dst, w, x, xs, 0, 4)
				for r, got := range dst {
					if want := values[r*k+i]; !(math.Abs(float64(got-want)) <= 1e-6) {
						t.Fatalf("%v: value %d of row %d = %g, want %g", d, i, r, got, want)
					}
				}
				x[i] = 0
			}
		}
	})
}

// TestInfiniteScales: a block whose scale or minimum is infinite or no number
// makes its row's products infinite or no number, which of the two depends on
// the kernel, and those of other rows stay what they were.
func TestInfiniteScales(t *testing.T) {
	tiers(t, func(t *testing.T, tier isa.Tier) {
		rng := rand.New(rand.NewPCG(10, 10))
		for d, places := range halves {
			k, size := 2*max(32, d.Info().BlockLen), d.Info().BlockBytes
			const n, bad = 5, 2
			for _, place := range places {
				for _, h := range []uint16{0x7c00, 0xfc00, 0x7e00} {
					w, _ := store(t, rng, d, n, k)
					x, xs := noise(rng, 3*k), make([]float32, XSumsLen(k))
					want := make([]float32, n)
					XSums(xs, x[:k], d)
					GemvRows(want, w, x[:k], xs, 0, n)
					binary.LittleEndian.PutUint16(w.Data[bad*w.RowBytes+w.RowBytes-size+place%size:], h)
					got, few := make([]float32, n), make([]float32, 3*n)
					GemvRows(got, w, x[:k], xs, 0, n)
					MulRows(few, n, w, x, k, 3, 0, n)
					panels := make([]float32, 3*n)
					Run(&Task{M: 3, N: n, K: k, A: x, LDA: k, B: w, C: panels, LDC: n}, 0, 3, 0, NumPanels(n), NewScratch(nil))
					for r := range n {
						for _, v := range []float32{got[r], few[r], panels[r], panels[n+r]} {
							finite := !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0)
							if finite == (r == bad) {
								t.Fatalf("%v with %#04x at %d: row %d = %g", d, h, place, r, v)
							}
						}
						if r != bad && got[r] != want[r] {
							t.Fatalf("%v with %#04x at %d: row %d = %g, want %g", d, h, place, r, got[r], want[r])
						}
					}
				}
			}
		}
	})
}

// TestFew holds several rows of long blocks to the kernels for one, which are
// faster there than decoding once for all, and others to those for several.
func TestFew(t *testing.T) {
	tiers(t, func(t *testing.T, tier isa.Tier) {
		rng := rand.New(rand.NewPCG(9, 9))
		for _, d := range direct1() {
			k := 3 * d.Info().BlockLen
			const n, most = 23, 5
			w, _ := store(t, rng, d, n, k)
			ldx, ldd := k+3, n+2
			x, xs := noise(rng, most*ldx), make([]float32, XSumsLen(k))
			for m := 1; m <= most; m++ {
				got, intact := poisoned((m-1)*ldd + n)
				Few(got, ldd, w, x, ldx, m, 0, 11, xs)
				Few(got, ldd, w, x, ldx, m, 11, n, xs)
				if !intact() {
					t.Fatalf("%v, %d rows: wrote outside", d, m)
				}
				want := make([]float32, (m-1)*ldd+n)
				if direct := m == 1 || d.Info().BlockLen == 256 && isa.Vector() >= isa.AVX2; !direct {
					MulRows(want, ldd, w, x, ldx, m, 0, n)
				} else {
					for i := range m {
						XSums(xs, x[i*ldx:][:k], d)
						GemvRows(want[i*ldd:], w, x[i*ldx:][:k], xs, 0, n)
					}
				}
				for i := range m {
					same(t, fmt.Sprintf("%v: row %d of %d", d, i, m), got[i*ldd:][:n], want[i*ldd:][:n])
				}
			}
		}
	})
}

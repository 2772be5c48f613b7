package bf16

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// onHalves reports whether products with w run on tiles of f16.
func onHalves(w *gemm.Stored) bool {
	types := []tensor.DType{tensor.Q4_0, tensor.Q4_1, tensor.Q8_0}
	return isa.Active() >= isa.AMXFP16 && w.Halves && CanFew(w) && slices.Contains(types, w.DType)
}

// half rounds to the bits of f16, for numbers of about 1.
func half(x float32) float64 { return float64(tensor.F16ToF32(tensor.F32ToF16(x*1024))) / 1024 }

// halfWeight is value x of a row, v, as tiles of f16 have it. Q4_1 is rounded twice:
// what stands for code 8, and the weight.
func halfWeight(d tensor.DType, row []byte, x int, v float32) float64 {
	round := func(f float64) float64 { return float64(tensor.F16ToF32(tensor.F32ToF16(float32(f)))) }
	if d != tensor.Q4_1 {
		return round(float64(v))
	}
	block := row[x/32*20:]
	scale := float64(tensor.F16ToF32(binary.LittleEndian.Uint16(block)))
	least := float64(tensor.F16ToF32(binary.LittleEndian.Uint16(block[2:])))
	code := int(block[4+x%16] >> (x % 32 / 16 * 4) & 15)
	return round(scale*float64(code-8) + round(least+8*scale))
}

// useHalves switches to tiles of f16 until the test ends.
func useHalves(t *testing.T) {
	if !slices.Contains(isa.Available(), isa.AMXFP16) {
		t.Skip("this machine has no tiles of f16")
	}
	t.Cleanup(isa.Use(isa.AMXFP16))
}

// TestHalfRows: a row has results of the same bits, but for the exponent, whatever
// the power of two that it is multiplied by, far beyond the range of f16, and zeros
// beside it are zeros.
func TestHalfRows(t *testing.T) {
	useHalves(t)
	const n, k = 48, 96
	for _, d := range []tensor.DType{tensor.Q4_0, tensor.Q4_1, tensor.Q8_0} {
		w := inPanels(t, stored(t, d, n, k))
		if !onHalves(w) {
			t.Fatalf("%v does not run on tiles of f16", d)
		}
		powers := []int{0, 40, 110, -40, -90}
		row := random(k, 1)
		a := make([]float32, (len(powers)+1)*k) // the last row is zeros
		for i, p := range powers {
			for j, v := range row {
				a[i*k+j] = float32(math.Ldexp(float64(v), p))
			}
		}
		c := make([]float32, (len(powers)+1)*n)
		RunFew(&FewTask{M: len(powers) + 1, A: a, LDA: k, W: w, C: c, LDC: n}, 0, n, NewFewScratch(k))
		for j, want := range c[:n] {
			if want == 0 {
				t.Fatalf("%v: column %d is 0", d, j)
			}
			for i, p := range powers {
				if got := math.Ldexp(float64(c[i*n+j]), -p); got != float64(want) {
					t.Errorf("%v: column %d of the row times 2^%d is %g, expected %g", d, j, p, got, want)
				}
			}
			if got := c[len(powers)*n+j]; got != 0 {
				t.Errorf("%v: column %d of zeros is %g", d, j, got)
			}
		}
	}
}

// TestHalfOutOfRange: weights beyond the range of f16 are multiplied as bf16 numbers.
func TestHalfOutOfRange(t *testing.T) {
	useHalves(t)
	const n, k = 32, 64
	for d, scale := range map[tensor.DType]float32{tensor.Q4_0: 9000, tensor.Q4_1: 5000, tensor.Q8_0: 600} {
		w := stored(t, d, n, k)
		binary.LittleEndian.PutUint16(w.Data, tensor.F32ToF16(scale))
		p := inPanels(t, w)
		if p.Halves {
			t.Errorf("%v with a scale of %g counts as finite in f16", d, scale)
		}
		a, c := random(2*k, 1), make([]float32, 2*n)
		RunFew(&FewTask{M: 2, A: a, LDA: k, W: p, C: c, LDC: n}, 0, n, NewFewScratch(k))
		for i, v := range c {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				t.Fatalf("%v with a scale of %g: result %d is %g", d, scale, i, v)
			}
		}
	}
}

// TestHalfPanelCounts: groups of four panels are asked for ahead; every number of
// panels and steps around them has the results of one panel at a time.
func TestHalfPanelCounts(t *testing.T) {
	useHalves(t)
	for _, steps := range []int{1, 2, 3, 4, 5, 300} {
		for panels := 1; panels <= 9; panels++ {
			n, k, m := panels*codes.Rows, 32*steps, 1+panels%3*7
			w := inPanels(t, stored(t, tensor.Q4_1, n, k))
			a, s := random(m*k, 2), NewFewScratch(k)
			all, one := make([]float32, m*n), make([]float32, m*n)
			RunFew(&FewTask{M: m, A: a, LDA: k, W: w, C: all, LDC: n}, 0, n, s)
			for p := range panels {
				RunFew(&FewTask{M: m, A: a, LDA: k, W: w, C: one, LDC: n}, p*codes.Rows, (p+1)*codes.Rows, s)
			}
			if !slices.Equal(all, one) {
				t.Errorf("%d panels of %d steps, %d rows: results differ", panels, steps, m)
			}
		}
	}
}

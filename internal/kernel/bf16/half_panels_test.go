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

// TestHalfRowEdges: rows at the ends of the range of f32 have results as close as
// others, rows that are not finite have none that are, and no row changes the others.
// Beside a number, those 2^38 times smaller are lost.
func TestHalfRowEdges(t *testing.T) {
	useHalves(t)
	const n, k = 48, 96
	plain := random(k, 1)
	times := func(p int) []float32 {
		x := make([]float32, k)
		for j, v := range plain {
			x[j] = float32(math.Ldexp(float64(v), p))
		}
		return x
	}
	with := func(x []float32, values map[int]float64) []float32 {
		x = slices.Clone(x)
		for j, v := range values {
			x[j] = float32(v)
		}
		return x
	}
	zeros := make([]float32, k)
	rows := []struct {
		name   string
		x      []float32
		finite bool
	}{
		{"plain", plain, true},
		{"times 2^-114", times(-114), true},
		{"times 2^-118", times(-118), true},
		{"times 2^-122", times(-122), true},
		{"subnormal", times(-135), true},
		{"the largest and its negative", with(zeros, map[int]float64{5: math.MaxFloat32, 70: -math.MaxFloat32}), true},
		{"the largest beside others", with(plain, map[int]float64{40: -math.MaxFloat32}), true},
		{"infinite", with(plain, map[int]float64{33: math.Inf(1)}), false},
		{"plain again", plain, true},
		{"not a number", with(plain, map[int]float64{64: math.NaN()}), false},
		{"1e20 beside 1", with(zeros, map[int]float64{0: 1, 1: 1e20, 95: 1}), true},
		{"ones", with(zeros, map[int]float64{0: 1, 1: 1, 95: 1}), true},
	}
	var a []float32
	for _, r := range rows {
		a = append(a, r.x...)
	}
	for _, d := range []tensor.DType{tensor.Q4_0, tensor.Q4_1, tensor.Q8_0} {
		file := storedTimes(t, d, n, k, 1.0/16) // results of the largest are finite
		w := inPanels(t, file)
		if !onHalves(w) {
			t.Fatalf("%v does not run on tiles of f16", d)
		}
		c := make([]float32, len(rows)*n)
		RunFew(&FewTask{M: len(rows), A: a, LDA: k, W: w, C: c, LDC: n}, 0, n, NewFewScratch(k))
		weights := make([]float32, n*k)
		if err := tensor.Dequantize(weights, d, file.Data); err != nil {
			t.Fatal(err)
		}
		for i, r := range rows {
			for j := range n {
				got := float64(c[i*n+j])
				if !r.finite {
					if !math.IsNaN(got) && !math.IsInf(got, 0) {
						t.Errorf("%v, row %q: column %d is %g", d, r.name, j, got)
					}
					continue
				}
				var want, size, largest, sum float64
				for x, v := range weights[j*k : (j+1)*k] {
					p := float64(r.x[x]) * float64(v)
					want += p
					size += math.Abs(p)
					largest = max(largest, math.Abs(float64(r.x[x])))
					sum += math.Abs(float64(v))
				}
				const least = 0x1p-126 // results below it may be 0
				if !(math.Abs(got-want) <= size/512+sum*largest*0x1p-38+least) {
					t.Errorf("%v, row %q: column %d is %g, expected %g", d, r.name, j, got, want)
				}
			}
			if alone := make([]float32, n); r.finite {
				RunFew(&FewTask{M: 1, A: r.x, LDA: k, W: w, C: alone, LDC: n}, 0, n, NewFewScratch(k))
				if !slices.Equal(alone, c[i*n:(i+1)*n]) {
					t.Errorf("%v, row %q has other results among others than alone", d, r.name)
				}
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
	for _, d := range []tensor.DType{tensor.Q4_0, tensor.Q4_1, tensor.Q8_0} {
		for _, steps := range []int{1, 2, 3, 4, 5, 300} {
			for panels := 1; panels <= 9; panels++ {
				panelCounts(t, d, panels, steps, 1+panels%3*7)
			}
		}
	}
}

func panelCounts(t *testing.T, d tensor.DType, panels, steps, m int) {
	t.Helper()
	n, k := panels*codes.Rows, 32*steps
	w := inPanels(t, stored(t, d, n, k))
	if !onHalves(w) {
		t.Fatalf("%v does not run on tiles of f16", d)
	}
	a, s := random(m*k, 2), NewFewScratch(k)
	all, one := make([]float32, m*n), make([]float32, m*n)
	RunFew(&FewTask{M: m, A: a, LDA: k, W: w, C: all, LDC: n}, 0, n, s)
	for p := range panels {
		RunFew(&FewTask{M: m, A: a, LDA: k, W: w, C: one, LDC: n}, p*codes.Rows, (p+1)*codes.Rows, s)
	}
	if !slices.Equal(all, one) {
		t.Errorf("%v, %d panels of %d steps, %d rows: results differ", d, panels, steps, m)
	}
}

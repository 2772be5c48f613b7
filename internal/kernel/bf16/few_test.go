package bf16

import (
	"fmt"
	"math"
	"testing"

	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// fewTypes are all that RunFew has kernels for, and some that run in plain Go.
var fewTypes = []tensor.DType{tensor.Q4_1, tensor.Q4_0, tensor.IQ4_NL, tensor.Q8_0, tensor.F16, tensor.F32, tensor.BF16,
	tensor.Q5_0, tensor.Q5_1, tensor.Q4_K, tensor.Q6_K}

func stored(tb testing.TB, d tensor.DType, n, k int) *gemm.Stored { return storedTimes(tb, d, n, k, 1) }

// storedTimes has the weights of stored, multiplied by a factor.
func storedTimes(tb testing.TB, d tensor.DType, n, k int, factor float32) *gemm.Stored {
	values := random(n*k, uint64(n+k))
	for i := range values {
		values[i] *= factor
	}
	raw := make([]byte, n*d.RowBytes(k))
	if err := tensor.Quantize(raw, d, values); err != nil {
		tb.Fatal(err)
	}
	w, err := gemm.NewStored(raw, d, n, k)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

// TestFew holds every tier to float64 sums of rounded operands, of which weights
// in panels of codes are not rounded, unless tiles are f16: every number of rows,
// columns that are no whole groups, ranges in parts, strides beyond the rows, guards
// around C, weights and scales that are subnormal in f16.
func TestFew(t *testing.T) {
	for _, tier := range isa.Available() {
		t.Run(tier.String(), func(t *testing.T) {
			defer isa.Use(tier)()
			for _, d := range fewTypes {
				for _, panels := range []bool{false, true} {
					if panels && !codes.Has(d) {
						continue
					}
					for m := 1; m <= FewRows; m++ {
						few(t, d, panels, m, []int{16, 50, 7, 96}[m%4], 256*(1+m%2), m%3 == 0, 1)
					}
					for _, factor := range []float32{0x1p-12, 0x1p-16} {
						few(t, d, panels, 2, 50, 512, false, factor)
						few(t, d, panels, 16, 96, 256, false, factor)
					}
					if d.Info().BlockLen <= 32 {
						few(t, d, panels, 5, 33, 32, true, 1)
						few(t, d, panels, 16, 64, 96, false, 1)
						few(t, d, panels, 9, 16, 17*32, true, 1) // more steps than sums are made of at a time
					}
				}
			}
			few(t, tensor.F32, false, 3, 33, 45, true, 1) // no whole tiles
			for _, d := range []tensor.DType{tensor.Q4_1, tensor.Q8_0, tensor.Q4_K} {
				few(t, d, true, 3, 144, 8448, true, 1) // fewer than four panels have as many steps as a call
			}
		})
	}
}

// few holds a product with weights times a factor to its sums.
func few(t *testing.T, d tensor.DType, panels bool, m, n, k int, bias bool, factor float32) {
	t.Helper()
	w := storedTimes(t, d, n, k, factor)
	raw := w.Data
	if panels {
		w = inPanels(t, w)
	}
	lda, ldc := k+3, n+5
	a := random(m*lda, 1)
	const guard = 12345
	c := make([]float32, m*ldc)
	for i := range c {
		c[i] = guard
	}
	task := FewTask{M: m, A: a, LDA: lda, W: w, C: c, LDC: ldc}
	if bias {
		task.Bias = random(n, 3)
	}
	s := NewFewScratch(k)
	third := n / 3
	for _, r := range [][2]int{{0, third}, {third, third + 2}, {third + 2, n}} {
		RunFew(&task, r[0], r[1], s)
	}
	row := make([]float32, k)
	for j := range ldc {
		if j < n {
			if err := tensor.Dequantize(row, d, raw[j*w.RowBytes:][:w.RowBytes]); err != nil {
				t.Fatal(err)
			}
		}
		for i := range m {
			got := c[i*ldc+j]
			if j >= n {
				if got != guard {
					t.Fatalf("%v %dx%dx%d: wrote beyond row %d", d, m, n, k, i)
				}
				continue
			}
			var want, size float64
			for x, v := range row {
				p := bf16(a[i*lda+x]) * float64(v)
				switch {
				case onHalves(w):
					p = half(a[i*lda+x]) * halfWeight(d, raw[j*w.RowBytes:], x, v)
				case !panels:
					p = bf16(a[i*lda+x]) * bf16(v)
				}
				want += p
				size += math.Abs(p)
			}
			if bias {
				want += float64(task.Bias[j])
				size += math.Abs(float64(task.Bias[j]))
			}
			if !(math.Abs(float64(got)-want) <= 2e-6*size) {
				t.Fatalf("%v in panels %v, %dx%dx%d, weights times %g: C[%d,%d] is %g, expected %g (sizes add up to %g)", d, panels, m, n, k, factor, i, j, got, want, size)
			}
		}
	}
}

// TestFewEpoch: rows that were rounded in the same epoch are not looked at
// again, in another they are.
func TestFewEpoch(t *testing.T) {
	const n, k = 32, 64
	w := stored(t, tensor.Q4_1, n, k)
	if !CanFew(w) {
		t.Skip("this machine has no tiles")
	}
	s := NewFewScratch(k)
	fewEpoch(t, w, s)
	s.epoch = 0
	fewEpoch(t, inPanels(t, w), s)
}

func fewEpoch(t *testing.T, w *gemm.Stored, s *FewScratch) {
	n, k := w.N, w.K
	a, c := random(k, 1), make([]float32, n)
	task := FewTask{M: 1, A: a, LDA: k, W: w, C: c, LDC: n, Epoch: 1}
	RunFew(&task, 0, n, s)
	first := c[0]
	clear(a)
	if RunFew(&task, 0, n, s); c[0] != first {
		t.Errorf("a second run in the epoch gave %g, the first %g", c[0], first)
	}
	task.Epoch = 2
	if RunFew(&task, 0, n, s); c[0] != 0 {
		t.Errorf("zeros in a new epoch gave %g", c[0])
	}
}

func TestFewAllocates(t *testing.T) {
	for _, d := range fewTypes {
		weights := []*gemm.Stored{stored(t, d, 50, 256)}
		if codes.Has(d) {
			weights = append(weights, inPanels(t, weights[0]))
		}
		for _, w := range weights {
			task, s := FewTask{M: 3, A: random(3*256, 1), LDA: 256, W: w, C: make([]float32, 150), LDC: 50}, NewFewScratch(256)
			if n := testing.AllocsPerRun(10, func() { RunFew(&task, 0, 50, s) }); n != 0 {
				t.Errorf("%v in panels %v: %v allocations", d, w.InPanels, n)
			}
		}
	}
}

// BenchmarkFew multiplies rows with weights of the size of a layer, and for
// comparison as a Task and by gemm.MulRows.
func BenchmarkFew(b *testing.B) {
	const n, k = 1536, 768
	for _, d := range []tensor.DType{tensor.Q4_1, tensor.Q8_0, tensor.F16, tensor.BF16, tensor.Q5_0, tensor.Q4_K, tensor.Q6_K} {
		w := stored(b, d, n, k)
		for _, m := range []int{2, 4, 8, 16} {
			a, c := random(m*k, 1), make([]float32, m*n)
			ways := map[string]func(){}
			s, fs := NewScratch(k), NewFewScratch(k)
			task := Task{M: m, N: n, K: k, A: a, LDA: k, B: NewStored(w), C: c, LDC: n}
			few := FewTask{M: m, A: a, LDA: k, W: w, C: c, LDC: n}
			ways["panels"] = func() { Run(&task, 0, m, 0, n/NR, s) }
			ways["few"] = func() { RunFew(&few, 0, n, fs) }
			ways["f32"] = func() { gemm.MulRows(c, n, w, a, k, m, 0, n) }
			for _, way := range []string{"few", "panels", "f32"} {
				if way == "few" && !CanFew(w) {
					continue
				}
				b.Run(fmt.Sprintf("%v/rows=%d/%s", d, m, way), func(b *testing.B) {
					for b.Loop() {
						ways[way]()
					}
					b.ReportMetric(n*k*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gweights/s")
				})
			}
		}
	}
}

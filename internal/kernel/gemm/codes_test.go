package gemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"hotpath/internal/kernel/ceiling"
	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// codeTypes are all that RunCodes has kernels for, and some that run in plain Go.
var codeTypes = []tensor.DType{tensor.Q4_1, tensor.Q4_0, tensor.Q8_0, tensor.Q4_K, tensor.Q6_K, tensor.F32}

func seeded(n int, seed uint64) []float32 { return noise(rand.New(rand.NewPCG(seed, 1)), n) }

func codeWeights(tb testing.TB, d tensor.DType, n, k int) *Stored {
	tb.Helper()
	raw := make([]byte, n*d.RowBytes(k))
	if err := tensor.Quantize(raw, d, seeded(n*k, uint64(n+k))); err != nil {
		tb.Fatal(err)
	}
	w, err := NewStored(raw, d, n, k)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

// panelsOf is w in panels.
func panelsOf(tb testing.TB, w *Stored) *Stored {
	tb.Helper()
	data := make([]byte, codes.Bytes(w.DType, w.N, w.K))
	codes.Pack(data, w.Data, w.DType, w.N, w.K, 0, codes.NumPanels(w.N))
	p, err := NewPanels(data, w.DType, w.N, w.K)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// TestCodes holds every tier to float64 sums of rounded activations: every
// number of rows, columns that are no whole groups, ranges in parts, strides
// beyond the rows, blocks of zeros, guards around C.
func TestCodes(t *testing.T) {
	for _, tier := range isa.Available() {
		t.Run(tier.String(), func(t *testing.T) {
			defer isa.Use(tier)()
			for _, d := range codeTypes {
				for m := 1; m <= CodeRows; m++ {
					checkCodes(t, d, m, []int{16, 50, 7, 96}[m%4], 256*(1+m%2), m%3 == 0)
				}
				if d.Info().BlockLen <= codeLen {
					checkCodes(t, d, 5, 33, 32, true)
					checkCodes(t, d, 8, 64, 96, false)
				}
			}
			checkCodes(t, tensor.F32, 3, 33, 45, true) // no whole blocks
		})
	}
}

func checkCodes(t *testing.T, d tensor.DType, m, n, k int, bias bool) {
	t.Helper()
	w := codeWeights(t, d, n, k)
	checkTask(t, w, m, bias)
	if codes.Has(d) {
		p := panelsOf(t, w)
		if vectors := isa.Active() >= isa.AVX2 && runtime.GOARCH == "amd64"; vectors != CanCodes(p) && n >= codeGroup {
			t.Errorf("%v: panels of %v have kernels: %v, expected %v", isa.Active(), d, !vectors, vectors)
		}
		checkTask(t, p, m, bias)
	}
}

func checkTask(t *testing.T, w *Stored, m int, bias bool) {
	t.Helper()
	d, n, k := w.DType, w.N, w.K
	lda, ldc := k+3, n+5
	a := seeded(m*lda, 1)
	for i := range a {
		a[i] *= float32(math.Exp(float64(i/codeLen%7 - 3))) // scales differ
	}
	clear(a[(m-1)*lda:][:min(codeLen, k/2)])
	const guard = 12345
	c := make([]float32, m*ldc)
	for i := range c {
		c[i] = guard
	}
	task := CodeTask{M: m, A: a, LDA: lda, W: w, C: c, LDC: ldc}
	if bias {
		task.Bias = seeded(n, 3)
	}
	s := NewCodeScratch(k)
	third := n / 3
	for _, r := range [][2]int{{0, third}, {third, third + 2}, {third + 2, n}} {
		RunCodes(&task, r[0], r[1], s)
	}
	row, x := make([]float32, k), make([]float32, k)
	for i := range m {
		for b := 0; b < k; b += codeLen {
			roundCodes(x[b:min(k, b+codeLen)], a[i*lda+b:])
		}
		for j := range ldc {
			got := c[i*ldc+j]
			if j >= n {
				if got != guard {
					t.Fatalf("%v %dx%dx%d: wrote beyond row %d", d, m, n, k, i)
				}
				continue
			}
			part, _ := w.Unpacked(make([]byte, UnpackedLen(1, k)), j, 1, 0, k)
			if err := tensor.Dequantize(row, d, part.Data[:part.RowBytes]); err != nil {
				t.Fatal(err)
			}
			var want, size float64
			for i, v := range row {
				p := float64(v) * float64(x[i])
				want += p
				size += math.Abs(p)
			}
			if bias {
				want += float64(task.Bias[j])
			}
			if math.Abs(float64(got)-want) > 2e-6*(size+1) {
				t.Fatalf("%v %dx%dx%d, panels %v: C[%d,%d] is %g, expected %g", d, m, n, k, w.InPanels, i, j, got, want)
			}
		}
	}
}

// TestPanelsTogether: one row gives the same bits with several panels at once, behind a
// first column that does not begin one, and with each panel alone, whatever comes next.
func TestPanelsTogether(t *testing.T) {
	for _, d := range codes.Types() {
		for i, size := range [][2]int{{13*codeGroup + 5, 256}, {13*codeGroup + 5, 2560}, {135*codeGroup + 9, 256}, {2 * codeGroup, 512}, {3*codeGroup + 1, 256}, {8 * codeGroup, 20480}} {
			n, k := size[0], size[1]
			w := panelsOf(t, codeWeights(t, d, n, k))
			task := CodeTask{M: 1, A: seeded(k, 1), LDA: k, W: w, LDC: n}
			if i%2 == 0 {
				task.Bias = seeded(n, 2)
			}
			for _, tier := range isa.Available() {
				restore, s := isa.Use(tier), NewCodeScratch(k)
				task.C, task.Next = make([]float32, n), nil
				for c := 0; c < n; c += codeGroup {
					RunCodes(&task, c, min(n, c+codeGroup), s)
				}
				want := task.C
				for j, first := range []int{0, codeGroup, 7} {
					task.C, task.Next = slices.Clone(want), [...]*byte{nil, &w.Data[0], new(byte)}[j] // prefetched, not read
					clear(task.C[first:])
					RunCodes(&task, first, n, s)
					if !slices.Equal(task.C, want) {
						t.Errorf("%v, %v, %d rows of %d, columns from %d on: other bits than each panel alone", tier, d, n, k, first)
					}
				}
				restore()
			}
		}
	}
}

// TestCodesPanels: panels give the bits that the file's rows do.
func TestCodesPanels(t *testing.T) {
	for _, tier := range isa.Available() {
		defer isa.Use(tier)()
		for _, d := range []tensor.DType{tensor.Q4_1, tensor.Q4_0, tensor.Q8_0} {
			w := codeWeights(t, d, 83, 96)
			p := panelsOf(t, w)
			if !CanCodes(w) || !CanCodes(p) {
				continue
			}
			for m := 1; m <= CodeRows; m++ {
				want, got := make([]float32, m*w.N), make([]float32, m*w.N)
				task := CodeTask{M: m, A: seeded(m*w.K, 1), LDA: w.K, W: w, C: want, LDC: w.N, Bias: seeded(w.N, 2), Epoch: 1}
				s := NewCodeScratch(w.K)
				RunCodes(&task, 0, w.N, s)
				task.W, task.C = p, got
				RunCodes(&task, 0, 40, s)
				RunCodes(&task, 40, w.N, s)
				if !slices.Equal(got, want) {
					t.Fatalf("%v, %v, %d rows: panels gave other bits than rows", tier, d, m)
				}
			}
		}
	}
}

// TestCodesRounding: integers of 16 bits are close to what they stand for.
func TestCodesRounding(t *testing.T) {
	x, y := seeded(codeLen, 1), make([]float32, codeLen)
	var most float64
	for _, v := range x {
		most = max(most, math.Abs(float64(v)))
	}
	roundCodes(y, x)
	for i, v := range x {
		if math.Abs(float64(y[i]-v)) > most/codeMax {
			t.Errorf("%g became %g, the largest is %g", v, y[i], most)
		}
	}
}

// TestCodesNoNumber: what is no number, or infinite, is not lost.
func TestCodesNoNumber(t *testing.T) {
	const n, k = 32, 256
	for _, tier := range isa.Available() {
		defer isa.Use(tier)()
		for _, d := range codes.Types() {
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				a, c := seeded(2*k, 1), make([]float32, 2*n)
				a[40] = float32(bad)
				task := CodeTask{M: 2, A: a, LDA: k, W: panelsOf(t, codeWeights(t, d, n, k)), C: c, LDC: n}
				RunCodes(&task, 0, n, NewCodeScratch(k))
				for j := range n {
					if v := float64(c[j]); !math.IsNaN(v) && !math.IsInf(v, 0) {
						t.Fatalf("%v on %v: %g gave %g", d, tier, bad, v)
					}
					if v := float64(c[n+j]); math.IsNaN(v) || math.IsInf(v, 0) {
						t.Fatalf("%v on %v: %g in another row gave %g", d, tier, bad, v)
					}
				}
			}
		}
	}
}

// TestCodesSmall: what is too small to have a scale counts as nothing.
func TestCodesSmall(t *testing.T) {
	const n, k = 32, 192 // some steps are packed together, some alone
	for _, tier := range isa.Available() {
		defer isa.Use(tier)()
		for _, size := range []float32{1e-44, 1e-38, 1e-36, 1e-34, 1e-33} {
			a, c := seeded(k, 1), make([]float32, n)
			for i := range a {
				a[i] *= size
			}
			task := CodeTask{M: 1, A: a, LDA: k, W: codeWeights(t, tensor.Q4_1, n, k), C: c, LDC: n}
			RunCodes(&task, 0, n, NewCodeScratch(k))
			for _, v := range c {
				if !(math.Abs(float64(v)) < 1e-30) {
					t.Fatalf("%v: activations of %g gave %g", tier, size, v)
				}
			}
		}
	}
}

// TestCodesEpoch: rows that were rounded in the same epoch are not looked at
// again, in another they are.
func TestCodesEpoch(t *testing.T) {
	const n, k = 32, 64
	w := codeWeights(t, tensor.Q4_1, n, k)
	if !CanCodes(w) {
		t.Skip("this machine has no kernels for codes")
	}
	a, c := seeded(k, 1), make([]float32, n)
	s := NewCodeScratch(k)
	task := CodeTask{M: 1, A: a, LDA: k, W: w, C: c, LDC: n, Epoch: 1}
	RunCodes(&task, 0, n, s)
	first := c[0]
	clear(a)
	if RunCodes(&task, 0, n, s); c[0] != first {
		t.Errorf("a second run in the epoch gave %g, the first %g", c[0], first)
	}
	task.Epoch = 2
	if RunCodes(&task, 0, n, s); c[0] != 0 {
		t.Errorf("zeros in a new epoch gave %g", c[0])
	}
}

func TestCodesAllocates(t *testing.T) {
	for _, d := range codeTypes {
		w := codeWeights(t, d, 50, 256)
		if codes.Has(d) {
			w = panelsOf(t, w)
		}
		task, s := CodeTask{M: 3, A: seeded(3*256, 1), LDA: 256, W: w, C: make([]float32, 150), LDC: 50}, NewCodeScratch(256)
		if n := testing.AllocsPerRun(10, func() { RunCodes(&task, 0, 50, s) }); n != 0 {
			t.Errorf("%v: %v allocations", d, n)
		}
	}
}

// BenchmarkCodes multiplies rows with weights of the size of a model, as the file
// has them and in panels, beside a read of as many bytes.
func BenchmarkCodes(b *testing.B) {
	const n, k = 1536, 576
	const bytes = 96 << 20
	buf := make([]byte, bytes)
	b.Run("read", func(b *testing.B) {
		var rate float64
		for b.Loop() {
			rate = ceiling.Read(b.Context(), buf, 1, 0)
		}
		b.ReportMetric(rate/1e9, "GB/s")
	})
	for _, d := range []tensor.DType{tensor.Q4_1, tensor.Q4_0, tensor.Q8_0} {
		one := codeWeights(b, d, n, k)
		for _, w := range []*Stored{one, panelsOf(b, one)} {
			size := len(w.Data)
			for at := 0; at+size <= bytes; at += size {
				copy(buf[at:], w.Data)
			}
			for _, m := range []int{1, 2, 4, 8} {
				task := CodeTask{M: m, A: seeded(m*k, 1), LDA: k, W: w, C: make([]float32, m*n), LDC: n, Epoch: 1}
				s := NewCodeScratch(k)
				b.Run(fmt.Sprintf("%v/panels=%v/rows=%d", d, w.InPanels, m), func(b *testing.B) {
					for b.Loop() {
						for at := 0; at+size <= bytes; at += size {
							w.Data = buf[at:][:size]
							RunCodes(&task, 0, n, s)
						}
					}
					b.ReportMetric(float64(bytes/size*size)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
				})
			}
		}
	}
}

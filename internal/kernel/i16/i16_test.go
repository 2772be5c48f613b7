package i16

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

func random(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 9))
	f := make([]float32, n)
	for i := range f {
		f[i] = float32(r.NormFloat64())
	}
	return f
}

func stored(t testing.TB, d tensor.DType, w []float32, n, k int) *gemm.Stored {
	t.Helper()
	raw := make([]byte, n*d.RowBytes(k))
	if err := tensor.Quantize(raw, d, w); err != nil {
		t.Fatal(err)
	}
	s, err := gemm.NewStored(raw, d, n, k)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func packed(w *gemm.Stored) *Packed {
	size := PackedLen(w.N, w.K)
	return Pack(make([]int16, size), make([]float32, size/Group), w)
}

// TestProduct holds every tier to float64 sums of the decoded weights, with
// tails in every dimension, strides beyond the row and guards around C.
func TestProduct(t *testing.T) {
	for _, tier := range isa.Available() {
		t.Run(tier.String(), func(t *testing.T) {
			defer isa.Use(tier)()
			for _, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.Q8_0, tensor.Q4_1} {
				for _, z := range [][3]int{{1, 1, 32}, {3, 33, 64}, {16, 32, 96}, {13, 70, 128}, {500, 20, 64}, {5, 17, 1536}, {30, 40, 1312}} {
					product(t, d, z[0], z[1], z[2])
				}
			}
			product(t, tensor.F32, 7, 19, 45)
		})
	}
}

func product(t *testing.T, d tensor.DType, m, n, k int) {
	t.Helper()
	lda, ldc := k+3, n+5
	a, bias := random(m*lda, 1), random(n, 3)
	w := stored(t, d, random(n*k, 2), n, k)
	exact := make([]float32, n*k)
	if err := tensor.Dequantize(exact, d, w.Data); err != nil {
		t.Fatal(err)
	}
	const guard = 12345
	for form, b := range map[string]Weights{"stored": Stored{w}, "packed": packed(w)} {
		c := make([]float32, m*ldc)
		for i := range c {
			c[i] = guard
		}
		task := &Task{M: m, N: n, K: k, A: a, LDA: lda, W: b, C: c, LDC: ldc, Bias: bias}
		s := NewScratch(k)
		mid, pm := m/3, NumPanels(n)/2
		for _, r := range [][4]int{{0, mid, 0, pm}, {0, mid, pm, NumPanels(n)}, {mid, m, 0, NumPanels(n)}} {
			Run(task, r[0], r[1], r[2], r[3], s)
		}
		for i := range m {
			for j := range ldc {
				got := c[i*ldc+j]
				if j >= n {
					if got != guard {
						t.Fatalf("%v %s %dx%dx%d: wrote beyond row %d", d, form, m, n, k, i)
					}
					continue
				}
				want, size := float64(bias[j]), 0.0
				for x := range k {
					p := float64(a[i*lda+x]) * float64(exact[j*k+x])
					want += p
					size += p * p
				}
				// Rounding moves a product by 3 in 4,000 of the group's
				// largest weight; the errors of a sum add up by squares.
				if math.Abs(float64(got)-want) > 6e-3*math.Sqrt(size+1) {
					t.Fatalf("%v %s %dx%dx%d: C[%d,%d] is %g, expected %g", d, form, m, n, k, i, j, got, want)
				}
			}
		}
	}
}

// TestTwins: the tiers agree with the plain Go twin but for the order of sums.
func TestTwins(t *testing.T) {
	const m, n, k = 29, 50, 160
	w, a := stored(t, tensor.Q8_0, random(n*k, 2), n, k), random(m*k, 1)
	results := map[isa.Tier][]float32{}
	for _, tier := range isa.Available() {
		restore := isa.Use(tier)
		c := make([]float32, m*n)
		Run(&Task{M: m, N: n, K: k, A: a, LDA: k, W: Stored{w}, C: c, LDC: n}, 0, m, 0, NumPanels(n), NewScratch(k))
		results[tier] = c
		restore()
	}
	for tier, c := range results {
		for i, v := range c {
			if want := results[isa.Generic][i]; math.Abs(float64(v-want)) > 1e-4 {
				t.Fatalf("%v: C[%d] is %g, expected %g", tier, i, v, want)
			}
		}
	}
}

// TestPanels: every storage type becomes the same codes and scales on every
// tier, in whole panels and in those that rows are missing from.
func TestPanels(t *testing.T) {
	const n, k = 17, 3 * 256
	for _, d := range tensor.Codecs() {
		w := stored(t, d, random(n*k, 4), n, k)
		var codes []int16
		var scales []float32
		for _, tier := range isa.Available() { // generic first
			restore := isa.Use(tier)
			p := packed(w)
			restore()
			for i, got := range p.panels {
				if tier == isa.Generic {
					codes, scales = append(codes, got.codes...), append(scales, got.scales...)
					continue
				}
				wantC, wantS := codes[i*len(got.codes):], scales[i*len(got.scales):]
				for j, c := range got.codes {
					if c != wantC[j] {
						t.Fatalf("%v %v: code %d of panel %d is %d, expected %d", tier, d, j, i, c, wantC[j])
					}
				}
				for j, s := range got.scales {
					if s != wantS[j] {
						t.Fatalf("%v %v: scale %d of panel %d is %g, expected %g", tier, d, j, i, s, wantS[j])
					}
				}
			}
		}
	}
}

// TestAct: a product that ends with an activation is the activation of the
// product, on every tier, with tails in every dimension and several blocks of
// K; far from zero it is the product itself, or nothing.
func TestAct(t *testing.T) {
	phi := map[Act]func(float64) float64{
		Gelu:     func(x float64) float64 { return (1 + math.Erf(x/math.Sqrt2)) / 2 },
		GeluTanh: func(x float64) float64 { return (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) / 2 },
	}
	for _, tier := range isa.Available() {
		defer isa.Use(tier)()
		for _, z := range [][3]int{{13, 70, 128}, {4, 16, 32}, {9, 33, 1312}} {
			m, n, k := z[0], z[1], z[2]
			w, a, bias := stored(t, tensor.Q8_0, random(n*k, 2), n, k), random(m*k, 1), random(n, 3)
			bias[0], bias[1], bias[2] = 1e6, -1e6, float32(math.NaN())
			task := Task{M: m, N: n, K: k, A: a, LDA: k, W: Stored{w}, LDC: n, Bias: bias}
			run := func(act Act) []float32 {
				task.C, task.Act = make([]float32, m*n), act
				Run(&task, 0, m, 0, NumPanels(n), NewScratch(k))
				return task.C
			}
			plain := run(Plain)
			for act, phi := range phi {
				for i, got := range run(act) {
					x := float64(plain[i])
					want := x * phi(x)
					switch i % n {
					case 1:
						want, x = 0, 0
					case 2:
						if got == got {
							t.Fatalf("%v %v: activation %d of NaN is %g", tier, z, act, got)
						}
						continue
					}
					if !(math.Abs(float64(got)-want) <= 4e-5*(1+math.Abs(x))) {
						t.Fatalf("%v %v: activation %d of %g is %g, expected %g", tier, z, act, x, got, want)
					}
				}
			}
		}
	}
}

// TestRowsAlone: a row's result does not depend on the rows around it.
func TestRowsAlone(t *testing.T) {
	const n, k = 40, 96
	x, w := random(k, 5), stored(t, tensor.Q8_0, random(n*k, 2), n, k)
	var want []float32
	for _, m := range []int{1, 5, 12, 31} {
		a := random(m*k, 7)
		copy(a[(m-1)*k:], x)
		c := make([]float32, m*n)
		Run(&Task{M: m, N: n, K: k, A: a, LDA: k, W: Stored{w}, C: c, LDC: n}, 0, m, 0, NumPanels(n), NewScratch(k))
		last := c[(m-1)*n:]
		if want == nil {
			want = last
		}
		for i, v := range last {
			if v != want[i] {
				t.Fatalf("element %d of the last of %d rows is %g, alone %g", i, m, v, want[i])
			}
		}
	}
}

// TestExtremes: zeros stay zeros, tiny values do no harm, NaN shows.
func TestExtremes(t *testing.T) {
	for _, tier := range isa.Available() {
		defer isa.Use(tier)()
		const n, k = 16, 64
		w := stored(t, tensor.F32, random(n*k, 2), n, k)
		run := func(v float32) []float32 {
			a, c := make([]float32, k), make([]float32, n)
			for i := range a {
				a[i] = v
			}
			Run(&Task{M: 1, N: n, K: k, A: a, LDA: k, W: Stored{w}, C: c, LDC: n}, 0, 1, 0, 1, NewScratch(k))
			return c
		}
		for _, v := range []float32{0, 1e-40, -1e-38, 3e-31} {
			for _, got := range run(v) {
				if math.Abs(float64(got)) > 1e-29 {
					t.Errorf("%v: rows of %g give %g", tier, v, got)
				}
			}
		}
		for _, got := range run(float32(math.NaN())) {
			if !math.IsNaN(float64(got)) {
				t.Errorf("%v: rows of NaN give %g", tier, got)
			}
		}
	}
}

// TestCodePanels: products with weights in panels of codes have the bits of those
// with the file's rows.
func TestCodePanels(t *testing.T) {
	for _, tier := range isa.Available() {
		defer isa.Use(tier)()
		for _, d := range codes.Types() {
			const m, n, k = 20, 50, 1536
			w := stored(t, d, random(n*k, 1), n, k)
			data := make([]byte, codes.Bytes(d, n, k))
			codes.Pack(data, w.Data, d, n, k, 0, codes.NumPanels(n))
			p, err := gemm.NewPanels(data, d, n, k)
			if err != nil {
				t.Fatal(err)
			}
			var c [2][]float32
			s := NewScratch(k)
			for i, w := range []*gemm.Stored{w, p} {
				c[i] = make([]float32, m*n)
				task := Task{M: m, N: n, K: k, A: random(m*k, 2), LDA: k, W: Stored{w}, C: c[i], LDC: n}
				Run(&task, 0, m, 0, NumPanels(n), s)
			}
			if !slices.Equal(c[0], c[1]) {
				t.Errorf("%v, %v: panels give other bits than rows", tier, d)
			}
		}
	}
}

func TestUnpackRow(t *testing.T) {
	const n, k = 21, 77
	w := random(n*k, 5)
	p := packed(stored(t, tensor.F32, w, n, k))
	row := make([]float32, k)
	for i := range n {
		p.UnpackRow(row, i)
		for j, v := range row {
			if math.Abs(float64(v-w[i*k+j])) > 4.5/limitW/2 {
				t.Fatalf("row %d column %d: %g became %g", i, j, w[i*k+j], v)
			}
		}
	}
}

func TestRunAllocatesNothing(t *testing.T) {
	const m, n, k = 40, 64, 64
	w := stored(t, tensor.Q8_0, random(n*k, 2), n, k)
	var b Weights = Stored{w}
	task := Task{M: m, N: n, K: k, A: random(m*k, 1), LDA: k, W: b, C: make([]float32, m*n), LDC: n}
	s := NewScratch(k)
	if a := testing.AllocsPerRun(5, func() { Run(&task, 0, m, 0, NumPanels(n), s) }); a != 0 {
		t.Errorf("%v allocations", a)
	}
}

func BenchmarkRun(b *testing.B) {
	for _, tier := range isa.Available() {
		for _, z := range [][3]int{{128, 384, 384}, {128, 1536, 384}, {128, 384, 1536}} {
			m, n, k := z[0], z[1], z[2]
			a, c := random(m*k, 1), make([]float32, m*n)
			w := stored(b, tensor.Q8_0, random(n*k, 2), n, k)
			run := func(name string, f func()) {
				b.Run(fmt.Sprintf("tier=%v/m=%d/n=%d/k=%d/%s", tier, m, n, k, name), func(b *testing.B) {
					defer isa.Use(tier)()
					for b.Loop() {
						f()
					}
					b.ReportMetric(2*float64(m)*float64(n)*float64(k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
			s := NewScratch(k)
			p := packed(w)
			run("i16-stored", func() {
				Run(&Task{M: m, N: n, K: k, A: a, LDA: k, W: Stored{w}, C: c, LDC: n}, 0, m, 0, NumPanels(n), s)
			})
			run("i16-packed", func() { Run(&Task{M: m, N: n, K: k, A: a, LDA: k, W: p, C: c, LDC: n}, 0, m, 0, NumPanels(n), s) })
			g := gemm.NewScratch(nil)
			run("f32-stored", func() {
				gemm.Run(&gemm.Task{M: m, N: n, K: k, A: a, LDA: k, B: w, C: c, LDC: n}, 0, m, 0, gemm.NumPanels(n), g)
			})
		}
	}
}

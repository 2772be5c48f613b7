package bf16

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

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

func bf16(x float32) float64 { return float64(tensor.BF16ToF32(tensor.F32ToBF16(x))) }

func pack(w []float32, n, k int) *Packed {
	return Pack(make([]uint16, PackedLen(n, k)), &Rows{w, n, k, k}, n, k)
}

// operands are the ways to give the same B.
func operands(t *testing.T, w []float32, n, k int) map[string]Panels {
	natural := make([]float32, n*k)
	for i := range n {
		for j := range k {
			natural[j*n+i] = w[i*k+j]
		}
	}
	raw := make([]byte, 4*n*k)
	if err := tensor.Quantize(raw, tensor.F32, w); err != nil {
		t.Fatal(err)
	}
	stored, err := gemm.NewStored(raw, tensor.F32, n, k)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]Panels{"packed": pack(w, n, k), "rows": &Rows{w, n, k, k}, "natural": &Natural{natural, n, k, n}, "stored": NewStored(stored)}
}

// TestProduct holds every tier to float64 sums of rounded operands, with
// tails in every dimension, strides beyond the row and guards around C.
func TestProduct(t *testing.T) {
	for _, tier := range isa.Available() {
		t.Run(tier.String(), func(t *testing.T) {
			defer isa.Use(tier)()
			for _, s := range [][3]int{{1, 1, 1}, {3, 33, 31}, {16, 32, 32}, {17, 64, 96}, {33, 70, 100}, {300, 40, 65}, {64, 96, 384}, {52, 40, 800}, {210, 330, 96}} {
				m, n, k := s[0], s[1], s[2]
				w := random(n*k, 2)
				for form, b := range operands(t, w, n, k) {
					for _, mode := range []string{"plain", "bias", "add"} {
						product(t, m, n, k, w, b, mode, form)
					}
				}
			}
		})
	}
}

// TestDeep: a product so deep that few rows fill L2 goes a part of K at a time.
func TestDeep(t *testing.T) {
	if !slices.Contains(isa.Available(), isa.AMX) {
		t.Skip("no tiles")
	}
	defer isa.Use(isa.AMX)()
	m, n, k := 130, 33, 4200
	w := random(n*k, 2)
	b := pack(w, n, k)
	if task := (&Task{M: m, N: n, K: k, B: b}); !task.deep(m) {
		t.Fatalf("a product of %d rows and depth %d is not deep", m, k)
	}
	for _, mode := range []string{"plain", "bias", "add"} {
		product(t, m, n, k, w, b, mode, "packed")
	}
}

func product(t *testing.T, m, n, k int, w []float32, b Panels, mode, form string) {
	t.Helper()
	lda, ldc := k+3, n+5
	a, bias := random(m*lda, 1), random(n, 3)
	const guard = 12345
	c := make([]float32, m*ldc)
	old := random(m*ldc, 4)
	copy(c, old)
	for i := range m {
		for j := n; j < ldc; j++ {
			c[i*ldc+j] = guard
		}
	}
	task := Task{M: m, N: n, K: k, A: a, LDA: lda, B: b, C: c, LDC: ldc, Accumulate: mode == "add"}
	if mode == "bias" {
		task.Bias = bias
	}
	s := NewScratch(k)
	mid, pm := m/3, NumPanels(n)/2
	for _, r := range [][4]int{{0, mid, 0, pm}, {0, mid, pm, NumPanels(n)}, {mid, m, 0, NumPanels(n)}} {
		Run(&task, r[0], r[1], r[2], r[3], s)
	}
	for i := range m {
		for j := range ldc {
			got := c[i*ldc+j]
			if j >= n {
				if got != guard {
					t.Fatalf("%s %dx%dx%d %s: wrote beyond row %d", form, m, n, k, mode, i)
				}
				continue
			}
			var want, size float64
			for x := range k {
				p := bf16(a[i*lda+x]) * bf16(w[j*k+x])
				want += p
				size += math.Abs(p)
			}
			switch mode {
			case "bias":
				want += float64(bias[j])
			case "add":
				want += float64(old[i*ldc+j])
			}
			if math.Abs(float64(got)-want) > 2e-6*(size+1) {
				t.Fatalf("%s %dx%dx%d %s: C[%d,%d] is %g, expected %g", form, m, n, k, mode, i, j, got, want)
			}
		}
	}
}

// TestStoredPanels: a panel of a file's rows holds what the reference decodes,
// rounded, whichever way it was made.
func TestStoredPanels(t *testing.T) {
	const n = 80
	for _, d := range tensor.Codecs() {
		k := max(96, d.Info().BlockLen)
		raw := make([]byte, n*d.RowBytes(k))
		if err := tensor.Quantize(raw, d, random(n*k, 6)); err != nil {
			t.Fatal(err)
		}
		want := make([]float32, n*k)
		if err := tensor.Dequantize(want, d, raw); err != nil {
			t.Fatal(err)
		}
		w, err := gemm.NewStored(raw, d, n, k)
		if err != nil {
			t.Fatal(err)
		}
		for _, tier := range isa.Available() {
			restore := isa.Use(tier)
			p := Pack(make([]uint16, PackedLen(n, k)), NewStored(w), n, k)
			row := make([]float32, k)
			for i := range n {
				p.UnpackRow(row, i)
				for j, got := range row {
					// A fused multiply-add may round Q4_1 to the neighbour.
					exact := bf16(want[i*k+j])
					if diff := math.Abs(float64(got) - exact); diff > math.Abs(exact)/128 || d != tensor.Q4_1 && diff != 0 {
						t.Fatalf("%s on %s: row %d column %d is %g, expected %g", d, tier, i, j, got, exact)
					}
				}
			}
			restore()
		}
	}
}

// TestPackedWalks: rows multiplied with packed panels, along them and down the
// rows, in one call and in several, in parts of K, give the bits that panels
// give one at a time.
func TestPackedWalks(t *testing.T) {
	if isa.Active() < isa.AMX {
		t.Skip("this machine has no tiles")
	}
	for _, z := range [][3]int{{64, 128, 64}, {107, 1100, 96}, {300, 1536, 384}, {96, 96, 1600}, {200, 2080, 352}} {
		m, n, k := z[0], z[1], z[2]
		a, w, bias, old := random(m*k, 1), pack(random(n*k, 2), n, k), random(n, 3), random(m*n, 4)
		for _, mode := range []string{"plain", "bias", "add"} {
			var c [2][]float32
			for i, b := range []Panels{w, single{w}} {
				c[i] = slices.Clone(old)
				task := Task{M: m, N: n, K: k, A: a, LDA: k, B: b, C: c[i], LDC: n, Accumulate: mode == "add"}
				if mode == "bias" {
					task.Bias = bias
				}
				Run(&task, 0, m, 0, NumPanels(n), NewScratch(k))
			}
			for i, x := range c[0] {
				if x != c[1][i] {
					t.Fatalf("%v %s: C[%d,%d] is %g, of single panels %g", z, mode, i/n, i%n, x, c[1][i])
				}
			}
		}
	}
}

// single hides that panels lie one behind the other.
type single struct{ Panels }

func TestPackLosesOnlyTheRounding(t *testing.T) {
	const n, k = 53, 77
	w := random(n*k, 5)
	p := pack(w, n, k)
	row := make([]float32, k)
	for i := range n {
		p.UnpackRow(row, i)
		for j, v := range row {
			if float64(v) != bf16(w[i*k+j]) {
				t.Fatalf("row %d column %d: %g became %g", i, j, w[i*k+j], v)
			}
		}
	}
}

func TestRunAllocatesNothing(t *testing.T) {
	const m, n, k = 40, 64, 64
	task := Task{M: m, N: n, K: k, A: random(m*k, 1), LDA: k, B: pack(random(n*k, 2), n, k), C: make([]float32, m*n), LDC: n}
	s := NewScratch(k)
	if a := testing.AllocsPerRun(5, func() { Run(&task, 0, m, 0, NumPanels(n), s) }); a != 0 {
		t.Errorf("%v allocations", a)
	}
}

func BenchmarkRun(b *testing.B) {
	for _, s := range [][3]int{{16, 384, 384}, {128, 384, 384}, {512, 1536, 384}, {512, 384, 1536}} {
		b.Run(fmt.Sprintf("m=%d/n=%d/k=%d", s[0], s[1], s[2]), func(b *testing.B) {
			m, n, k := s[0], s[1], s[2]
			task := Task{M: m, N: n, K: k, A: random(m*k, 1), LDA: k, B: pack(random(n*k, 2), n, k), C: make([]float32, m*n), LDC: n}
			sc := NewScratch(k)
			for b.Loop() {
				Run(&task, 0, m, 0, NumPanels(n), sc)
			}
			b.ReportMetric(2*float64(m)*float64(n)*float64(k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// TestHeadOfLargeScores: the softmax of scores beyond what e can be raised to is
// the value of the best key, and that of none is zero, on every tier.
func TestHeadOfLargeScores(t *testing.T) {
	const dim, keys, best = 32, 70, 37
	q, k, v := make([]float32, 2*dim), random(keys*dim, 1), random(keys*dim, 2)
	k[best*dim] = 10
	for _, tier := range isa.Available() {
		defer isa.Use(tier)()
		for _, size := range []float32{1e3, 3e7, 1e10, 1e20, 1e37} {
			for _, scale := range []float32{0.125, 1} {
				q[0] = size
				h, out := NewHead(dim, keys), make([]float32, 2*dim)
				h.Reset(dim, keys, scale)
				h.Add(0, keys, k, dim, v, dim)
				h.Queries(HeadOut{F32: out, LD: dim}, q, dim, 2, 0, keys, func(i int) (int, int) { return 0, keys * (1 - i) })
				for i, got := range out {
					want := 0.0 // the second query sees no key
					if i < dim {
						want = bf16(v[best*dim+i])
					}
					if !(math.Abs(float64(got)-want) <= 0.01*math.Abs(want)) {
						t.Fatalf("%v, scores of %g, scale %g: output %d is %g, expected %g", tier, 10*size, scale, i, got, want)
					}
				}
			}
		}
	}
}

// TestHead holds attention of one head to float64 over rounded operands:
// causal, windowed and full, with keys that came in several pieces.
func TestHead(t *testing.T) {
	for _, tier := range isa.Available() {
		t.Run(tier.String(), func(t *testing.T) {
			defer isa.Use(tier)()
			for _, c := range []struct{ dim, keys, window int }{{32, 1, 0}, {24, 7, 0}, {32, 128, 0}, {64, 100, 0}, {64, 200, 40}, {80, 65, 1}} {
				for _, causal := range []bool{false, true} {
					head(t, c.dim, c.keys, c.window, causal)
				}
			}
		})
	}
}

func head(t *testing.T, dim, keys, window int, causal bool) {
	t.Helper()
	const ld, scale = 100, 0.17
	q, k, v := random(keys*ld, 1), random(keys*ld, 2), random(keys*ld, 3)
	if causal { // what lies behind the last key is no matter, even where it is no number
		behind := make([]float32, 40*ld)
		fill(behind, float32(math.NaN()))
		k, v = append(k, behind...), append(v, behind...)
	}
	visible := func(i int) (int, int) {
		lo, hi := 0, keys
		if causal {
			hi = i + 1
		}
		if window > 0 {
			lo, hi = max(0, i-window+1), min(hi, i+window)
		}
		return lo, hi
	}
	h := NewHead(96, 256)
	h.Reset(dim, keys, scale)
	for at := 0; at < keys; at += 64 {
		h.Add(at, min(64, keys-at), k[at*ld:], ld, v[at*ld:], ld)
	}
	out := make([]float32, keys*ld)
	for i := 0; i < keys; i += MR {
		rows := min(MR, keys-i)
		lo, _ := visible(i)
		_, hi := visible(i + rows - 1)
		see := func(r int) (int, int) { return visible(i + r) }
		h.Queries(HeadOut{F32: out[i*ld:], LD: ld}, q[i*ld:], ld, rows, lo, hi, see)
		if !CanRound(dim) {
			continue
		}
		// From row 20 of more, the second head, across two blocks; and all
		// as heads of the third of five rows.
		for _, o := range []HeadOut{{Row: 20, Col: dim, Rows: 23 + rows, Cols: 2 * dim}, {Row: 2, Rows: 5, Cols: rows * dim, OneRow: true}} {
			o.Rounded = make([]uint16, o.Rows*o.Cols)
			h.Queries(o, q[i*ld:], ld, rows, lo, hi, see)
			for j := range o.Rounded {
				r, d := j/o.Cols, j%o.Cols
				query, at := r-o.Row, d-o.Col
				if o.OneRow && query == 0 {
					query, at = d/dim, d%dim
				} else if o.OneRow {
					query = -1
				}
				var want uint16
				if query >= 0 && query < rows && at >= 0 {
					want = tensor.F32ToBF16(out[(i+query)*ld+at])
				}
				if got := o.Rounded[blockAt(r, d, o.Rows, o.Cols)]; got != want {
					t.Fatalf("dim %d, %d keys, queries from %d, one row %v: row %d column %d is %#x rounded, expected %#x", dim, keys, i, o.OneRow, r, d, got, want)
				}
			}
		}
	}
	for i := range keys {
		lo, hi := visible(i)
		p, sum := make([]float64, hi-lo), 0.0
		for j := range p {
			for d := range dim {
				p[j] += bf16(q[i*ld+d]) * bf16(k[(lo+j)*ld+d])
			}
			p[j] = math.Exp(scale * p[j])
			sum += p[j]
		}
		for d := range dim {
			want := 0.0
			for j := range p {
				want += p[j] / sum * bf16(v[(lo+j)*ld+d])
			}
			if got := float64(out[i*ld+d]); !(math.Abs(got-want) <= 1e-2) {
				t.Fatalf("dim %d, %d keys, window %d, causal %v: query %d, element %d is %g, expected %g", dim, keys, window, causal, i, d, got, want)
			}
		}
		for d := dim; d < ld; d++ {
			if out[i*ld+d] != 0 {
				t.Fatalf("wrote beyond the head")
			}
		}
	}
}

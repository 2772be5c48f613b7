//go:build unix

package bf16

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/fence"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// fenced is memory within fences, each piece in one of its own.
type fenced struct {
	t      *testing.T
	front  bool
	fences []*fence.Fence
	used   int
}

// take is n values of the next fence.
func take[T any](f *fenced, n int) []T {
	if f.used == len(f.fences) {
		f.fences = append(f.fences, fence.New(f.t, 1<<20, f.front))
	}
	f.used++
	return fence.Of[T](f.fences[f.used-1], n)
}

// within runs a test with fences at either end.
func within(t *testing.T, test func(f *fenced, rng *rand.Rand, doing *string)) {
	for _, front := range []bool{false, true} {
		f := &fenced{t: t, front: front}
		fence.Hold(t, func(doing *string) { test(f, rand.New(rand.NewPCG(1, 2)), doing) })
	}
}

// scratch is a workspace within fences.
func (f *fenced) scratch(k int) *Scratch {
	s := NewScratch(k)
	s.a, s.tile, s.bias, s.blocks = take[uint16](f, len(s.a)), take[float32](f, len(s.tile)), take[float32](f, len(s.bias)), take[float32](f, len(s.blocks))
	for _, a := range []*ahead{&s.first, &s.second} {
		for i := range a.buf {
			a.buf[i] = take[uint16](f, len(a.buf[i]))
		}
	}
	return s
}

// TestNothingOutsideIsTouched: products with a file's rows, which end where the
// file does, read and write their operands only, whatever is prefetched, and
// wherever rows and columns end.
func TestNothingOutsideIsTouched(t *testing.T) {
	within(t, func(f *fenced, rng *rand.Rand, doing *string) {
		for _, tier := range isa.Available() {
			defer isa.Use(tier)()
			for _, d := range tensor.Codecs() {
				for i := range 8 {
					k := 1 + rng.IntN(130)
					if block := d.Info().BlockLen; block > 1 {
						k = block * (1 + rng.IntN(max(1, 160/block)))
					}
					m, n := 1+rng.IntN(20), [...]int{32, 64, 1 + rng.IntN(70)}[rng.IntN(3)]
					if i%2 == 1 && tier >= isa.AMX { // blocks that unpack the next panel meanwhile
						m, n = MR*(1+rng.IntN(3))+rng.IntN(3), n+NR
					}
					*doing = fmt.Sprintf("products of %v on %v, %dx%dx%d", d, tier, m, n, k)
					f.used = 0
					raw := take[byte](f, n*d.RowBytes(k))
					for i := range raw {
						raw[i] = byte(rng.Uint32()) // any bits: results are not looked at
					}
					w, err := gemm.NewStored(raw, d, n, k)
					if err != nil {
						t.Fatal(err)
					}
					a, c, bias := take[float32](f, m*k), take[float32](f, m*n), take[float32](f, n)
					gemm.MulRows(c, n, w, a, k, m, 0, n)
					if k%32 == 0 {
						sums, x, y := take[float32](f, gemm.XSumsLen(k)), take[float32](f, k), take[float32](f, n)
						gemm.XSums(sums, x, d)
						gemm.GemvRows(y, w, x, sums, 0, n)
						gemm.MixRows(a, k, c, n, m, w, n, false)
					}
					if tier < isa.AMX {
						continue // the twins are plain Go
					}
					RunFew(&FewTask{M: min(m, FewRows), A: a, LDA: k, W: w, C: c, LDC: n, Bias: bias}, 0, n, NewFewScratch(k))
					tiles(f, NewStored(w), m, n, k, a, c, bias)
					tiles(f, Pack(take[uint16](f, PackedLen(n, k)), NewStored(w), n, k), m, n, k, a, c, bias)
					if !codes.Has(d) {
						continue
					}
					panels := take[byte](f, codes.Bytes(d, n, k))
					codes.Pack(panels, raw, d, n, k, 0, codes.NumPanels(n))
					if w, err = gemm.NewPanels(panels, d, n, k); err != nil {
						t.Fatal(err)
					}
					w.Halves = true // results are not looked at
					RunFew(&FewTask{M: min(m, FewRows), A: a, LDA: k, W: w, C: c, LDC: n, Bias: bias}, 0, n, NewFewScratch(k))
					tiles(f, NewStored(w), m, n, k, a, c, bias)
				}
			}
		}
	})
}

// tiles multiplies with b in all ways that tiles do.
func tiles(f *fenced, b Panels, m, n, k int, a, c, bias []float32) {
	s := f.scratch(k)
	for _, sum := range []bool{false, true} {
		t := Task{M: m, N: n, K: k, A: a, LDA: k, B: b, C: c, LDC: n, Accumulate: sum}
		if !sum {
			t.Bias = bias
		}
		Run(&t, 0, m, 0, NumPanels(n), s)
	}
	if !CanRound(n) {
		return
	}
	out := take[uint16](f, m*n)
	for act := range numActs {
		t := RoundedTask{M: m, N: n, K: k, A: a, LDA: k, B: b, Bias: bias, Out: out, Act: act}
		RunRounded(&t, 0, m, 0, n/NR, s)
		if t.B2, t.Bias2 = b, bias; act != Plain {
			RunRounded(&t, 0, m, 0, n/NR, s)
		}
	}
}

// TestPackingInside: panels of rows and columns are made of these.
func TestPackingInside(t *testing.T) {
	within(t, func(f *fenced, rng *rand.Rand, doing *string) {
		for range 400 {
			n, k := 1+rng.IntN(70), 1+rng.IntN(70)
			*doing = fmt.Sprintf("%d columns of %d", n, k)
			f.used = 0
			panel, rows, cols := take[uint16](f, NR*padK(k)), take[float32](f, n*k), take[float32](f, n*k)
			for p := range NumPanels(n) {
				(&Rows{W: rows, N: n, K: k, LD: k}).Panel(p, panel)
				(&Natural{W: cols, N: n, K: k, LD: n}).Panel(p, panel)
			}
		}
	})
}

// TestNormInside: norms read and write their rows only.
func TestNormInside(t *testing.T) {
	if !CanNorm(normGrain) {
		t.Skip("this machine has no tiles")
	}
	within(t, func(f *fenced, rng *rand.Rand, doing *string) {
		for kind := range numNorms {
			for range 40 {
				n, rows := normGrain*(1+rng.IntN(4)), 1+rng.IntN(70)
				*doing = fmt.Sprintf("kind %d, %d rows of %d", kind, rows, n)
				f.used = 0
				x := func(n int) []float32 { return take[float32](f, n) }
				task := NormTask{Kind: kind, N: n, X: x(rows * n), W: x(n), Rows: rows}
				switch rng.IntN(3) {
				case 0:
					task.Y = x(rows * n)
				case 1:
					task.Half = take[uint16](f, rows*n)
				default:
					task.Y, task.Half = x(rows*n), take[uint16](f, rows*n)
				}
				if kind == RMSAdd || kind == RMSNormAdd || kind == LayerAdd {
					task.Add, task.Sum = x(rows*n), x([...]int{n, rows * n}[rng.IntN(2)])
				}
				if kind >= Layer {
					task.Bias = x(n)
				}
				if kind == RMSNormAdd {
					task.PreW = x(n)
				}
				cut := rng.IntN(rows + 1)
				RunNorm(&task, 0, cut)
				RunNorm(&task, cut, rows)
			}
		}
	})
}

// TestHeadsInside: attention reads and writes its operands and workspace only,
// heads together and one by one.
func TestHeadsInside(t *testing.T) {
	if !Tiles() {
		t.Skip("this machine has no tiles")
	}
	within(t, func(f *fenced, rng *rand.Rand, doing *string) {
		for range 150 {
			n, dim, heads := 2+rng.IntN(NR-1), 16*(1+rng.IntN(6)), 1+rng.IntN(headsMost)
			*doing = fmt.Sprintf("%d heads of %d, %d tokens", heads, dim, n)
			f.used = 0
			ld := heads * dim
			q, k, v := take[float32](f, n*ld), take[float32](f, n*ld), take[float32](f, n*ld)
			out := HeadOut{F32: take[float32](f, n*ld), LD: ld}
			if dim%NR == 0 && rng.IntN(2) == 0 {
				out = HeadOut{Rounded: take[uint16](f, n*ld), Rows: n, Cols: ld}
			}
			h := NewHeads(dim)
			h.keys, h.vals, h.q = take[uint16](f, len(h.keys)), take[uint16](f, len(h.vals)), take[uint16](f, len(h.q))
			h.scores, h.probs = take[float32](f, len(h.scores)), take[uint16](f, len(h.probs))
			h.sums, h.out = take[float32](f, len(h.sums)), take[float32](f, len(h.out))
			causal := func(i int) (int, int) { return 0, i + 1 }
			h.Run(&HeadsTask{Heads: heads, Dim: dim, N: n, Scale: 0.2, Q: q, LDQ: ld, K: k, LDK: ld, V: v, LDV: ld, Out: out, Visible: causal})

			one := NewHead(dim, n)
			one.keys, one.vals, one.q = take[uint16](f, len(one.keys)), take[uint16](f, len(one.vals)), take[uint16](f, len(one.q))
			one.scores, one.probs = take[float32](f, len(one.scores)), take[uint16](f, len(one.probs))
			one.sums, one.out = take[float32](f, len(one.sums)), take[float32](f, len(one.out))
			one.Reset(dim, n, 0.2)
			at := ld - dim
			if out.Col = at; out.F32 != nil {
				out.F32 = out.F32[at:]
			}
			one.Add(0, n, k[at:], ld, v[at:], ld)
			one.Queries(out, q[at:], ld, n, 0, n, causal)
		}
	})
}

// TestGradientsInside: gradients of weights and of attention read and write their
// operands and workspace only.
func TestGradientsInside(t *testing.T) {
	if !Tiles() {
		t.Skip("this machine has no tiles")
	}
	within(t, func(f *fenced, rng *rand.Rand, doing *string) {
		for range 100 {
			m, n, k := 1+rng.IntN(80), 1+rng.IntN(80), 1+rng.IntN(100)
			*doing = fmt.Sprintf("weights %dx%d of %d tokens", m, n, k)
			f.used = 0
			s := NewOuterScratch(m, n, k)
			s.a, s.b = take[uint16](f, len(s.a)), take[uint16](f, len(s.b))
			RunOuter(&Outer{M: m, N: n, K: k, A: take[float32](f, k*m), LDA: m, B: take[float32](f, k*n), LDB: n, C: take[float32](f, m*n), LDC: n}, 0, m, 0, NumPanels(n), s)

			dim, heads := 4*(1+rng.IntN(20)), 1+rng.IntN(3)
			*doing = fmt.Sprintf("%d heads of %d, %d tokens", heads, dim, k)
			f.used = 0
			h := NewHeadGrad(dim, k)
			for _, p := range []*[]uint16{&h.keys, &h.vals, &h.across, &h.q, &h.do, &h.rows, &h.dsRows, &h.pt, &h.dst} {
				*p = take[uint16](f, len(*p))
			}
			for _, p := range []*[]float32{&h.scores, &h.ds, &h.dk, &h.dv, &h.out} {
				*p = take[float32](f, len(*p))
			}
			ld := heads * dim
			x := func() []float32 { return take[float32](f, k*ld) }
			q, do, dq, keys, vals, dk, dv, lse := x(), x(), x(), x(), x(), x(), x(), take[float32](f, k*heads)
			at := ld - dim
			h.Reset(dim, k, 0.2, keys[at:], ld, vals[at:], ld)
			h.Add(&Queries{N: k, Q: q[at:], DOut: do[at:], DQ: dq[at:], LD: ld, LSE: lse[heads-1:], LDL: heads, Visible: func(i int) (int, int) { return 0, i + 1 }})
			h.Keys(dk[at:], ld, dv[at:], ld)
		}
	})
}

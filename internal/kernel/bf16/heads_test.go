package bf16

import (
	"math"
	"slices"
	"testing"

	"hotpath/internal/tensor"
)

// TestHeads: heads of a short sequence, computed together, are bit for bit what
// one after the other gives, whatever each query sees and wherever it goes.
func TestHeads(t *testing.T) {
	if !Tiles() {
		t.Skip("this machine has no tiles")
	}
	for _, n := range []int{2, 5, 16, 17, 31, 32} {
		for _, dim := range []int{16, 32, 64, 80, 96} {
			for _, heads := range []int{1, 3, headsMost + 4} {
				for name, visible := range map[string]func(i int) (int, int){
					"all":    func(int) (int, int) { return 0, n },
					"causal": func(i int) (int, int) { return 0, i + 1 },
					"window": func(i int) (int, int) { return max(0, i-2), min(n, i+3) },
					"none":   func(i int) (int, int) { return i, i },
				} {
					testHeads(t, n, dim, heads, name, visible)
				}
			}
		}
	}
	if CanHeads(1, 32) || CanHeads(NR+1, 32) || CanHeads(16, 40) {
		t.Error("one token, more than a panel of them, and heads of 40 go another way")
	}
}

func testHeads(t *testing.T, n, dim, heads int, name string, visible func(i int) (int, int)) {
	t.Helper()
	ld, scale := heads*dim, float32(0.2)
	q, k, v := random(n*ld, 1), random(n*ld, 2), random(n*ld, 3)
	one, together := NewHead(dim, NR), NewHeads(dim)
	outs := func() [2]HeadOut {
		o := [2]HeadOut{{F32: make([]float32, n*ld), LD: ld}}
		if dim%NR == 0 { // behind 20 rows of somebody else's
			o[1] = HeadOut{Rounded: make([]uint16, (n+23)*ld), Row: 20, Rows: n + 23, Cols: ld}
		}
		return o
	}
	want, got := outs(), outs()
	for i := range want {
		if want[i].F32 == nil && want[i].Rounded == nil {
			continue
		}
		for h := range heads {
			o := want[i]
			if o.F32 != nil {
				o.F32 = o.F32[h*dim:]
			}
			o.Col = h * dim
			one.Reset(dim, n, scale)
			one.Add(0, n, k[h*dim:], ld, v[h*dim:], ld)
			one.Queries(o, q[h*dim:], ld, n, 0, n, visible)
		}
		together.Run(&HeadsTask{Heads: heads, Dim: dim, N: n, Scale: scale, Q: q, LDQ: ld, K: k, LDK: ld, V: v, LDV: ld, Out: got[i], Visible: visible})
		if !slices.Equal(got[i].F32, want[i].F32) || !slices.Equal(got[i].Rounded, want[i].Rounded) {
			t.Errorf("%d tokens, %d heads of %d, %s seen: not what the heads give one by one (bf16: %t)", n, heads, dim, name, got[i].Rounded != nil)
		}
	}
}

// TestScaleOfNothing: with a scale below the normal numbers, which tiles take
// for zero, queries see what they see alike and nothing else.
func TestScaleOfNothing(t *testing.T) {
	if !Tiles() {
		t.Skip("this machine has no tiles")
	}
	const n, dim = 20, 32
	v, out := make([]float32, n*dim), make([]float32, n*dim)
	for i := range v {
		v[i] = float32(i / dim)
	}
	NewHeads(dim).Run(&HeadsTask{
		Heads: 1, Dim: dim, N: n, Scale: 1e-42, Q: random(n*dim, 1), LDQ: dim, K: random(n*dim, 2), LDK: dim, V: v, LDV: dim,
		Out: HeadOut{F32: out, LD: dim}, Visible: func(i int) (int, int) { return 0, i + 1 },
	})
	for i, got := range out {
		// The mean of 0 to the query.
		if want := float32(i/dim) / 2; !(math.Abs(float64(got-want)) <= 1e-3) {
			t.Fatalf("query %d, value %d is %v, expected %v", i/dim, i%dim, got, want)
		}
	}
}

// TestPackEnd: columns that end within a tile are the same packed at once and
// as the end of what has whole tiles too.
func TestPackEnd(t *testing.T) {
	if !Tiles() {
		t.Skip("this machine has no tiles")
	}
	for rows := 1; rows < kStep; rows++ {
		const ld = 40
		w := random((kStep+rows)*ld, 4)
		long, short := make([]uint16, 2*kStep*NR), make([]uint16, kStep*NR)
		for i := range short {
			short[i] = 0xffff
		}
		packCols(long, w, ld, NR, kStep+rows)
		packCols(short, w[kStep*ld:], ld, NR, rows)
		if !slices.Equal(short, long[kStep*NR:]) {
			t.Errorf("%d rows are packed differently alone and behind others", rows)
		}
		for k := range kStep {
			for n := range NR {
				want := float32(0)
				if k < rows {
					want = tensor.BF16ToF32(tensor.F32ToBF16(w[(kStep+k)*ld+n]))
				}
				if got := at(short, k, n); got != want {
					t.Fatalf("%d rows: row %d, column %d is %v, expected %v", rows, k, n, got, want)
				}
			}
		}
	}
}

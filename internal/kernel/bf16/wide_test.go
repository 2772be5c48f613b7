package bf16

import (
	"slices"
	"testing"

	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
)

// TestWide: panels in f32 hold what panels in bf16 do, from whichever form of
// the weights, at tails and from the middle of K; and nothing is written beyond
// the workspace.
func TestWide(t *testing.T) {
	for _, tier := range isa.Available() {
		t.Run(tier.String(), func(t *testing.T) {
			defer isa.Use(tier)()
			for _, z := range [][2]int{{1, 1}, {33, 31}, {32, 64}, {70, 129}, {20, 800}} {
				n, k := z[0], z[1]
				for form, b := range operands(t, random(n*k, 2), n, k) {
					for _, r := range [][2]int{{0, k}, {0, min(k, 192)}, {(k - 1) / 32 * 32, k}} {
						widePanels(t, b, form, n, k, r[0], r[1])
					}
				}
			}
		})
	}
}

func widePanels(t *testing.T, b Panels, form string, n, k, k0, k1 int) {
	t.Helper()
	nr := gemm.NR()
	const guard = 12345
	for p := range gemm.NumPanels(n) {
		room := (k1-k0)*nr + gemm.UnpackLen
		scratch := slices.Repeat([]float32{guard}, room+64)
		got := b.Wide(p, k0, k1, scratch[:room])
		want := b.Panel(p*nr/NR, make([]uint16, NR*padK(k)))
		if len(got) != (k1-k0)*nr || slices.ContainsFunc(scratch[room:], func(v float32) bool { return v != guard }) {
			t.Fatalf("%s [%d,%d] from %d to %d: %d values, or some beyond the workspace", form, n, k, k0, k1, len(got))
		}
		for i, v := range got {
			if w := at(want, k0+i/nr, p*nr%NR+i%nr); v != w {
				t.Fatalf("%s [%d,%d] panel %d from %d to %d: value %d is %g, expected %g", form, n, k, p, k0, k1, i, v, w)
			}
		}
	}
}

// TestVectorsMultiplyInBF16: without tiles a product has the bits of the f32
// kernels on rounded operands, however it is cut: it is computed by them, and
// not value by value.
func TestVectorsMultiplyInBF16(t *testing.T) {
	for _, tier := range isa.Available() {
		if tier >= isa.AMX {
			continue
		}
		t.Run(tier.String(), func(t *testing.T) {
			defer isa.Use(tier)()
			for _, z := range [][3]int{{1, 40, 65}, {5, 33, 800}, {20, 96, 384}, {131, 70, 200}} {
				m, n, k := z[0], z[1], z[2]
				a, w, bias := random(m*k, 1), random(n*k, 2), random(n, 3)
				ra, rw := slices.Clone(a), slices.Clone(w)
				gemm.RoundBF16(ra)
				gemm.RoundBF16(rw)
				plain := gemm.Task{M: m, N: n, K: k, A: ra, LDA: k, B: &gemm.Rows{W: rw, N: n, K: k, LD: k}, C: make([]float32, m*n), LDC: n, Bias: bias}
				gemm.Run(&plain, 0, m, 0, gemm.NumPanels(n), gemm.NewScratch(nil))
				for form, b := range operands(t, w, n, k) {
					for _, epoch := range []uint64{0, 7} {
						task := Task{M: m, N: n, K: k, A: a, LDA: k, B: b, C: make([]float32, m*n), LDC: n, Bias: bias, Epoch: epoch}
						s := NewScratch(k)
						for p := range NumPanels(n) {
							Run(&task, 0, m/2, p, p+1, s)
							Run(&task, m/2, m, p, p+1, s)
						}
						if !slices.Equal(task.C, plain.C) {
							t.Errorf("%s %dx%dx%d: other bits than f32 has", form, m, n, k)
						}
					}
				}
			}
		})
	}
}

// TestVectorsAllocateNothing: nor does a product without tiles.
func TestVectorsAllocateNothing(t *testing.T) {
	defer isa.Use(isa.Generic)()
	for _, tier := range isa.Available() {
		isa.Use(tier)
		const m, n, k = 5, 64, 64
		for form, b := range operands(t, random(n*k, 2), n, k) {
			task := Task{M: m, N: n, K: k, A: random(m*k, 1), LDA: k, B: b, C: make([]float32, m*n), LDC: n}
			s := NewScratch(k)
			if a := testing.AllocsPerRun(5, func() { Run(&task, 0, m, 0, NumPanels(n), s) }); a != 0 {
				t.Errorf("%v %s: %v allocations", tier, form, a)
			}
		}
	}
}

package amx

import (
	"fmt"
	"slices"
	"testing"

	"hotpath/internal/kernel/gemm"
	"hotpath/internal/tensor"
)

// storedAndPacked is random weights in a file's encoding, and the same packed.
func storedAndPacked(t *testing.T, d tensor.DType, n, k int, seed uint64) (*Stored, *Packed) {
	t.Helper()
	raw := make([]byte, n*d.RowBytes(k))
	if err := tensor.Quantize(raw, d, random(n*k, seed)); err != nil {
		t.Fatal(err)
	}
	w, err := gemm.NewStored(raw, d, n, k)
	if err != nil {
		t.Fatal(err)
	}
	s := NewStored(w)
	return s, Pack(make([]uint16, PackedLen(n, k)), s, n, k)
}

// TestAhead: products with panels that are made while the ones before are
// multiplied with are those with packed panels, bit for bit, whatever the rows
// and the types; and none is made wrong by a product that was left before its
// end.
func TestAhead(t *testing.T) {
	for _, d := range [][2]tensor.DType{{tensor.Q8_0, tensor.Q8_0}, {tensor.Q4_1, tensor.Q4_1}, {tensor.Q4_0, tensor.Q4_0}, {tensor.Q8_0, tensor.Q4_1}, {tensor.Q4_1, tensor.F16}} {
		for _, z := range [][3]int{{3, 128, 64}, {17, 96, 64}, {32, 160, 96}, {50, 96, 512}, {64, 128, 96}, {900, 96, 64}, {40, 116, 64}} {
			m, n, k := z[0], z[1], z[2]
			name := fmt.Sprintf("%s and %s %v", d[0], d[1], z)
			a, s := random(m*k, 1), NewScratch(k)
			b, packed := storedAndPacked(t, d[0], n, k, 2)
			b2, packed2 := storedAndPacked(t, d[1], n, k, 3)
			var got [2][]float32
			for i, p := range []Panels{packed, b} {
				got[i] = make([]float32, m*n)
				s.job.add(b.W, 0, make([]uint16, NR*k)) // of somebody who panicked
				Run(&Task{M: m, N: n, K: k, A: a, LDA: k, B: p, C: got[i], LDC: n}, 0, m, 0, NumPanels(n), s)
			}
			if !slices.Equal(got[0], got[1]) {
				t.Errorf("%s: a product with panels made ahead differs", name)
			}
			if !CanRound(n) {
				continue
			}
			var out [2][]uint16
			for _, glu := range []bool{false, true} {
				for i, p := range [][2]Panels{{packed, packed2}, {b, b2}} {
					out[i] = make([]uint16, m*n)
					task := RoundedTask{M: m, N: n, K: k, A: a, LDA: k, B: p[0], Act: GeluTanh, Out: out[i]}
					if glu {
						task.B2 = p[1]
					}
					RunRounded(&task, 0, m, 0, n/NR, s)
				}
				if !slices.Equal(out[0], out[1]) {
					t.Errorf("%s, glu %v: a rounded product with panels made ahead differs", name, glu)
				}
			}
		}
	}
}

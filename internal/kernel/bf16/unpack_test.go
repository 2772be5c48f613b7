package bf16

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// storedAndPacked is random weights in a file's encoding, perhaps in panels of
// codes, and the same packed.
func storedAndPacked(t *testing.T, d tensor.DType, panels bool, n, k int, seed uint64) (*Stored, *Packed) {
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
	packed := Pack(make([]uint16, PackedLen(n, k)), s, n, k)
	if panels && codes.Has(d) {
		s = NewStored(inPanels(t, w))
	}
	return s, packed
}

// TestAhead: products with panels that are made while the ones before are
// multiplied with are those with packed panels, bit for bit, whatever the rows
// and the types; and none is made wrong by a product that was left before its
// end.
func TestAhead(t *testing.T) {
	kinds := [][2]tensor.DType{{tensor.Q8_0, tensor.Q4_1}, {tensor.Q4_1, tensor.F16}, {tensor.Q4_K, tensor.Q6_K}}
	for d := range unpackKinds {
		kinds = append(kinds, [2]tensor.DType{d, d})
	}
	for _, d := range kinds {
		for _, z := range [][3]int{{3, 128, 64}, {17, 96, 64}, {32, 160, 96}, {50, 96, 512}, {64, 128, 96}, {900, 96, 64}, {40, 116, 64}} {
			madeAhead(t, d, z, false)
			if codes.Has(d[0]) {
				madeAhead(t, d, z, true)
			}
		}
	}
}

func madeAhead(t *testing.T, d [2]tensor.DType, z [3]int, panels bool) {
	m, n, k := z[0], z[1], z[2]
	if d[0].Info().BlockLen > k {
		k *= 4
		k -= k % 256
	}
	name := fmt.Sprintf("%s and %s %v, in panels %v", d[0], d[1], z, panels)
	a, s := random(m*k, 1), NewScratch(k)
	b, packed := storedAndPacked(t, d[0], panels, n, k, 2)
	b2, packed2 := storedAndPacked(t, d[1], panels, n, k, 3)
	var got [2][]float32
	for i, p := range []Panels{packed, b} {
		got[i] = make([]float32, m*n)
		s.job.addPanel(b.W, 0, make([]uint16, NR*k)) // of somebody who panicked
		Run(&Task{M: m, N: n, K: k, A: a, LDA: k, B: p, C: got[i], LDC: n}, 0, m, 0, NumPanels(n), s)
	}
	if !slices.Equal(got[0], got[1]) {
		t.Errorf("%s: a product with panels made ahead differs", name)
	}
	if !CanRound(n) {
		return
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

// unpacked are the types that tiles are made of without a detour, and where the
// f16 values of their blocks lie.
var unpacked = map[tensor.DType][]int{
	tensor.Q8_0: {0}, tensor.Q4_1: {0, 2}, tensor.Q4_0: {0},
	tensor.Q4_K: {0, 2}, tensor.Q5_K: {0, 2}, tensor.Q6_K: {208},
	tensor.Q5_0: {0}, tensor.Q5_1: {0, 2}, tensor.IQ4_NL: {0}, tensor.MXFP4: {},
	tensor.Q2_K: {80, 82}, tensor.Q3_K: {108}, tensor.IQ4_XS: {0},
}

// TestUnpack: panels of blocks of random bits, with scales of every size, are
// what plain Go decodes and rounds, bit for bit but for the sign of zeros; and
// nothing is written behind them.
func TestUnpack(t *testing.T) {
	if isa.Active() < isa.AMX {
		t.Skip("this machine has no tiles")
	}
	for d := range unpackKinds {
		if unpacked[d] == nil {
			t.Errorf("%v has no test", d)
		}
	}
	halves := []uint16{0, 0x8000, 1, 0x8001, 0x03ff, 0x0400, 0x1234, 0x9234, 0x2a01, 0x3c00, 0xbc00, 0x7bff, 0xfbff}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, d := range codes.Types() {
		if _, ok := panelKinds[d]; !ok {
			t.Errorf("panels of %v go through f32", d)
		}
	}
	for d, at := range unpacked {
		if _, ok := unpackKinds[d]; !ok {
			t.Errorf("%v goes through f32", d)
		}
		info := d.Info()
		for _, z := range [][2]int{{64, 3 * info.BlockLen}, {32, info.BlockLen}, {96, 256 * 5}, {77, 512}} {
			n, k := z[0], z[1]
			raw := make([]byte, n*d.RowBytes(k))
			for i := range raw {
				raw[i] = byte(rng.Uint32())
			}
			for b := 0; b < len(raw); b += info.BlockBytes {
				for _, o := range at {
					binary.LittleEndian.PutUint16(raw[b+o:], halves[rng.IntN(len(halves))])
				}
			}
			w, err := gemm.NewStored(slices.Clip(raw), d, n, k)
			if err != nil {
				t.Fatal(err)
			}
			unpackAlike(t, w, w)
			if codes.Has(d) {
				unpackAlike(t, inPanels(t, w), w)
			}
		}
	}
}

// unpackAlike holds the panels of w to those that plain Go makes of rows.
func unpackAlike(t *testing.T, w, rows *gemm.Stored) {
	t.Helper()
	s, plain, k := NewStored(w), NewStored(rows), w.K
	for p := range NumPanels(w.N) {
		got, want := make([]uint16, NR*k+1), make([]uint16, NR*k)
		got[NR*k] = 0x1234
		s.Panel(p, got[:NR*k])
		func() {
			defer isa.Use(isa.Generic)()
			plain.Panel(p, want)
		}()
		for i, v := range want {
			if v&0x7f80 == 0 {
				v = 0 // tiles have no subnormal weights
			}
			if g := got[i]; g != v && (g|v)&0x7fff != 0 {
				t.Fatalf("%v [%d, %d] in panels %v, panel %d: value %d of step %d is %#x, expected %#x", w.DType, w.N, k, w.InPanels, p, i%1024, i/1024, g, v)
			}
		}
		if got[NR*k] != 0x1234 {
			t.Fatalf("%v [%d, %d] in panels %v, panel %d: wrote behind it", w.DType, w.N, k, w.InPanels, p)
		}
	}
}

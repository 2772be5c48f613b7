package codes

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"hotpath/internal/tensor"
)

// TestHalves: scales and minima up to the limit make weights that f16 holds, and one
// that is greater, not a number or infinite is found in any block.
func TestHalves(t *testing.T) {
	const n, cols = 40, 512
	for _, d := range Types() {
		raw := make([]byte, n*d.RowBytes(cols))
		panels := make([]byte, Bytes(d, n, cols))
		fits := func() bool {
			clear(panels)
			Pack(panels, raw, d, n, cols, 0, NumPanels(n))
			return Halves(panels, d, cols, 0, NumPanels(n))
		}
		limit := layouts[d].limit
		if limit == 0 {
			if fits() {
				t.Errorf("%v has no limit, and zeros fit", d)
			}
			continue
		}
		largest := map[tensor.DType]float32{tensor.Q4_0: 8, tensor.Q4_1: 16, tensor.Q8_0: 128}[d]
		if v := tensor.F16ToF32(uint16(limit)) * largest; v > 65504 {
			t.Errorf("%v: the limit makes weights of %g", d, v)
		}
		block := layouts[d].file
		blocks := len(raw) / block
		fields := map[string]int{"scale": 0} // where numbers lie in a block of the file
		if d == tensor.Q4_1 {
			fields["minimum"] = 2
		}
		r := rand.New(rand.NewPCG(uint64(d), 1))
		for _, b := range []int{0, blocks - 1, r.IntN(blocks), r.IntN(blocks), r.IntN(blocks), r.IntN(blocks)} {
			for name, field := range fields {
				number := raw[b*block+field:][:2]
				for _, bits := range []int{limit, limit | 0x8000} {
					binary.LittleEndian.PutUint16(number, uint16(bits))
					if !fits() {
						t.Errorf("%v: a %s with bits %#x in block %d of %d does not fit", d, name, bits, b, blocks)
					}
				}
				for _, bits := range []int{limit + 1, 0x8001 + limit, 0x7c00, int(tensor.F32ToF16(float32(math.NaN())))} {
					binary.LittleEndian.PutUint16(number, uint16(bits))
					if fits() {
						t.Errorf("%v: a %s with bits %#x in block %d of %d fits", d, name, bits, b, blocks)
					}
				}
				clear(number)
			}
		}
	}
}

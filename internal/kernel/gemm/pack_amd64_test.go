package gemm

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"hotpath/internal/kernel/isa"
)

// TestPackedTogether: steps that are packed four at a time have the bits of each alone,
// whatever their number. The integers of a step whose scale is 0 say nothing and differ;
// so do those of a step with a number that is not finite.
func TestPackedTogether(t *testing.T) {
	if isa.Active() < isa.VNNI {
		t.Skip("this machine has no kernels for AVX-512")
	}
	const stride = 64 + codeRoom/2
	for name, pack := range map[string]func(dst, sums *byte, x *float32, stride, steps int, constants *[5]float32, order *codeOrder){"packCodes": packCodes, "packCodes16": packCodes16} {
		for _, order := range []*codeOrder{&quadOrder, &naturalOrder} {
			for steps := 1; steps < 14; steps++ {
				x := seeded(codeLen*steps, uint64(steps))
				for i := range x[:codeLen] {
					x[i] *= float32(steps%3) * 1e-37 // nothing, or little
				}
				x[len(x)-1] = 7 // the largest, and exactly so
				together, alone := make([]byte, steps*stride), make([]byte, steps*stride)
				pack(&together[0], &together[64], &x[0], stride, steps, &codeConstants, order)
				for s := range steps {
					at := s * stride
					pack(&alone[at], &alone[at+64], &x[s*codeLen], stride, 1, &codeConstants, order)
					a, b := together[at:at+stride], alone[at:at+stride]
					if math.Float32frombits(binary.LittleEndian.Uint32(b[64:])) == 0 {
						a, b = a[64:], b[64:]
					}
					if !bytes.Equal(a, b) {
						t.Fatalf("%s: step %d of %d is\n%v, alone\n%v", name, s, steps, a, b)
					}
				}
			}
		}
	}
}

// BenchmarkPack rounds one row of the models' widths.
func BenchmarkPack(b *testing.B) {
	if isa.Active() < isa.VNNI {
		b.Skip("this machine has no kernels for AVX-512")
	}
	x, dst := seeded(8192, 1), make([]byte, 8192/codeLen*128)
	for _, c := range []struct {
		name  string
		steps int // at once
	}{{"together", 8192 / codeLen}, {"alone", 1}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				for s := 0; s < 8192/codeLen; s += c.steps {
					packCodes(&dst[s*128], &dst[s*128+64], &x[s*codeLen], 128, c.steps, &codeConstants, &quadOrder)
				}
			}
		})
	}
}

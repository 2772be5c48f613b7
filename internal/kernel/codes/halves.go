package codes

import (
	"encoding/binary"

	"hotpath/internal/tensor"
)

// Halves reports whether all weights of panels [p0,p1) are certainly finite after
// they are rounded to f16. src is the panels of the matrix, of k columns.
func Halves(src []byte, d tensor.DType, k, p0, p1 int) bool {
	l, size := layouts[d], PanelBytes(d, k)
	if l.limit == 0 {
		return false
	}
	const magnitudes = 0x7fff7fff7fff7fff
	carry := (0x7fff - uint64(l.limit)) * 0x0001000100010001 // a greater number reaches its sign bit with it
	var signs uint64
	for part := src[p0*size : p1*size]; len(part) > 0; part = part[l.bytes:] {
		for i := 0; i < l.scales; i += 8 {
			signs |= binary.LittleEndian.Uint64(part[i:])&magnitudes + carry
		}
	}
	return signs&^magnitudes == 0
}

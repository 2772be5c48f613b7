package bf16

import "hotpath/internal/tensor"

//go:noescape
func unpackAll(j *unpackJob)

// unpackFirst is the code of the first part of a tile of a kind.
//
//go:noescape
func unpackFirst(kind int) uintptr

// unpackTables are the constants of the kernels that unpack.
type unpackTables struct {
	pairs [2][2][64]uint8
	twice [2][16]uint32
	sign  uint32
	float uint32
	bias  float32
	_     uint32
	mask  uint64
	// Of nibbles.
	nibble uint32
	eight  float32
	rows   [2][2][64]uint8
	// Of long blocks, and of codes of 5 bits or of levels.
	middle  float32
	six     uint32
	high    uint32
	fifth   uint32
	byte    uint32
	fifths  [64]uint8
	four    uint32
	middle5 float32
	levels  [2][16]uint8
	three   uint32
	low     uint32
	half6   uint32
	middle3 float32
	one     uint32
	tiny    float32
	quads   [2][2][64]uint8 // of panels of codes
}

// tables, where pairs [b][p] brings bytes 2p and 2p+1 of dwords that stand for
// 8 rows to the second byte of 16 dwords: of rows 0 to 3 in lane b, and of rows
// 4 to 7 in lane 2+b. rows [b][p] does so with dwords that stand for rows 0 to
// 15, of which it takes those from 8b on; quads [b][p] with bytes p and p+2. fifths is of dwords that stand for
// rows: byte i of a row begins 4 bits before its bit i.
//
//lint:ignore U1000 read by assembly
var tables = func() (t unpackTables) {
	for e := range 16 {
		row := e / 2
		for b := range 2 {
			t.twice[b][e] = uint32(8*b + row)
			for p := range 2 {
				t.rows[b][p][4*e+1] = uint8((8*b+row)*4 + 2*p + e%2)
				t.quads[b][p][4*e+1] = uint8((8*b+row)*4 + p + e%2*2)
				t.pairs[b][p][4*e+1] = uint8((row/4*2+b)*16 + row%4*4 + 2*p + e%2)
			}
		}
	}
	t.sign, t.float, t.bias, t.mask = 0x80808080, 0x47000000, 1<<15+128, 0x2222222222222222
	t.nibble, t.eight = 0x0f0f0f0f, 1<<15+8
	t.middle, t.six, t.high, t.fifth, t.byte = 1<<15+32, 0x3f3f3f3f, 0x30303030, 0x10101010, 0xff
	for i := range t.fifths {
		t.fifths[i] = uint8((i%8/4*32 + i%4 - 4) & 63)
	}
	for q := range 16 {
		t.levels[0][q], t.levels[1][q] = uint8(128+tensor.LevelIQ4_NL(q)), uint8(128+tensor.LevelMXFP4(q))
	}
	t.four, t.middle5, t.three, t.low, t.half6, t.middle3 = 0x04040404, 1<<15+16, 0x03030303, 15, 0x20202020, 1<<15+4
	t.one, t.tiny = 1, 0x1p-128
	return t
}()

// unpackKinds are the numbers of storage types in the assembly.
var unpackKinds = map[tensor.DType]int{
	tensor.Q8_0: 0, tensor.Q4_1: 1, tensor.Q4_0: 2,
	tensor.Q4_K: 3, tensor.Q5_K: 4, tensor.Q6_K: 5,
	tensor.Q5_0: 6, tensor.Q5_1: 7, tensor.IQ4_NL: 8, tensor.MXFP4: 9,
	tensor.Q2_K: 10, tensor.Q3_K: 11, tensor.IQ4_XS: 12,
}

// panelKinds are those of types in panels of codes.
var panelKinds = map[tensor.DType]int{
	tensor.Q8_0: 13, tensor.Q4_1: 14, tensor.Q4_0: 15, tensor.Q4_K: 16, tensor.Q6_K: 17,
}

func unpackFast(j *unpackJob) { unpackAll(j) }

package cuda

import "hotpath/internal/tensor"

// codeTile is how warps take weights in blocks of codes, as CodeTile in codes.cu.
type codeTile struct {
	values int // of a row that a warp takes at a time
	pitch  int // bytes of them, as they lie in shared memory
	stages int // of 16 rows per warp
}

var codeTiles = map[tensor.DType]codeTile{
	tensor.Q8_0: {256, 304, 2}, tensor.Q4_0: {256, 176, 3}, tensor.Q4_1: {256, 176, 3}, tensor.Q4_K: {256, 176, 3},
	tensor.Q6_K: {256, 240, 2},
}

const (
	codeWarps = 8 // CODE_WARPS
	codePairs = 8 // of a tile
	// manyPairs of a multiprocessor keep two of a kernel's blocks busy there. With fewer,
	// a second block only keeps out the next kernel's.
	manyPairs = 4 * codePairs
)

// coded is how a single row of k values is multiplied with pairs of rows of codes.
func (b *binder) coded(t codeTile, k, pairs int) (stream, bool) {
	parts := (k + t.values - 1) / t.values
	s := stream{kernel: "k_codes_", warps: codeWarps, split: min(parts, codeWarps)}
	per := 1
	if pairs > manyPairs*b.be.drv.describe().Units {
		per = 2
	}
	most := b.share(&s, pairs, per)
	tiles := (most + codePairs - 1) / codePairs
	s.shared = t.stages*codeWarps*2*codePairs*t.pitch + parts*t.values/32*76 + tiles*codePairs*16 + 2*most*4*s.split
	return s, s.shared <= b.be.streamShared()
}

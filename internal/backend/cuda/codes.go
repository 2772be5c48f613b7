package cuda

import (
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// codeRow is a row as products with codes read it, RowCodes in codes.cu. A gate writes it
// for the one product behind it: otherwise each block of that product would quantize the
// whole row.
var codeRow = &plan.Format{
	Name:  "row of codes",
	Holds: func(cols int) bool { return cols%codeValues == 0 },
	Bytes: func(rows, cols int) int64 { return int64(rows) * int64(cols/32*codeBytes) },
}

// Bits of One.codes.
const readCodes, writeCodes = 1, 2

// codeTile is how warps take weights in blocks of codes, as CodeTile in codes.cu.
type codeTile struct {
	pitch  int // bytes of codeValues of a row, as they lie in shared memory
	stages int // of 16 rows per warp
}

var codeTiles = map[tensor.DType]codeTile{
	tensor.Q8_0: {304, 2}, tensor.Q4_0: {176, 3}, tensor.Q4_1: {176, 3}, tensor.Q4_K: {176, 3},
	tensor.Q6_K: {240, 2},
}

const (
	codeWarps = 8 // CODE_WARPS
	codePairs = 8 // of a tile
	// codeValues of a row are taken at a time by a warp; 32 values of x are codeBytes.
	codeValues, codeBytes = 256, 76
	// manyPairs of a multiprocessor keep two of a kernel's blocks busy there. With fewer,
	// a second block only keeps out the next kernel's.
	manyPairs = 4 * codePairs
)

// blocksPer is how many blocks of a kernel a multiprocessor takes.
func (b *Backend) blocksPer(pairs int) int {
	if pairs > manyPairs*b.drv.describe().Units {
		return 2
	}
	return 1
}

// coded is how a single row of k values is multiplied with pairs of rows of codes.
func (b *binder) coded(t codeTile, k, pairs, codes int) (stream, bool) {
	parts := (k + codeValues - 1) / codeValues
	s := stream{kernel: "k_codes_", warps: codeWarps, split: min(parts, codeWarps), codes: codes}
	most := b.share(&s, pairs, b.be.blocksPer(pairs))
	if codes&writeCodes != 0 {
		var ok bool
		if s.blocks, s.quota, ok = b.be.blocksOf32(pairs); !ok {
			return stream{}, false
		}
		s.rest, most = 0, s.quota
	}
	tiles := (most + codePairs - 1) / codePairs
	s.shared = t.stages*codeWarps*2*codePairs*t.pitch + parts*codeValues/32*codeBytes + tiles*codePairs*16 + 2*most*4*s.split
	return s, s.shared <= b.be.streamShared()
}

// blocksOf32 shares pairs so that each block takes a multiple of 32. It reports whether
// that keeps four fifths of the card busy.
func (b *Backend) blocksOf32(pairs int) (blocks, quota int, ok bool) {
	slots, groups := b.blocksPer(pairs)*b.drv.describe().Units, pairs/32
	per := max(1, (groups+slots-1)/slots)
	blocks, quota = groups/per, 32*per
	return blocks, quota, blocks*quota == pairs && 5*blocks >= 4*slots && 2*quota*codeWarps <= streamSums
}

// writesCodes reports whether a gate of a single row can write codes.
func (b *Backend) writesCodes(s *plan.Step) bool {
	if s.Kind != "linear+glu" {
		return false
	}
	_, _, ok := b.blocksOf32(s.Root().Out[0].Shape.RowLen())
	return ok && !slices.ContainsFunc(s.Nodes, func(n *graph.Node) bool {
		return n.Op == graph.OpLinear && !b.fitsCodes(plan.Matrix{DType: n.In[1].DType, K: n.In[1].Shape.RowLen()})
	})
}

// fitsCodes reports whether the kernels of codes.cu take a single row of a matrix,
// however many rows it has.
func (b *Backend) fitsCodes(m plan.Matrix) bool {
	t, ok := codeTiles[m.DType]
	split := max(1, min(m.K/codeValues, codeWarps))
	most := 4*streamSums + 16*(streamSums/(2*split)+codePairs) // sums, and addresses of rows
	return ok && !b.opts.OldCodes && !b.inF32(m.K) && m.K%codeValues == 0 &&
		t.stages*codeWarps*2*codePairs*t.pitch+m.K/32*codeBytes+most <= b.streamShared()
}

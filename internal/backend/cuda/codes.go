package cuda

import (
	"slices"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// codeRow is a row as products with codes read it, RowCodes in row_codes.cu. A gate writes it
// for the one product behind it: otherwise each block of that product would quantize the
// whole row.
var codeRow = &plan.Format{
	Name:  "row of codes",
	Holds: func(cols int) bool { return cols%codeValues == 0 },
	Bytes: func(rows, cols int) int64 { return int64(rows) * int64(cols/32*codeBytes) },
}

// Bits of One.codes.
const readCodes, writeCodes = 1, 2

// codeSizes are the types that codes.cu multiplies, and the bytes of codeValues of a row:
// CodeTile in codes.cu.
var codeSizes = map[tensor.DType]int{
	tensor.Q8_0: 8 * 34, tensor.Q4_0: 8 * 18, tensor.Q4_1: 8 * 20, tensor.Q4_K: 144, tensor.Q6_K: 210,
}

const (
	codeWarps  = 8   // that multiply, CODE_WARPS; one more copies
	codePairs  = 8   // of a tile
	codeMost   = 256 // pairs of a block at most: a thread ends each
	codeStages = 4   // rounds of a ring at most: of 2, 3 and 4 the fastest
	// codeValues of a row are taken at a time by a warp; 32 values of x are codeBytes,
	// and what becomes of a pair is codeEnd: struct End in one.cu.
	codeValues, codeBytes, codeEnd = 256, 76, 40
	// manyPairs of a multiprocessor keep two of a kernel's blocks busy there. With fewer,
	// a second block only keeps out the next kernel's.
	manyPairs = 4 * codePairs
	// codeTwo is the shared memory that a block may take where two blocks of the kernel
	// run on a multiprocessor of compute capability 9.0, and codeTwoOld on others.
	codeTwo, codeTwoOld = 96 << 10, 80 << 10
)

// blocksPer is how many blocks of a kernel a multiprocessor takes.
func (b *Backend) blocksPer(pairs int) int {
	if pairs > manyPairs*b.drv.describe().Units {
		return 2
	}
	return 1
}

// takesCodes reports whether the kernels of codes.cu multiply rows of k values of a type.
// Blocks of 18 and of 34 bytes are read as words, two neighbours at a time.
func (b *Backend) takesCodes(t tensor.DType, k int) bool {
	words := t == tensor.Q4_1 || k%64 == 0
	return codeSizes[t] > 0 && words && !b.opts.OldCodes && !b.inF32(k)
}

// coded is how a single row of k values is multiplied with pairs of rows of codes.
func (b *binder) coded(t tensor.DType, k, pairs, codes int) (stream, bool) {
	parts := (k + codeValues - 1) / codeValues
	s := stream{kernel: "k_codes_", warps: codeWarps, split: min(parts, codeWarps), codes: codes}
	b.share(&s, pairs, b.be.blocksPer(pairs))
	round := codePairs * s.groups // pairs
	rounds := (pairs + round - 1) / round
	switch {
	case codes&writeCodes != 0:
		var ok bool
		if s.blocks, ok = b.be.blocksOf32(pairs); !ok {
			return stream{}, false
		}
	case rounds <= b.be.drv.describe().Units:
		s.blocks = rounds // one for each: fewer blocks read x, and fewer have to end
	default:
		s.blocks = max(s.blocks, (pairs+codeMost-1)/codeMost)
	}
	s.quota, s.rest = pairs/s.blocks, pairs%s.blocks
	s.warps++ // the one that copies
	fits := b.be.ring(&s, codeSizes[t], t.RowBytes(k), parts, (pairs+s.blocks-1)/s.blocks)
	return s, fits
}

// ring chooses how many rounds the ring of codes.cu holds, for rows of so many bytes and
// the pairs of a block at most. It reports whether a block has room for one, or for two
// where there are several.
func (b *Backend) ring(s *stream, size, length, parts, most int) bool {
	whole := s.split * size // bytes of a row in a round
	s.pitch = min(whole, length) + 15
	if whole%16 == 0 && length%16 == 0 {
		s.pitch -= 15 // every row begins at a multiple of 16
	}
	s.pitch = (s.pitch + 15) / 16 * 16
	if s.pitch/16%2 == 0 {
		s.pitch += 16 // rows lie in different banks
	}
	tiles, rows := (most+codePairs-1)/codePairs, 2*codePairs*s.groups
	rounds := (tiles + s.groups - 1) / s.groups * ((parts + s.split - 1) / s.split)
	rest := parts*codeValues/32*codeBytes + most*codeEnd + 2*codePairs*tiles*s.split*4
	fit := func(room int) int { return min(rounds, codeStages, (room-rest)/(rows*(s.pitch+4))) }
	s.stages = fit(b.streamShared())
	if s.blocks > b.drv.describe().Units {
		room := codeTwoOld
		if b.wgmma {
			room = codeTwo
		}
		s.stages = max(min(s.stages, 2), fit(room))
	}
	s.shared = s.stages*rows*(s.pitch+4) + rest
	return s.stages >= min(2, rounds)
}

// blocksOf32 shares pairs so that each block takes a multiple of 32. It reports whether
// that keeps four fifths of the card busy.
func (b *Backend) blocksOf32(pairs int) (blocks int, ok bool) {
	slots, groups := b.blocksPer(pairs)*b.drv.describe().Units, pairs/32
	per := max(1, (groups+slots-1)/slots)
	blocks, quota := groups/per, 32*per
	return blocks, blocks*quota == pairs && 5*blocks >= 4*slots && 2*quota*codeWarps <= streamSums
}

// writesCodes reports whether a gate of a single row can write codes.
func (b *Backend) writesCodes(s *plan.Step) bool {
	if s.Kind != "linear+glu" {
		return false
	}
	_, ok := b.blocksOf32(s.Root().Out[0].Shape.RowLen())
	return ok && !slices.ContainsFunc(s.Nodes, func(n *graph.Node) bool {
		return n.Op == graph.OpLinear && !b.fitsCodes(plan.Matrix{DType: n.In[1].DType, K: n.In[1].Shape.RowLen()})
	})
}

// fitsCodes reports whether the kernels of codes.cu take a single row of a matrix with
// whole parts of k, however many rows it has.
func (b *Backend) fitsCodes(m plan.Matrix) bool {
	parts := m.K / codeValues
	s := stream{split: max(1, min(parts, codeWarps)), blocks: 1 << 30} // so many that two share a multiprocessor
	s.groups = codeWarps / s.split
	return b.takesCodes(m.DType, m.K) && m.K%codeValues == 0 && b.ring(&s, codeSizes[m.DType], m.DType.RowBytes(m.K), parts, min(codeMost, streamSums/(2*s.split)+1))
}

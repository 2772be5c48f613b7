package cuda

import (
	"strings"

	"hotpath/internal/backend/device"
	"hotpath/internal/tensor"
)

// stream is how a single row is multiplied with streamed weights: by a kernel with so
// many warps per block, of which split share k.
type stream struct {
	kernel                       string
	warps, split, blocks, shared int
	groups, inverse, quota, rest int // as in One
	stages, pitch, codes         int
}

const (
	streamSums = 2048 // sums of parts of rows that a block holds
	// mostShared is half of the shared memory of a multiprocessor of compute capability
	// 9.0: two kernels fit. leastShared is what a block may take on other cards.
	mostShared, leastShared = 112 << 10, 98 << 10

	streamWarps  = 16  // STREAM_WARPS
	streamValues = 512 // of a row of 16-bit weights that a warp takes at a time
	streamStage  = streamWarps * 2 * 1040
	streamStages = 3 // Stream in stream.cu
)

// streamed is that of a step with so many pairs of rows. In f32, for narrow rows, and
// where a block cannot hold what it needs, there is none.
func (b *binder) streamed(p *device.Products, pairs int) (stream, bool) {
	t := b.DType(p.Nodes[0].In[1])
	if b.be.opts.OldCodes || b.be.inF32(p.K) || p.K%8 != 0 {
		return stream{}, false
	}
	if b.be.takesCodes(t, p.K) {
		codes := 0
		if b.Step.ReadAs(p.X) == codeRow {
			codes |= readCodes
		}
		if p.Gated && b.Form(p.Out[0], codeRow) != 0 {
			codes |= writeCodes
		}
		return b.coded(t, p.K, pairs, codes)
	}
	// Large matrices in 16 bits keep the memory busy without.
	if t != tensor.F16 && t != tensor.BF16 || pairs*p.K > 8<<20 {
		return stream{}, false
	}
	// A warp takes one part of a row, and a row that is normed fits into a stage.
	s := stream{kernel: "k_stream_", warps: streamWarps, split: (p.K + streamValues - 1) / streamValues}
	if s.split > s.warps {
		return stream{}, false
	}
	most := b.share(&s, pairs, 1)
	s.shared = streamStages*streamStage + 2*most*(8+4*s.split) // a row that is normed lies in the last stage
	return s, s.shared <= b.be.streamShared()
}

// share gives pairs to blocks, per of them or more on a multiprocessor, so that none
// holds more than streamSums sums. It returns the pairs of a block at most.
func (b *binder) share(s *stream, pairs, per int) int {
	units := per * b.be.drv.describe().Units
	waves := (2*pairs*s.split + units*streamSums - 1) / (units * streamSums)
	s.blocks = min(pairs, units*waves)
	s.groups, s.inverse, s.quota, s.rest = s.warps/s.split, 1<<16/s.split+1, pairs/s.blocks, pairs%s.blocks
	return (pairs + s.blocks - 1) / s.blocks
}

// streamShared are the bytes of shared memory that a block may take.
func (b *Backend) streamShared() int {
	if b.wgmma {
		return mostShared
	}
	return leastShared
}

// streamKernels are the kernels that need more shared memory than a launch may have
// unasked.
func streamKernels() []string {
	names := []string{"k_stream_f16", "k_stream_bf16"}
	for t := range codeSizes {
		names = append(names, "k_codes_"+strings.ToLower(t.String()))
	}
	return names
}

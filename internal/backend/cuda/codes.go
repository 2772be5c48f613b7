package cuda

import (
	"strings"

	"hotpath/internal/backend/device"
	"hotpath/internal/tensor"
)

// streams are the types of weights whose rows a single row of x meets in shared
// memory, as Stream in codes.cu.
var streams = map[tensor.DType]struct {
	values int // of a row that a warp takes at a time
	room   int // bytes of them
	stages int // pairs of them
}{
	tensor.F16: {512, 1040, 3}, tensor.BF16: {512, 1040, 3},
	tensor.Q8_0: {1024, 1104, 3}, tensor.Q4_0: {1024, 592, 4}, tensor.Q4_1: {1024, 656, 4},
	tensor.Q4_K: {1024, 592, 4}, tensor.Q6_K: {1024, 864, 3},
}

const (
	streamWarps = 16   // STREAM_WARPS
	streamSums  = 2048 // sums of parts of rows that a block holds
	// mostShared is half of the shared memory of a multiprocessor of compute capability
	// 9.0: two kernels fit. leastShared is what a block may take on other cards.
	mostShared, leastShared = 112 << 10, 98 << 10
)

// stream is how a single row is multiplied with streamed weights.
type stream struct{ split, blocks, shared int }

// streamed is that of a step with so many pairs of rows. In f32, for narrow rows, and
// where a block cannot hold what it needs, there is none.
func (b *binder) streamed(p *device.Products, pairs int, norm bool) (stream, bool) {
	t := b.DType(p.Nodes[0].In[1])
	s, units := streams[t], b.be.drv.describe().Units
	if s.room == 0 || b.be.opts.OldCodes || b.be.inF32(p.K) || p.K%8 != 0 {
		return stream{}, false
	}
	// Large matrices in 16 bits keep the memory busy without.
	if (t == tensor.F16 || t == tensor.BF16) && pairs*p.K > 8<<20 {
		return stream{}, false
	}
	// A warp takes one part of a row: with more parts per warp no card has run it yet.
	split := (p.K + s.values - 1) / s.values
	if split > streamWarps {
		return stream{}, false
	}
	waves := (2*pairs*split + units*streamSums - 1) / (units * streamSums)
	blocks := min(pairs, units*waves)
	most := 2 * ((pairs + blocks - 1) / blocks) // rows of a block
	stage, x := streamWarps*2*s.room, 0
	switch {
	case t != tensor.F16 && t != tensor.BF16:
		x = p.K / 32 * 72
	case norm:
		x = 4 * p.K
	}
	if x <= stage { // it lies in the last stage
		x = 0
	}
	shared := s.stages*stage + x + most*(8+4*split)
	return stream{split, blocks, shared}, shared <= b.be.streamShared()
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
	var names []string
	for t := range streams {
		names = append(names, "k_stream_"+strings.ToLower(t.String()))
	}
	return names
}

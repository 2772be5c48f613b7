package cuda

import (
	"strings"

	"hotpath/internal/backend/device"
	"hotpath/internal/tensor"
)

// Products of a single row from blocks of 32 codes (codes.cu): weights come into
// shared memory in stages, and x is rounded to 15 bits per block, in two planes.
const (
	codeStages = 3        // CODE_STAGES
	codeShared = 96 << 10 // bytes that a block may take; every card that is accepted has 99 KiB
)

// codeRooms are the bytes of one row of a stage by type: ROOM in codes.cu.
var codeRooms = map[tensor.DType]int{tensor.Q8_0: 32*34 + 32, tensor.Q4_0: 64*18 + 32, tensor.Q4_1: 64*20 + 32}

// codesShared is the dynamic shared memory of the kernel for rows of k values: stages
// of two rows for 8 warps, then x.
func codesShared(t tensor.DType, k int) int { return 8*codeStages*2*codeRooms[t] + k/32*72 }

// byCodes reports whether a single row is multiplied on integers. In f32, and for
// narrow rows, it is not rounded.
func (b *binder) byCodes(p *device.Products) bool {
	t := b.DType(p.Nodes[0].In[1])
	return codeRooms[t] > 0 && !b.be.opts.OldCodes && !b.be.inF32(p.K) && codesShared(t, p.K) <= codeShared
}

// codeKernels are the kernels that need more shared memory than a launch may have
// unasked.
func codeKernels() []string {
	var names []string
	for t := range codeRooms {
		names = append(names, "k_codes_"+strings.ToLower(t.String()))
	}
	return names
}

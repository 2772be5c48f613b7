package bf16

import (
	"unsafe"

	"hotpath/internal/kernel/codes"
)

// Weights in panels of codes (package codes) become tiles as the integers that
// they are, which bf16 holds exactly, and products are scaled in f32 while they
// are added up. On a processor with tiles of f16, types with a kernel for those
// become tiles as the weights that they stand for, rounded to f16.

// fewPanels is what a FewScratch has for panels of codes.
type fewPanels struct {
	sums []float32 // [padK/32, or padK/16, up to whole tiles][FewRows], the sums of as many rounded values; for tiles of f16 [FewRows], factors of results
	bias []float32 // [codes.Rows] of a panel that is not whole, zeros otherwise
	mem  *panelMemory
	args panelArgs
}

func newFewPanels(kp int) fewPanels {
	return fewPanels{sums: make([]float32, (kp/16+15)/16*16*FewRows), bias: make([]float32, codes.Rows), mem: newPanelMemory()}
}

// panelMemory is what the kernels write to on their way: rings of steps.
type panelMemory struct {
	tiles  [4][codes.Rows * kStep]uint16       // right operands of four steps
	_      [4][codes.Rows * kStep]uint16       // the end of a ring is a bit that addresses in it do not have
	out    [2][4][FewRows * codes.Rows]float32 // products: first and second of four steps
	scales [16][2][codes.Rows]float32          // of products, then of sums
}

// newPanelMemory begins where the end of each ring is a bit in its address.
func newPanelMemory() *panelMemory {
	const align = 8192
	b := make([]byte, unsafe.Sizeof(panelMemory{})+align)
	at := -uintptr(unsafe.Pointer(&b[0])) & (align - 1)
	return (*panelMemory)(unsafe.Pointer(&b[at]))
}

// panelArgs are the operands of the assembly kernels, in its order.
type panelArgs struct {
	cfg      *[64]byte
	w        *byte
	x        *uint16
	sums     *float32
	steps    int
	y        *float32
	strideY  int // bytes
	m        int
	bias     *float32
	nextBias int // bytes from one panel to the next
	total    int // steps of all panels
	mem      *panelMemory
	// The kernels' own: addresses that move on, perhaps beyond what they began in,
	// and how many steps a block and a panel still have.
	//
	//lint:ignore U1000 kept by assembly
	biasAt, left, yAt, more uintptr
	offset                  float32 // of the numbers in tiles from what codes stand for, times -1
	factor                  float32 // of the numbers in tiles, inverted
	tables                  *halfTables
	size                    int     // bytes of a panel
	after                   uintptr // what is read after these panels
}

package gemm

import (
	"unsafe"

	"hotpath/internal/kernel/isa"
	"hotpath/internal/tensor"
)

// cachedArgs is what the kernels over a cache take; distances are in bytes. They
// change it. kernelgen/cached.go knows the offsets.
type cachedArgs struct {
	w        *byte
	rowBytes int
	wGroup   int // of keys from the end of the last head to the next rows; of values rows done
	ahead    int // from a line that is read to the one that is asked for
	rows     int // of values; of keys as many groups
	heads    int
	blocks   int      // of 32 values per head
	x        *float32 // queries, or weights of rows
	xRow     int
	xNext    int
	d        *float32
	dRow     int
	dNext    int
	dGroup   int // of keys from the scores behind the last head to the next; of values weights done
	add      int
}

//go:noescape
func keysF32AVX2x1(a *cachedArgs)

//go:noescape
func keysF32AVX2x2(a *cachedArgs)

//go:noescape
func keysF32AVX2x3(a *cachedArgs)

//go:noescape
func keysF32AVX2x4(a *cachedArgs)

//go:noescape
func keysF16AVX2x1(a *cachedArgs)

//go:noescape
func keysF16AVX2x2(a *cachedArgs)

//go:noescape
func keysF16AVX2x3(a *cachedArgs)

//go:noescape
func keysF16AVX2x4(a *cachedArgs)

//go:noescape
func keysQ8_0AVX2x1(a *cachedArgs)

//go:noescape
func keysQ8_0AVX2x2(a *cachedArgs)

//go:noescape
func keysQ8_0AVX2x3(a *cachedArgs)

//go:noescape
func keysQ8_0AVX2x4(a *cachedArgs)

//go:noescape
func keysF32AVX512x1(a *cachedArgs)

//go:noescape
func keysF32AVX512x2(a *cachedArgs)

//go:noescape
func keysF32AVX512x3(a *cachedArgs)

//go:noescape
func keysF32AVX512x4(a *cachedArgs)

//go:noescape
func keysF16AVX512x1(a *cachedArgs)

//go:noescape
func keysF16AVX512x2(a *cachedArgs)

//go:noescape
func keysF16AVX512x3(a *cachedArgs)

//go:noescape
func keysF16AVX512x4(a *cachedArgs)

//go:noescape
func keysQ8_0AVX512x1(a *cachedArgs)

//go:noescape
func keysQ8_0AVX512x2(a *cachedArgs)

//go:noescape
func keysQ8_0AVX512x3(a *cachedArgs)

//go:noescape
func keysQ8_0AVX512x4(a *cachedArgs)

//go:noescape
func valuesF32AVX2x1(a *cachedArgs)

//go:noescape
func valuesF32AVX2x2(a *cachedArgs)

//go:noescape
func valuesF16AVX2x1(a *cachedArgs)

//go:noescape
func valuesF16AVX2x2(a *cachedArgs)

//go:noescape
func valuesQ8_0AVX2x1(a *cachedArgs)

//go:noescape
func valuesQ8_0AVX2x2(a *cachedArgs)

//go:noescape
func valuesF32AVX512x1(a *cachedArgs)

//go:noescape
func valuesF32AVX512x2(a *cachedArgs)

//go:noescape
func valuesF32AVX512x3(a *cachedArgs)

//go:noescape
func valuesF32AVX512x4(a *cachedArgs)

//go:noescape
func valuesF16AVX512x1(a *cachedArgs)

//go:noescape
func valuesF16AVX512x2(a *cachedArgs)

//go:noescape
func valuesF16AVX512x3(a *cachedArgs)

//go:noescape
func valuesF16AVX512x4(a *cachedArgs)

//go:noescape
func valuesQ8_0AVX512x1(a *cachedArgs)

//go:noescape
func valuesQ8_0AVX512x2(a *cachedArgs)

//go:noescape
func valuesQ8_0AVX512x3(a *cachedArgs)

//go:noescape
func valuesQ8_0AVX512x4(a *cachedArgs)

// cachedKernels are those of one storage type: by tier, then by queries per head.
type cachedKernels struct{ keys, values [2][4]func(a *cachedArgs) }

var cachedByType = map[tensor.DType]*cachedKernels{
	tensor.F32: {
		keys: [2][4]func(a *cachedArgs){
			{keysF32AVX2x1, keysF32AVX2x2, keysF32AVX2x3, keysF32AVX2x4},
			{keysF32AVX512x1, keysF32AVX512x2, keysF32AVX512x3, keysF32AVX512x4},
		},
		values: [2][4]func(a *cachedArgs){
			{valuesF32AVX2x1, valuesF32AVX2x2},
			{valuesF32AVX512x1, valuesF32AVX512x2, valuesF32AVX512x3, valuesF32AVX512x4},
		},
	},
	tensor.F16: {
		keys: [2][4]func(a *cachedArgs){
			{keysF16AVX2x1, keysF16AVX2x2, keysF16AVX2x3, keysF16AVX2x4},
			{keysF16AVX512x1, keysF16AVX512x2, keysF16AVX512x3, keysF16AVX512x4},
		},
		values: [2][4]func(a *cachedArgs){
			{valuesF16AVX2x1, valuesF16AVX2x2},
			{valuesF16AVX512x1, valuesF16AVX512x2, valuesF16AVX512x3, valuesF16AVX512x4},
		},
	},
	tensor.Q8_0: {
		keys: [2][4]func(a *cachedArgs){
			{keysQ8_0AVX2x1, keysQ8_0AVX2x2, keysQ8_0AVX2x3, keysQ8_0AVX2x4},
			{keysQ8_0AVX512x1, keysQ8_0AVX512x2, keysQ8_0AVX512x3, keysQ8_0AVX512x4},
		},
		values: [2][4]func(a *cachedArgs){
			{valuesQ8_0AVX2x1, valuesQ8_0AVX2x2},
			{valuesQ8_0AVX512x1, valuesQ8_0AVX512x2, valuesQ8_0AVX512x3, valuesQ8_0AVX512x4},
		},
	},
}

// aheadBytes is how far ahead of a kernel the lines of a cache are asked for, at
// least, where nobody says what is read next.
const aheadBytes = 16384

// reset prepares the arguments for all heads.
func (c *Cached) reset() *cachedArgs {
	c.args = cachedArgs{w: &c.Data[0], rowBytes: c.RowBytes, ahead: (aheadBytes + c.RowBytes - 1) / c.RowBytes * c.RowBytes,
		rows: c.Rows, heads: c.Heads, blocks: c.Dim / 32}
	if len(c.Next) > 0 { // nothing is read there, so it may be other memory and end anywhere
		c.args.ahead = int(uintptr(unsafe.Pointer(&c.Next[0])) - uintptr(unsafe.Pointer(&c.Data[0])))
	}
	return &c.args
}

// scoresFast computes the scores of the first rows and says of how many.
func (c *Cached) scoresFast(dst []float32, ldd int, q []float32, group int) int {
	kernels, tier := cachedByType[c.DType], isa.Vector()
	height := rowHeight(tier)
	if kernels == nil || tier == isa.Generic || c.Rows < height || c.Heads*group == 0 {
		return 0
	}
	wide := 0
	if tier == isa.AVX512 {
		wide = 1
	}
	for j := 0; j < group; j += 4 {
		m := min(4, group-j)
		a := c.reset()
		a.rows = c.Rows / height
		a.wGroup = height*c.RowBytes - c.DType.RowBytes(c.Heads*c.Dim)
		a.x, a.xRow, a.xNext = &q[j*c.Dim], 4*c.Dim, 4*(group-1)*c.Dim
		a.d, a.dRow, a.dNext, a.dGroup = &dst[j*ldd], 4*ldd, 4*group*ldd, 4*height-4*c.Heads*group*ldd
		kernels.keys[wide][m-1](a)
	}
	return c.Rows / height * height
}

func (c *Cached) mixFast(dst []float32, ldd int, p []float32, ldp, group int, add bool) bool {
	kernels, tier := cachedByType[c.DType], isa.Vector()
	if kernels == nil || tier == isa.Generic || c.Rows == 0 || c.Heads*group == 0 {
		return false
	}
	step, wide := 2, 0
	if tier == isa.AVX512 {
		step, wide = 4, 1
	}
	for j := 0; j < group; j += step {
		m := min(step, group-j)
		a := c.reset()
		a.x, a.xRow, a.xNext = &p[j*ldp], 4*ldp, 4*group*ldp
		a.d, a.dRow, a.dNext = &dst[j*ldd], 4*ldd, 4*group*ldd-4*c.Dim
		if add {
			a.add = 1
		}
		kernels.values[wide][m-1](a)
	}
	return true
}

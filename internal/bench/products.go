package bench

import (
	"slices"

	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/i16"
	"hotpath/internal/kernel/int8"
	"hotpath/internal/tensor"
)

// calls runs a kernel: rows [m0,m1) of panels [p0,p1) by one worker.
type calls func(worker, m0, m1, p0, p1 int)

// product is one way to multiply. make prepares weights [n,k] and returns the
// calls, and how many panels the columns are in.
type product struct {
	class, kernel string
	types         []tensor.DType
	make          func(p *problem) (part calls, panels int, err error)
	most          int         // rows; 0 means any
	has           func() bool // whether this machine has the kernel; nil means always
	tiled         bool        // measured in tiles of several sizes, too
}

// problem is the operands of a product.
type problem struct {
	m, n, k int
	workers int
	a, c    []float32 // [m,k], [m,n]
	w       *gemm.Stored
	bytes   int // of the weights as the kernel reads them
	each    int // bytes of a value of a
}

// Types by what kernels do with them.
var (
	floatTypes = storageTypes[:3]
	blockTypes = slices.Concat(storageTypes[3:], otherTypes)
	allTypes   = slices.Concat(storageTypes, otherTypes)
	// fewTypes are decoded on their way into tiles.
	fewTypes = slices.Concat(storageTypes, []tensor.DType{tensor.Q4_0, tensor.IQ4_NL})
)

// products is the table of kernels.
var products = []product{
	{class: "f32", kernel: "panels", types: floatTypes[:1], make: packedF32, tiled: true},
	{class: "f32", kernel: "decode", types: allTypes[1:], make: decodedF32},
	{class: "f32", kernel: "rows", types: allTypes, make: rowsF32, most: mostDirect},
	{class: "bf16", kernel: "panels", types: floatTypes[2:], make: packedBF16, tiled: true},
	{class: "bf16", kernel: "rounded", types: floatTypes[2:], make: roundedBF16, has: bf16.Tiles},
	{class: "bf16", kernel: "decode", types: blockTypes, make: decodedBF16},
	{class: "bf16", kernel: "rows", types: fewTypes, make: rowsBF16, most: mostDirect, has: bf16.Tiles},
	{class: "i16g32", kernel: "panels", types: floatTypes[:1], make: packedI16, has: i16.Fast, tiled: true},
	{class: "i16g32", kernel: "decode", types: blockTypes, make: decodedI16, has: i16.Fast},
	{class: "i8g32", kernel: "panels", types: []tensor.DType{tensor.Q8_0, tensor.Q4_1}, make: packedI8, tiled: true},
}

// classes are the compute classes that this machine has a kernel for.
func classes() []string {
	var out []string
	for _, p := range products {
		if (p.has == nil || p.has()) && !slices.Contains(out, p.class) {
			out = append(out, p.class)
		}
	}
	return out
}

// runF32 multiplies with panels that b gives.
func runF32(p *problem, b gemm.Panels) (calls, int, error) {
	t := &gemm.Task{M: p.m, N: p.n, K: p.k, A: p.a, LDA: p.k, B: b, C: p.c, LDC: p.n}
	scratch := make([]*gemm.Scratch, p.workers)
	for i := range scratch {
		scratch[i] = gemm.NewScratch(nil)
	}
	return func(worker, m0, m1, p0, p1 int) { gemm.Run(t, m0, m1, p0, p1, scratch[worker]) }, gemm.NumPanels(p.n), t.Check()
}

func packedF32(p *problem) (calls, int, error) {
	b := gemm.NewPacked(make([]float32, gemm.PackedLen(p.n, p.k)), p.n, p.k)
	rows := make([]float32, p.n*p.k)
	p.w.Decode(rows, p.k, 0, p.n, 0, p.k)
	b.PackB(rows, p.k, 0, gemm.NumPanels(p.n))
	p.bytes = 4 * len(b.Data)
	return runF32(p, b)
}

func decodedF32(p *problem) (calls, int, error) { return runF32(p, p.w) }

// rowsF32 multiplies with the file's rows as they lie: a panel is one row.
func rowsF32(p *problem) (calls, int, error) {
	sums := make([][]float32, p.workers)
	for i := range sums {
		sums[i] = make([]float32, gemm.XSumsLen(p.k))
	}
	return func(worker, m0, m1, n0, n1 int) {
		gemm.Few(p.c[m0*p.n:], p.n, p.w, p.a[m0*p.k:], p.k, m1-m0, n0, n1, sums[worker])
	}, p.n, nil
}

// runBF16 multiplies with the panels that each worker has its view of.
func runBF16(p *problem, view func() bf16.Panels) (calls, int, error) {
	tasks, scratch := make([]bf16.Task, p.workers), make([]*bf16.Scratch, p.workers)
	for i := range tasks {
		tasks[i] = bf16.Task{M: p.m, N: p.n, K: p.k, A: p.a, LDA: p.k, B: view(), C: p.c, LDC: p.n}
		scratch[i] = bf16.NewScratch(p.k)
	}
	return func(worker, m0, m1, p0, p1 int) { bf16.Run(&tasks[worker], m0, m1, p0, p1, scratch[worker]) }, bf16.NumPanels(p.n), nil
}

func packedBF16(p *problem) (calls, int, error) {
	b := bf16.Pack(make([]uint16, bf16.PackedLen(p.n, p.k)), bf16.NewStored(p.w), p.n, p.k)
	p.bytes = 2 * len(b.Data)
	return runBF16(p, func() bf16.Panels { return b })
}

// roundedBF16 multiplies rows that are in bf16 already, as products hand them on
// to each other.
func roundedBF16(p *problem) (calls, int, error) {
	b := bf16.Pack(make([]uint16, bf16.PackedLen(p.n, p.k)), bf16.NewStored(p.w), p.n, p.k)
	p.bytes, p.each = 2*len(b.Data), 2
	rows := make([]uint16, p.m*p.k)
	bf16.Round(rows, p.a, p.k, p.m, p.k)
	t := &bf16.Task{M: p.m, N: p.n, K: p.k, Rounded: rows, LDA: p.k, B: b, C: p.c, LDC: p.n}
	scratch := make([]*bf16.Scratch, p.workers)
	for i := range scratch {
		scratch[i] = bf16.NewScratch(p.k)
	}
	return func(worker, m0, m1, p0, p1 int) { bf16.Run(t, m0, m1, p0, p1, scratch[worker]) }, bf16.NumPanels(p.n), nil
}

func decodedBF16(p *problem) (calls, int, error) {
	return runBF16(p, func() bf16.Panels { return bf16.NewStored(p.w) })
}

// rowsBF16 multiplies with the file's rows as they lie: a panel is one row.
func rowsBF16(p *problem) (calls, int, error) {
	t := &bf16.FewTask{M: p.m, A: p.a, LDA: p.k, W: p.w, C: p.c, LDC: p.n}
	scratch := make([]*bf16.FewScratch, p.workers)
	for i := range scratch {
		scratch[i] = bf16.NewFewScratch(p.k)
	}
	return func(worker, _, _, n0, n1 int) { bf16.RunFew(t, n0, n1, scratch[worker]) }, p.n, nil
}

// runI16 multiplies in 16-bit integers.
func runI16(p *problem, w i16.Weights) (calls, int, error) {
	t := &i16.Task{M: p.m, N: p.n, K: p.k, A: p.a, LDA: p.k, W: w, C: p.c, LDC: p.n}
	scratch := make([]*i16.Scratch, p.workers)
	for i := range scratch {
		scratch[i] = i16.NewScratch(p.k)
	}
	return func(worker, m0, m1, p0, p1 int) { i16.Run(t, m0, m1, p0, p1, scratch[worker]) }, i16.NumPanels(p.n), nil
}

func packedI16(p *problem) (calls, int, error) {
	n := i16.PackedLen(p.n, p.k)
	b := i16.Pack(make([]int16, n), make([]float32, n/i16.Group), p.w)
	p.bytes = int(b.Bytes())
	return runI16(p, b)
}

func decodedI16(p *problem) (calls, int, error) { return runI16(p, i16.Stored{W: p.w}) }

func packedI8(p *problem) (calls, int, error) {
	size, err := int8.PackedLen(p.w)
	if err != nil {
		return nil, 0, err
	}
	b, err := int8.Pack(make([]byte, size), p.w)
	if err != nil {
		return nil, 0, err
	}
	p.bytes = size
	t := &int8.Task{M: p.m, N: p.n, K: p.k, A: p.a, LDA: p.k, B: b, C: p.c, LDC: p.n}
	scratch := make([]*int8.Scratch, p.workers)
	for i := range scratch {
		scratch[i] = int8.NewScratch(p.k)
	}
	return func(worker, m0, m1, p0, p1 int) { int8.Run(t, m0, m1, p0, p1, scratch[worker]) }, int8.NumPanels(p.n), nil
}

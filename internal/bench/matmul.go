package bench

import (
	"context"
	"fmt"
	"math/rand/v2"

	"hotpath/internal/kernel/amx"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/int8"
	"hotpath/internal/tensor"
)

var (
	rowCounts = []int{1, 4, 16, 64, 128, 512}
	// dims are N x K of weights as models have them.
	dims = [][2]int{{384, 384}, {1536, 384}, {384, 1536}, {576, 1536}, {768, 768}, {768, 1152}}
	// storageTypes are those of files.
	storageTypes = []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.Q8_0, tensor.Q4_1}
)

// mostDirect is the number of rows up to which kernels that read a file's rows
// are measured: somewhat beyond where panels overtake them.
const mostDirect = 16

// product is one way to multiply. make prepares weights [n,k] and returns the
// work of one call on panels [p0,p1) of m rows by one worker.
type product struct {
	class, kernel string
	types         []tensor.DType
	most          int  // rows; 0 means any
	tiles         bool // runs on tiles only
	make          func(p *problem) (part func(worker, p0, p1 int), panels int, err error)
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

// products is the table of kernels.
var products = []product{
	{"f32", "panels", []tensor.DType{tensor.F32}, 0, false, packedF32},
	{"f32", "decode", storageTypes[1:], 0, false, decodedF32},
	{"f32", "rows", storageTypes, mostDirect, false, rowsF32},
	{"bf16", "panels", []tensor.DType{tensor.BF16}, 0, false, packedBF16},
	{"bf16", "rounded", []tensor.DType{tensor.BF16}, 0, true, roundedBF16},
	{"bf16", "decode", []tensor.DType{tensor.Q8_0, tensor.Q4_1}, 0, false, decodedBF16},
	{"bf16", "rows", storageTypes, mostDirect, true, rowsBF16},
	{"i8g32", "panels", []tensor.DType{tensor.Q8_0, tensor.Q4_1}, 0, false, packedInt8(int8.Len32, int8.Pack32)},
	{"i8g128", "panels", []tensor.DType{tensor.F32}, 0, false, packedInt8(func(w *gemm.Stored) (int, error) { return int8.Len128(w.N, w.K), nil }, int8.Pack128)},
}

func matmulCases(e *Env) []*Case {
	var out []*Case
	for _, p := range products {
		if p.tiles && !amx.Tiles() {
			continue
		}
		for _, d := range p.types {
			for _, z := range dims {
				for _, m := range rowCounts {
					if p.most > 0 && m > p.most {
						continue
					}
					for _, threads := range e.threads() {
						name := fmt.Sprintf("Matmul/class=%s/type=%s/kernel=%s/m=%d/n=%d/k=%d", p.class, d, p.kernel, m, z[0], z[1])
						out = append(out, &Case{Name: name, Threads: threads, Open: func(context.Context) (*Work, error) {
							return e.openProduct(p, d, m, z[0], z[1], threads)
						}})
					}
				}
			}
		}
	}
	return out
}

func (e *Env) openProduct(p product, d tensor.DType, m, n, k, threads int) (*Work, error) {
	data := make([]byte, n*d.RowBytes(k))
	if err := tensor.Quantize(data, d, noise(n*k, 1)); err != nil {
		return nil, err
	}
	w, err := gemm.NewStored(data, d, n, k)
	if err != nil {
		return nil, err
	}
	x := &problem{m: m, n: n, k: k, workers: threads, a: noise(m*k, 2), c: make([]float32, m*n), w: w, bytes: len(data), each: 4}
	part, panels, err := p.make(x)
	if err != nil {
		return nil, err
	}
	work := &Work{Cost: func() ([]Cost, error) {
		return []Cost{{p.class, 2 * float64(m) * float64(n) * float64(k), float64(x.bytes + m*(4*n+x.each*k))}}, nil
	}}
	if threads == 1 {
		work.Run = repeated(func() error { part(0, 0, panels); return nil })
		return work, nil
	}
	be, err := e.backend("")
	if err != nil {
		return nil, err
	}
	workers := min(threads, panels)
	share := func(i int) { part(i, i*panels/workers, (i+1)*panels/workers) }
	together := be.Caps().Coarse
	work.Run = repeated(func() error { return together(context.Background(), workers, share) })
	return work, nil
}

// noise is n numbers of size 1, the same for the same seed.
func noise(n int, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	f := make([]float32, n)
	for i := range f {
		f[i] = 2*rng.Float32() - 1
	}
	return f
}

// runF32 multiplies with panels that b gives.
func runF32(p *problem, b gemm.Panels) (func(worker, p0, p1 int), int, error) {
	t := &gemm.Task{M: p.m, N: p.n, K: p.k, A: p.a, LDA: p.k, B: b, C: p.c, LDC: p.n}
	scratch := make([]*gemm.Scratch, p.workers)
	for i := range scratch {
		scratch[i] = gemm.NewScratch(nil)
	}
	return func(worker, p0, p1 int) { gemm.Run(t, 0, p.m, p0, p1, scratch[worker]) }, gemm.NumPanels(p.n), t.Check()
}

func packedF32(p *problem) (func(worker, p0, p1 int), int, error) {
	b := gemm.NewPacked(make([]float32, gemm.PackedLen(p.n, p.k)), p.n, p.k)
	rows := make([]float32, p.n*p.k)
	p.w.Decode(rows, p.k, 0, p.n, 0, p.k)
	b.PackB(rows, p.k, 0, gemm.NumPanels(p.n))
	p.bytes = 4 * len(b.Data)
	return runF32(p, b)
}

func decodedF32(p *problem) (func(worker, p0, p1 int), int, error) { return runF32(p, p.w) }

// rowsF32 multiplies with the file's rows as they lie: a panel is one row.
func rowsF32(p *problem) (func(worker, p0, p1 int), int, error) {
	sums := make([][]float32, p.workers)
	for i := range sums {
		sums[i] = make([]float32, gemm.XSumsLen(p.k))
	}
	return func(worker, n0, n1 int) { gemm.Few(p.c, p.n, p.w, p.a, p.k, p.m, n0, n1, sums[worker]) }, p.n, nil
}

// runBF16 multiplies with the panels that each worker has its view of.
func runBF16(p *problem, view func() amx.Panels) (func(worker, p0, p1 int), int, error) {
	tasks, scratch := make([]amx.Task, p.workers), make([]*amx.Scratch, p.workers)
	for i := range tasks {
		tasks[i] = amx.Task{M: p.m, N: p.n, K: p.k, A: p.a, LDA: p.k, B: view(), C: p.c, LDC: p.n}
		scratch[i] = amx.NewScratch(p.k)
	}
	return func(worker, p0, p1 int) { amx.Run(&tasks[worker], 0, p.m, p0, p1, scratch[worker]) }, amx.NumPanels(p.n), nil
}

func packedBF16(p *problem) (func(worker, p0, p1 int), int, error) {
	b := amx.Pack(make([]uint16, amx.PackedLen(p.n, p.k)), amx.NewStored(p.w), p.n, p.k)
	p.bytes = 2 * len(b.Data)
	return runBF16(p, func() amx.Panels { return b })
}

// roundedBF16 multiplies rows that are in bf16 already, as products hand them on
// to each other.
func roundedBF16(p *problem) (func(worker, p0, p1 int), int, error) {
	b := amx.Pack(make([]uint16, amx.PackedLen(p.n, p.k)), amx.NewStored(p.w), p.n, p.k)
	p.bytes, p.each = 2*len(b.Data), 2
	rows := make([]uint16, p.m*p.k)
	amx.Round(rows, p.a, p.k, p.m, p.k)
	t := &amx.Task{M: p.m, N: p.n, K: p.k, Rounded: rows, LDA: p.k, B: b, C: p.c, LDC: p.n}
	scratch := make([]*amx.Scratch, p.workers)
	for i := range scratch {
		scratch[i] = amx.NewScratch(p.k)
	}
	return func(worker, p0, p1 int) { amx.Run(t, 0, p.m, p0, p1, scratch[worker]) }, amx.NumPanels(p.n), nil
}

func decodedBF16(p *problem) (func(worker, p0, p1 int), int, error) {
	return runBF16(p, func() amx.Panels { return amx.NewStored(p.w) })
}

// rowsBF16 multiplies with the file's rows as they lie: a panel is one row.
func rowsBF16(p *problem) (func(worker, p0, p1 int), int, error) {
	t := &amx.FewTask{M: p.m, A: p.a, LDA: p.k, W: p.w, C: p.c, LDC: p.n}
	scratch := make([]*amx.FewScratch, p.workers)
	for i := range scratch {
		scratch[i] = amx.NewFewScratch(p.k)
	}
	return func(worker, n0, n1 int) { amx.RunFew(t, n0, n1, scratch[worker]) }, p.n, nil
}

func packedInt8(size func(*gemm.Stored) (int, error), pack func([]byte, *gemm.Stored) (*int8.Packed, error)) func(p *problem) (func(worker, p0, p1 int), int, error) {
	return func(p *problem) (func(worker, p0, p1 int), int, error) {
		bytes, err := size(p.w)
		if err != nil {
			return nil, 0, err
		}
		b, err := pack(make([]byte, bytes), p.w)
		if err != nil {
			return nil, 0, err
		}
		p.bytes = bytes
		t := &int8.Task{M: p.m, N: p.n, K: p.k, A: p.a, LDA: p.k, B: b, C: p.c, LDC: p.n}
		scratch := make([]*int8.Scratch, p.workers)
		for i := range scratch {
			scratch[i] = int8.NewScratch(p.k)
		}
		return func(worker, p0, p1 int) { int8.Run(t, 0, p.m, p0, p1, scratch[worker]) }, int8.NumPanels(p.n), nil
	}
}

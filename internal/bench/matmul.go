package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"hotpath/internal/kernel/gemm"
	"hotpath/internal/tensor"
)

var (
	rowCounts = []int{1, 4, 16, 64, 128, 512}
	// dims are N x K of weights as models have them.
	dims = [][2]int{{384, 384}, {1536, 384}, {384, 1536}, {576, 1536}, {768, 768}, {768, 1152}}
	// storageTypes are those of files that are measured at all rows and sizes.
	storageTypes = []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.Q8_0, tensor.Q4_1}
	// otherTypes are all others that files have: they differ in what decoding
	// costs, which one size shows.
	otherTypes = slices.DeleteFunc(tensor.Codecs(), func(d tensor.DType) bool { return slices.Contains(storageTypes, d) })
	otherRows  = []int{1, 16, 128}
	otherDims  = [][2]int{{576, 1536}}
)

// mostDirect is the number of rows up to which kernels that read a file's rows
// are measured: somewhat beyond where panels overtake them.
const mostDirect = 16

// sweep calls f for the rows and sizes that a type is measured at.
func sweep(d tensor.DType, f func(m, n, k int)) {
	ms, zs := rowCounts, dims
	if !slices.Contains(storageTypes, d) {
		ms, zs = otherRows, otherDims
	}
	for _, z := range zs {
		for _, m := range ms {
			f(m, z[0], z[1])
		}
	}
}

func matmulCases(e *Env) []*Case {
	var out []*Case
	add := func(p *product, d tensor.DType, t tile, m, n, k, threads int) {
		name := fmt.Sprintf("Matmul/class=%s/type=%s/kernel=%s/%sm=%d/n=%d/k=%d", p.class, d, p.kernel, t.key(), m, n, k)
		out = append(out, &Case{Name: name, Threads: threads, Open: func(context.Context) (*Work, error) {
			return e.openProduct(p, d, t, m, n, k, threads)
		}})
	}
	for i := range products {
		p := &products[i]
		if p.has != nil && !p.has() {
			continue
		}
		for _, d := range p.types {
			sweep(d, func(m, n, k int) {
				for _, threads := range e.threads() {
					if p.most == 0 || m <= p.most {
						add(p, d, tile{}, m, n, k, threads)
					}
				}
			})
		}
		if p.tiled {
			for _, t := range tiles {
				add(p, p.types[0], t, tiledRows, tiledDims[0], tiledDims[1], 1)
			}
		}
	}
	return out
}

// tile is how many rows and columns one call of a kernel gets; zero means all.
// Within it kernels keep to blocks of their own.
type tile struct{ rows, cols int }

// tiles are those that a product of tiledRows rows is cut into: from what stays
// in L1 to all of it, which takes weights once.
var (
	tiles     = []tile{{16, 32}, {16, 192}, {16, 1536}, {64, 32}, {64, 192}, {64, 1536}, {512, 32}, {512, 192}, {512, 1536}}
	tiledDims = [2]int{1536, 384}
)

const tiledRows = 512

// key is the tile's part of a case's name.
func (t tile) key() string {
	if t == (tile{}) {
		return ""
	}
	return fmt.Sprintf("tile=%dx%d/", t.rows, t.cols)
}

// cut is part in calls of a tile each, of n columns in panels.
func (t tile) cut(part calls, n, panels int) calls {
	if t == (tile{}) {
		return part
	}
	step := max(1, t.cols*panels/n)
	return func(worker, m0, m1, p0, p1 int) {
		for r := m0; r < m1; r += t.rows {
			for p := p0; p < p1; p += step {
				part(worker, r, min(m1, r+t.rows), p, min(p1, p+step))
			}
		}
	}
}

func (e *Env) openProduct(p *product, d tensor.DType, t tile, m, n, k, threads int) (*Work, error) {
	data, err := e.weights(d, n, k)
	if err != nil {
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
	part = t.cut(part, n, panels)
	work := &Work{Cost: func() ([]Cost, error) {
		return []Cost{{p.class, 2 * float64(m) * float64(n) * float64(k), float64(x.bytes + m*(4*n+x.each*k))}}, nil
	}}
	if threads == 1 {
		work.Run = repeated(func() error { part(0, 0, m, 0, panels); return nil })
		return work, nil
	}
	be, err := e.backend("")
	if err != nil {
		return nil, err
	}
	workers := min(threads, panels)
	var next atomic.Int64 // share that no worker has claimed
	share := func(w int) {
		for i := int(next.Add(1)) - 1; i < workers; i = int(next.Add(1)) - 1 {
			part(w, 0, m, i*panels/workers, (i+1)*panels/workers)
		}
	}
	together := be.Caps().Coarse
	work.Run = repeated(func() error {
		next.Store(0)
		return together(context.Background(), workers, share)
	})
	return work, nil
}

// weightsKey names weights that were made before.
type weightsKey struct {
	d    tensor.DType
	n, k int
}

// weights are [n,k] of a type. Some types take longer to encode than a sample
// takes, so that is done once; each caller has a copy in its own memory.
func (e *Env) weights(d tensor.DType, n, k int) ([]byte, error) {
	key := weightsKey{d, n, k}
	if _, ok := e.encoded[key]; !ok {
		data := make([]byte, n*d.RowBytes(k))
		if err := tensor.Quantize(data, d, noise(n*k, 1)); err != nil {
			return nil, err
		}
		e.encoded[key] = data
	}
	return slices.Clone(e.encoded[key]), nil
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

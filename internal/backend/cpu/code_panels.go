package cpu

import (
	"sync/atomic"

	"hotpath/internal/graph"
	"hotpath/internal/group"
	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// codePanels are the formats of quantized weights in panels of codes, by storage
// type: the file's bytes in the order in which kernels read them.
var codePanels = func() map[tensor.DType]*plan.Format {
	out := map[tensor.DType]*plan.Format{}
	for _, d := range codes.Types() {
		out[d] = &plan.Format{
			Name:   d.String() + " panels",
			Bytes:  func(rows, cols int) int64 { return int64(codes.Bytes(d, rows, cols)) },
			Stored: true,
		}
	}
	return out
}()

// panelsOf is a matrix in panels of codes, without its data. It has no type if
// there are no panels for its shape.
func panelsOf(m plan.Matrix) *gemm.Stored {
	if !codes.Has(m.DType) || m.K%m.DType.Info().BlockLen != 0 {
		return &gemm.Stored{}
	}
	w := shapeOf(m)
	w.InPanels = true
	return w
}

// lookups are the rules of embedding tables: rows can be read from any format
// with panels, and from the file's rows.
func lookups() []plan.Rule {
	rule := plan.Rule{Class: "f32", Op: graph.OpEmbed, Weights: func(plan.Matrix) bool { return true }}
	out := []plan.Rule{rule}
	for _, d := range codes.Types() {
		rule.Packing, rule.Weights = codePanels[d], func(m plan.Matrix) bool { return m.Weight() && m.DType == d }
		out = append(out, rule)
	}
	return out
}

// packShare is the least number of bytes that another thread helps to pack for.
const packShare = 256 << 10

// packCodes packs on as many threads as runs have: the first call waits for it.
func packCodes(b *Backend, w plan.Weight, n, k int) (weight, error) {
	mem := b.packed.take(codes.Bytes(w.DType, n, k))
	shares := max(1, min(b.workers, len(mem)/packShare))
	var all group.Group
	var large atomic.Bool
	for i := range shares {
		all.Go(func() {
			p0, p1 := share(codes.NumPanels(n), 1, i, shares)
			codes.Pack(mem, w.Data, w.DType, n, k, p0, p1)
			if !codes.Halves(mem, w.DType, k, p0, p1) {
				large.Store(true)
			}
		})
	}
	all.Wait()
	p, err := gemm.NewPanels(mem, w.DType, n, k)
	if err != nil {
		return nil, err
	}
	p.Halves = !large.Load()
	return &codeWeight{p}, nil
}

// codeWeight is a weight in panels of codes.
type codeWeight struct{ w *gemm.Stored }

func (c *codeWeight) Bytes() int64                   { return int64(len(c.w.Data)) }
func (c *codeWeight) unpackRow(dst []float32, r int) { c.w.Decode(dst, len(dst), r, 1, 0, len(dst)) }

package cuda

import (
	"fmt"
	"strings"

	"hotpath/internal/backend/device"
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// fewRowsF32 is up to how many rows products in f32 read each weight once for all.
const fewRowsF32 = 8

// bindProducts takes the kernels for the largest number of rows of the plan.
func bindProducts(b *binder, _ *graph.Node) {
	p := b.Products()
	x := b.reads(p.X)
	merged := len(b.Step.Before)+len(b.Step.After) > 0
	if merged && p.Rows > device.OneRow && (len(b.Step.Before) > 0 || !b.be.severalFit(p.Nodes, b.DType)) {
		b.Fail(fmt.Errorf("%w: %s: %d rows of matrices in %s with a norm or a rotation in one step", ErrDevice, b.Step.Name, p.Rows, b.name(p)))
		return
	}
	for _, part := range b.byType(p, merged) {
		b.product(part, x, merged)
	}
}

// product is products with matrices of one type.
func (b *binder) product(p *device.Products, x in, merged bool) {
	switch {
	case b.Step.ReadAs(p.Nodes[0].In[1]) == half: // which an optimizer writes in bf16
		b.wgmma(p, b.rounded(p.X, x))
	case p.Rows <= device.OneRow && !b.Plan.Invariant:
		b.one(p)
	case b.be.inF32(p.K):
		b.inF32(p)
	case !half.Holds(p.K):
		b.onTensorCores(p, x)
	case merged:
		b.several(p, b.rounded(p.X, x))
	case p.Rows <= fewRows && !x.half && !b.Plan.Invariant && b.weights(p) && !b.large(p):
		if b.wideFits(p) {
			b.wide(p)
		} else {
			b.few(p)
		}
	case b.be.wgmma:
		b.wgmma(p, b.rounded(p.X, x))
	default:
		b.onTensorCores(p, x)
	}
}

// byType divides products into those with matrices of one type: a kernel reads one. A
// weight that another op reads too may keep the type of the file while those beside it
// become bf16.
func (b *binder) byType(p *device.Products, merged bool) (parts []*device.Products) {
	if p.Gated || merged {
		return []*device.Products{p}
	}
	for from := 0; from < len(p.Nodes); {
		to := from + 1
		for to < len(p.Nodes) && b.DType(p.Nodes[to].In[1]) == b.DType(p.Nodes[from].In[1]) {
			to++
		}
		part := *p
		part.Nodes, part.Out = p.Nodes[from:to], p.Out[from:to]
		parts, from = append(parts, &part), to
	}
	return parts
}

// rounded is operand v in bf16: as it lies, or rounded into the step's memory, in
// rows of a multiple of 8 values.
func (b *binder) rounded(v *graph.Value, x in) in {
	if x.half {
		return x
	}
	rows, stride := b.Most(v), stride8(v.Shape.RowLen())
	at := b.Workspace(2 * int64(rows) * int64(stride))
	b.launch("k_round", b.spread(rows*stride/8), 256, b.sizes, v.Shape.Outer, v.Shape.RowLen(), at, x.at, stride)
	return in{at, true}
}

// weights reports whether all matrices are weights, and no step writes biases.
func (b *binder) weights(p *device.Products) bool {
	for _, n := range p.Nodes {
		if !isWeight(n.In[1]) || !given(n.In[2]) {
			return false
		}
	}
	return true
}

func isWeight(v *graph.Value) bool {
	return v.Node.Leaf != nil && v.Node.Leaf.Kind == graph.WeightLeaf
}

// large reports whether a matrix is too large for the kernels of few rows.
func (b *binder) large(p *device.Products) bool {
	for i, n := range p.Nodes {
		if b.DType(n.In[1]) == tensor.BF16 && b.be.large(p.Cols(i), p.K) {
			return true
		}
	}
	return false
}

// name is the type of the matrices, as kernels are named: those that take several read
// one type.
func (b *binder) name(p *device.Products) string {
	first := b.DType(p.Nodes[0].In[1])
	for _, n := range p.Nodes[1:] {
		if d := b.DType(n.In[1]); d != first {
			b.Fail(fmt.Errorf("%w: %s: matrices in %s and %s in one step", ErrDevice, b.Step.Name, first, d))
		}
	}
	return strings.ToLower(first.String())
}

// each3 fills an argument for each of three parts.
func each3[T any](n int, f func(i int) T) [device.MostParts]T {
	var out [device.MostParts]T
	for i := range n {
		out[i] = f(i)
	}
	return out
}

// columns are the results per row and the number of parts.
func columns(p *device.Products) ([device.MostParts]int, int) {
	return each3(len(p.Nodes), p.Cols), len(p.Nodes)
}

// fewTiles is the number of blocks of few: one per 8 columns, or per 8 of a gate and 8 of
// what it gates.
func fewTiles(p *device.Products) (tiles int) {
	for i := range p.Out {
		tiles += (p.Cols(i) + 7) / 8
	}
	return tiles
}

// fewKernels follow each other in layers of few rows. They ask for the same division into
// cache and shared memory, 64 KB of 228 on an H200: a multiprocessor changes it only when
// it is empty, and they start beside each other.
var fewKernels = []string{"k_norm_row", "k_few16_bf16_held", "k_few16_glu_bf16_held", "k_attention_heads"}

const fewShared = 28 // percent

// heldWarps is the number of warps that a block of held.cu has at most.
const heldWarps = 12

// held is the number of warps with which a block of held.cu requests all of x at once,
// or 0 if k is too large or matrices are not bf16.
func (b *binder) held(p *device.Products) (warps int) {
	most := 3 // rounds of a warp, each of 32 values of k
	if p.Gated {
		most = 2
	}
	parts := (p.K + 31) / 32
	rounds := (parts + heldWarps - 1) / heldWarps
	if rounds > most || b.name(p) != "bf16" {
		return 0
	}
	return (parts + rounds - 1) / rounds
}

// few is up to 16 rows in f32: 8 columns per block, whose warps share k.
func (b *binder) few(p *device.Products) {
	n, parts := columns(p)
	kernel := "k_few16_"
	if p.Gated {
		kernel = "k_few16_glu_"
	}
	kernel += b.name(p)
	warps := b.held(p)
	if warps > 0 {
		kernel += "_held"
	} else {
		for warps = 1; warps < 16 && p.K/(32*warps) >= 3; {
			warps *= 2
		}
	}
	b.launch(kernel, [3]int{fewTiles(p), 1, 1}, 32*warps, b.Value(p.X),
		each3(parts, func(i int) address { return b.Value(p.Nodes[i].In[1]) }),
		each3(len(p.Out), func(i int) address { return b.Value(p.Out[i]) }),
		each3(parts, func(i int) address { return b.Value(p.Nodes[i].In[2]) }),
		b.sizes, p.X.Shape.Outer, n, parts, p.K, p.Gated, p.Act)
}

// onTensorCores is a kernel per product, from weights in their storage type.
func (b *binder) onTensorCores(p *device.Products, x in) {
	product := func(i int, y out, act int) {
		n := p.Cols(i)
		b.launch("k_tensor_"+strings.ToLower(b.DType(p.Nodes[i].In[1]).String()), [3]int{(n + 63) / 64, (p.Rows + 127) / 128, 1}, 256,
			b.sizes, p.X.Shape.Outer, n, p.K, y, x, b.Value(p.Nodes[i].In[1]), b.Value(p.Nodes[i].In[2]), act)
	}
	if p.Gated {
		b.gated(p, func(i int, to address) { product(i, out{plain: to}, -1) })
		return
	}
	for i, v := range p.Out {
		product(i, b.writes(v), p.Act)
	}
}

// gated computes a gate and what it gates into the step's memory.
func (b *binder) gated(p *device.Products, product func(i int, to address)) {
	v := p.Out[0]
	bytes := 4 * int64(p.Rows) * int64(p.Cols(0))
	gate, up := b.Workspace(bytes), b.Workspace(bytes)
	product(0, gate)
	product(1, up)
	b.each("k_glu", v, b.writes(v), gate, up, p.Act)
}

// inF32 is plain f32, for few rows from weights in their storage type.
func (b *binder) inF32(p *device.Products) {
	product := func(i int, y address) {
		n, w, x := p.Cols(i), p.Nodes[i].In[1], b.Value(p.X)
		if p.Rows <= fewRowsF32 && !b.Plan.Invariant {
			b.launch("k_few_"+strings.ToLower(b.DType(w).String()), [3]int{(n + 15) / 16, (p.Rows + 7) / 8, 1}, 256,
				b.sizes, p.X.Shape.Outer, n, p.K, y, x, b.Value(w), b.Value(p.Nodes[i].In[2]))
			return
		}
		at := b.Value(w)
		if b.DType(w) != tensor.F32 {
			at = b.Workspace(4 * int64(n) * int64(p.K))
			b.decode("k_decode", at, w)
		}
		b.gemm(p.X.Shape.Outer, tensor.Fixed(n), tensor.Fixed(p.K), y, x, p.K, 1, at, 1, p.K, b.Value(p.Nodes[i].In[2]))
	}
	if p.Gated {
		b.gated(p, product)
		return
	}
	for i, v := range p.Out {
		product(i, b.Value(v))
		if p.Act >= 0 {
			b.each("k_act", v, out{plain: b.Value(v)}, in{at: b.Value(v)}, p.Act)
		}
	}
}

// decode writes a matrix of any type in another.
func (b *binder) decode(kernel string, to address, w *graph.Value) {
	rows, cols := w.Shape.NumRows(b.Plan.Max), w.Shape.RowLen()
	b.launch(kernel, b.spread(rows*cols/8), 256, to, b.Value(w), b.DType(w), uint64(rows), cols)
}

// oneArgs are the arguments of the kernels that take in their neighbours, as One in
// one.cu.
func (b *binder) oneArgs(p *device.Products, norm device.RowNorm, s stream) []any {
	n, parts := columns(p)
	ends, slots, kv := b.RowEnds(p)
	if s.codes&readCodes != 0 {
		norm.X = b.Form(p.X, codeRow)
	}
	if s.codes&writeCodes != 0 {
		ends[0].Y = b.Form(p.Out[0], codeRow)
	}
	early := b.weights(p) && (norm.Kind == 0 || normGiven(p.X.Node)) && readsInputs(b.Step.After) // what is read before the wait
	return []any{norm.X, norm.Add, norm.Sum, norm.Weight, norm.Bias,
		each3(parts, func(i int) address { return b.Value(p.Nodes[i].In[1]) }),
		each3(parts, func(i int) address { return ends[i].Y }),
		each3(parts, func(i int) address { return b.Value(p.Nodes[i].In[2]) }),
		each3(parts, func(i int) address { return ends[i].Cache }),
		slots, each3(parts, func(i int) turn { return b.turnOf(ends[i].Rope) }),
		n, parts, p.K, p.Gated, p.Act, norm.Kind, norm.Eps, norm.Offset, kv, s.split, early,
		s.groups, s.inverse, s.quota, s.rest, s.stages, s.pitch, s.codes}
}

// one is a single row, with the norm before it and what makes queries, keys and
// values of it.
func (b *binder) one(p *device.Products) {
	pairs, norm := p.Pairs(), b.RowNorm(p)
	launch := func(s stream) {
		b.launch(s.kernel+b.name(p), [3]int{s.blocks, 1, 1}, 32*s.warps, b.oneArgs(p, norm, s)...)
		b.launches[len(b.launches)-1].shared = s.shared
	}
	if s, ok := b.streamed(p, pairs); ok {
		launch(s)
		return
	}
	if b.Step.ReadAs(p.X) == codeRow || p.Gated && b.Form(p.Out[0], codeRow) != 0 {
		b.Fail(fmt.Errorf("%w: %s: a row of codes beside matrices in %s that no kernel for codes takes", ErrDevice, b.Step.Name, b.name(p)))
		return
	}
	// Warps of a pair share k until every unit has 16 warps.
	units, split, shared := b.be.drv.describe().Units, 1, 0
	for split < 8 && pairs*split < 16*units && p.K/split >= 512 {
		split *= 2
	}
	if norm.Kind > 0 {
		shared = 4 * p.K
	}
	launch(stream{kernel: "k_one_", warps: 8, split: split, blocks: min((pairs*split+7)/8, 2*units), shared: shared})
}

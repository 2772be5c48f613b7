package cpu

import (
	"fmt"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// class is one compute class of products with matrices: how it packs weights
// and how it multiplies. One file per class implements it; classes lists them.
type class interface {
	// rules are the class's rows of the lowering table: rules of kernels for few
	// rows, which are tried before all others, and rules for any number of rows.
	rules(q request) (few, many []plan.Rule)
	// pack lays a weight out in one of the class's formats.
	pack(b *Backend, w plan.Weight, n, k int) (weight, error)
	// bind prepares the products of one matrix by one of the class's rules, and
	// reserves the scratch that they need.
	bind(b *binder, m *matrix, r *plan.Rule) (way, error)
}

// classes are all compute classes, in the order in which their rules are tried:
// integers first, and f32, which accepts everything, last. packs is the format of
// packed weights.
var classes = []struct {
	name  Precision
	packs *plan.Format
	class
}{
	{I8G32, i8Panels, i8class{}},
	{I16G32, i16Panels, i16class{}},
	{BF16, bf16Panels, bf16class{}},
	{F32, f32Panels, f32class{}},
}

func classNamed(name string) class {
	for _, c := range classes {
		if string(c.name) == name {
			return c
		}
	}
	return nil
}

// way is the implementation of products with one matrix W[N,K] by one rule:
// y[rows,N] = x[rows,K] w^T + bias. It must not allocate, and an element must not
// depend on the worker.
type way interface {
	label() string
	split() split
	// multiply computes columns [c0,c1), whole tiles, of the task's rows.
	multiply(w *worker, t task, c0, c1 int)
}

// task is some rows of a product.
type task struct {
	y    []float32 // [rows][N]
	x    factor    // [rows][K]
	bias []float32 // [N] or nil
	rows int
	add  bool // to what y is; only ways of gradients can, and without a bias
}

// factor is the left operand of a product, in the format that the plan chose from
// the rule's Reads.
type factor struct {
	f32 []float32
	raw []byte // in another format instead, where not nil
}

// weight is a resident tensor.
type weight interface {
	plan.Packed
	// unpackRow widens row r.
	unpackRow(dst []float32, r int)
}

// fileRows is a tensor as the file has it.
type fileRows struct {
	dtype tensor.DType
	rows  []byte
}

func (w *fileRows) Bytes() int64 { return int64(len(w.rows)) }

func (w *fileRows) unpackRow(dst []float32, r int) {
	rb := w.dtype.RowBytes(len(dst))
	if err := tensor.Dequantize(dst, w.dtype, w.rows[r*rb:(r+1)*rb]); err != nil {
		panic(err) // the type was checked when the file was opened
	}
}

// matrix is the matrix of a product while it is bound.
type matrix struct {
	n, k  int
	value *graph.Value
	w     weight // nil where the matrix is state or another step's result
}

// file is the matrix in the file's rows.
func (m *matrix) file() (*fileRows, error) {
	f, ok := m.w.(*fileRows)
	if !ok {
		return nil, fmt.Errorf("%s is packed as %T, expected the file's rows", m.value, m.w)
	}
	return f, nil
}

// product is a matrix with its ways to multiply, by the number of rows.
type product struct {
	n, k int
	ways []rowsWay
}

type rowsWay struct {
	to int // the last row count that it is for
	way
}

// newProduct binds the matrix of node n of the current step.
func newProduct(b *binder, n *graph.Node) (*product, error) {
	v := n.In[n.Op.Matrix-1]
	m := &matrix{n: v.Shape.NumRows(tensor.Bind{}), k: v.Shape.RowLen(), value: v, w: b.weight(v)}
	if n.Op == graph.OpLinearDX {
		m.n, m.k = m.k, m.n
	}
	return b.product(m, b.choices(n))
}

func (b *binder) product(m *matrix, choices []plan.Choice) (*product, error) {
	p := &product{n: m.n, k: m.k}
	for _, c := range choices {
		w, err := classNamed(c.Rule.Class).bind(b, m, c.Rule)
		if err != nil {
			return nil, err
		}
		p.ways = append(p.ways, rowsWay{c.To, w})
	}
	return p, nil
}

// at is the implementation for a number of rows. With fewer rows than the plan's
// minimum it is that of the minimum.
func (p *product) at(rows int) way { return p.ways[p.index(rows)].way }

// index is the index of at among the ways.
func (p *product) index(rows int) int {
	for i := range p.ways {
		if rows <= p.ways[i].to {
			return i
		}
	}
	return len(p.ways) - 1
}

// most is the implementation for the plan's maximum number of rows.
func (p *product) most() way { return p.ways[len(p.ways)-1].way }

// named is the name of a way in profiles.
type named string

func (n named) label() string { return string(n) }

// perWorker is scratch of one kind, one for each worker, as large as the
// hungriest step needs it.
type perWorker[T any] struct {
	of   []T // [worker], once all steps are bound
	size [2]int
	make func(size [2]int) T
}

// room is a perWorker of any kind.
type room interface {
	open(workers int)
	scratch() any
}

func (p *perWorker[T]) scratch() any { return p.of }

func (p *perWorker[T]) open(workers int) {
	p.of = make([]T, workers)
	for i := range p.of {
		p.of[i] = p.make(p.size)
	}
}

// scratchFor returns the scratch of a kind for each worker. The name of the kind
// identifies it.
func scratchFor[T any](b *binder, kind string, size [2]int, build func(size [2]int) T) *perWorker[T] {
	p, ok := b.rooms[kind].(*perWorker[T])
	if !ok {
		p = &perWorker[T]{make: build}
		b.rooms[kind] = p
	}
	p.size = [2]int{max(p.size[0], size[0]), max(p.size[1], size[1])}
	return p
}

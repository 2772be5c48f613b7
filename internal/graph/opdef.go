package graph

import (
	"fmt"
	"sort"

	"hotpath/internal/tensor"
)

// OpDef is everything the house knows about an op.
type OpDef struct {
	Name string
	// Infer checks operands and attributes and returns the outputs' types.
	Infer func(n *Node) ([]Type, error)
	// Cost is evaluated after a run from the bound inputs.
	Cost func(c *Call) Cost
	// CostReads are the inputs whose integers Cost depends on. Of all others
	// it sees the sizes alone.
	CostReads []int
	// Ref computes the outputs, slowly and plainly. It is the oracle of every
	// test and the fallback of every backend. It must not allocate.
	Ref func(c *Call)
	// Grad gives, for each input, the value holding d(loss)/d(input), nil
	// where none flows. dOut[i] is nil where nothing flows into output i.
	Grad func(b *Builder, n *Node, dOut []*Value) []*Value
	// NoGrad says why there is no Grad. Exactly one of Grad and NoGrad is set
	// on every op, so a missing rule is seen when the graph is built.
	NoGrad string
	// Scratch is how many float32 Ref wants for itself; nil means none.
	Scratch func(n *Node, most tensor.Bind) int
	// InPlace maps an output to the input whose buffer it takes over. Such an
	// input is always a version of a State (the Builder checks it), so a node
	// with InPlace is an effect: the planner keeps it, and what it needs, even
	// where no output reads the new version. Readers of the old version run
	// first (Value.Overwritten); the order of versions is an edge.
	InPlace map[int]int
	// Commits says that what the node writes outlives the run: one that has
	// begun with such a node is not cancelled any more, because half an update
	// would be left.
	Commits bool
	// Matrix is the operand + 1 that is a matrix of weights, which backends may
	// pack; 0: none.
	Matrix int
	// ReuseInput allows the planner to put output 0 into the buffer of this
	// input + 1 when it dies there (elementwise ops). 0 means never.
	ReuseInput int
	// ByRow says whether the op can be computed for some rows at a time.
	ByRow ByRow
}

// ByRow says how the results of an op depend on the rows of its operands.
type ByRow uint8

const (
	// AllRows: a row of a result may depend on every row of an operand.
	AllRows ByRow = iota
	// SameRow: a row of a result depends on the same row of those operands that
	// have as many rows, and on all of the others.
	SameRow
	// RowSum: the result is a sum over the rows of the operands.
	RowSum
)

// Type is what shape inference says about one output.
type Type struct {
	Shape tensor.Shape
	DType tensor.DType
}

// Cost is the arithmetic and the compulsory memory traffic of one call. Each
// scalar addition, multiplication, comparison, division, root, exponential,
// sine or activation counts as one FLOP; products with matrices and attention
// count their multiplications and additions only, not bias, scale, softmax or
// decoding. docs/profiling.md has the whole convention. Bytes are what must cross
// memory at least once: rows that are not touched do not count.
type Cost struct{ FLOPs, Bytes int64 }

// Tensor is a bound operand: views into arenas, resliced at each run.
type Tensor struct {
	DType tensor.DType
	Rows  int       // bound outermost dimension
	Cols  int       // elements below it
	F32   []float32 // [Rows*Cols] for F32
	I32   []int32   // [Rows*Cols] for I32
	Raw   []byte    // Rows x RowBytes, for weights in any encoding
	// Resident, where not 0, is the size in which a backend holds the tensor,
	// for costs: what it reads may be narrower than what the file has.
	Resident int64
}

// Len is the number of elements.
func (t *Tensor) Len() int { return t.Rows * t.Cols }

// Row is row i of an F32 tensor.
func (t *Tensor) Row(i int) []float32 { return t.F32[i*t.Cols : (i+1)*t.Cols] }

// Present reports whether an optional operand was given or an output wanted.
func (t *Tensor) Present() bool { return t.Rows != 0 || t.Cols != 0 }

// ReadRow dequantizes row i of a weight in any encoding into dst.
func (t *Tensor) ReadRow(dst []float32, i int) {
	if t.DType == tensor.F32 {
		copy(dst, t.Row(i))
		return
	}
	rb := t.DType.RowBytes(t.Cols)
	if err := tensor.Dequantize(dst[:t.Cols], t.DType, t.Raw[i*rb:(i+1)*rb]); err != nil {
		panic("graph: weight row was not validated when it was bound: " + err.Error())
	}
}

// WriteRow encodes src as row i of a state in any encoding. A row that the
// encoding cannot hold becomes NaN.
func (t *Tensor) WriteRow(i int, src []float32) {
	if t.DType == tensor.F32 {
		copy(t.Row(i), src)
		return
	}
	rb := t.DType.RowBytes(t.Cols)
	if err := tensor.Quantize(t.Raw[i*rb:(i+1)*rb], t.DType, src); err != nil {
		for b := range t.Raw[i*rb : (i+1)*rb] {
			t.Raw[i*rb+b] = 0xff
		}
	}
}

// Bytes is the size in memory of the bound tensor: as a backend holds it, or
// in its own encoding.
func (t *Tensor) Bytes() int64 {
	if t.Resident != 0 {
		return t.Resident
	}
	return int64(t.Rows) * int64(t.DType.RowBytes(t.Cols))
}

// Call is one bound execution of a node. For Cost only the sizes are there,
// and the I32 data of those input leaves that the op's CostReads names.
type Call struct {
	Node *Node
	Bind tensor.Bind
	In   []Tensor // absent operands have Present() == false
	Out  []Tensor // outputs nobody reads have Present() == false
	// Scratch is what OpDef.Scratch asked for; its content is arbitrary.
	Scratch []float32
}

// IOBytes is the sum of all operands' bytes: the usual compulsory traffic.
func (c *Call) IOBytes() int64 {
	var n int64
	for i := range c.In {
		n += c.In[i].Bytes()
	}
	for i := range c.Out {
		n += c.Out[i].Bytes()
	}
	return n
}

var registry = map[string]*OpDef{}

// register adds an op to the table; the row is checked at program start.
func register(d *OpDef) *OpDef {
	switch {
	case d.Infer == nil || d.Cost == nil || d.Ref == nil:
		panic("graph: op " + d.Name + " lacks Infer, Cost or Ref")
	case (d.Grad == nil) == (d.NoGrad == ""):
		panic("graph: op " + d.Name + " needs exactly one of Grad and NoGrad")
	case registry[d.Name] != nil:
		panic("graph: op " + d.Name + " registered twice")
	}
	registry[d.Name] = d
	return d
}

// Ops lists every op by name; optest holds its table of cases against it.
func Ops() []*OpDef {
	ds := make([]*OpDef, 0, len(registry))
	for _, d := range registry {
		ds = append(ds, d)
	}
	sort.Slice(ds, func(i, j int) bool { return ds[i].Name < ds[j].Name })
	return ds
}

// kindNames says in errors what the letters of wantInputs stand for.
var kindNames = map[rune]string{'f': "F32", 'i': "I32", 'w': "a weight encoding"}

// wantInputs checks operand counts and dtypes: 'f' F32, 'i' I32, 'w' a weight
// of any encoding, upper case where the operand is optional.
func wantInputs(n *Node, kinds string) error {
	if len(n.In) != len(kinds) {
		return fmt.Errorf("%d operands, expected %d", len(n.In), len(kinds))
	}
	for i, k := range kinds {
		v := n.In[i]
		if v == nil {
			if k >= 'a' {
				return fmt.Errorf("operand %d is missing", i)
			}
			continue
		}
		ok := true
		switch k {
		case 'f', 'F':
			ok = v.DType == tensor.F32
		case 'i', 'I':
			ok = v.DType == tensor.I32
		case 'w', 'W':
			ok = v.DType != tensor.I32
		}
		if !ok {
			return fmt.Errorf("operand %d has type %s, expected %s", i, v.DType, kindNames[k|' '])
		}
	}
	return nil
}

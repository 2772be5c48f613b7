package cpu

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/codes"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// typedWeights are random weights of types by the beginnings of their keys.
type typedWeights struct {
	types func(key string) tensor.DType
	dims  map[string][]int
	made  *sync.Map // weights.Tensor by key and type: quantizing takes long
}

func (w *typedWeights) Weight(key string) (weights.Tensor, error) {
	d, dims := w.types(key), w.dims[key]
	name := key + d.String()
	if made, ok := w.made.Load(name); ok {
		return made.(weights.Tensor), nil
	}
	h := fnv.New64()
	h.Write([]byte(key))
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	x := make([]float32, dims[0]*dims[1])
	for i := range x {
		x[i] = float32(r.NormFloat64()) / float32(math.Sqrt(float64(dims[1])))
	}
	data := make([]byte, dims[0]*d.RowBytes(dims[1]))
	if err := tensor.Quantize(data, d, x); err != nil {
		return weights.Tensor{}, err
	}
	made := weights.Tensor{Name: key, DType: d, Dims: dims, Data: data}
	w.made.Store(name, made)
	return made, nil
}

func (*typedWeights) Drop(weights.Tensor) {}

// codedLayer is a decoder layer whose attention and gated product hand one row on to
// products with weights of type d; other weights are of type e.
type codedLayer struct {
	session                     *plan.Session
	prog                        *plan.Program
	heads, glu, out             *graph.Value
	x, starts, lens, table, row *graph.Value
}

func newCodedLayer(t *testing.T, made *sync.Map, d, e tensor.DType, o Options) *codedLayer {
	t.Helper()
	const dim, ffn, heads, group, blocks = 256, 768, 8, 4, 12
	w := &typedWeights{made: made, dims: map[string][]int{}, types: func(key string) tensor.DType {
		if strings.HasPrefix(key, "reader") {
			return d
		}
		return e
	}}
	b := graph.NewBuilder(tensor.Bind{T: 16, S: 1, R: 1})
	b.WeightType = func(key string) (tensor.DType, error) { return w.types(key), nil }
	linear := func(name string, x *graph.Value, n int) *graph.Value {
		k := x.Shape.RowLen()
		w.dims[name+".w"] = []int{n, k}
		return b.Linear(name, x, b.Weight(name+".w", graph.RoleUp, tensor.Static(n, k)), nil)
	}
	l := &codedLayer{}
	tokens := tensor.Rows(tensor.Of(tensor.T, 1))
	l.x, l.row = b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), dim)), b.Input("slots", tensor.I32, tokens)
	l.starts = b.Input("starts", tensor.I32, tensor.Rows(tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1}))
	l.lens = b.Input("lens", tensor.I32, tensor.Rows(tensor.Of(tensor.S, 1)))
	l.table = b.Input("table", tensor.I32, tensor.Rows(tensor.Of(tensor.S, 1), blocks))
	cache := tensor.Static(blocks*graph.KVBlock, dim/group)
	k, v := b.KVWrite("write", b.State("k", graph.RoleKV, tensor.F16, cache), b.State("v", graph.RoleKV, tensor.F16, cache),
		linear("k", l.x, dim/group), linear("v", l.x, dim/group), l.row)
	l.heads = b.AttentionKV("heads", linear("q", l.x, dim), k, v, l.starts, l.lens, l.table, graph.AttentionKVAttr{AttentionAttr: graph.AttentionAttr{
		Heads: heads, KVHeads: heads / group, HeadDim: dim / heads, Scale: 0.125, Causal: true}})
	sum := b.Add("sum", l.x, linear("reader o", l.heads, dim))
	l.glu = b.GLU("glu", linear("gate", sum, ffn), linear("up", sum, ffn), graph.SiLU)
	l.out = b.Add("out", sum, linear("reader down", l.glu, dim))
	g, err := b.Freeze(l.out)
	if err != nil {
		t.Fatal(err)
	}
	be, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { be.Close() })
	if l.prog, err = plan.Compile("test", g, be, plan.Buckets(be, g.Max), plan.CompileOptions{}); err != nil {
		t.Fatal(err)
	}
	if l.session, err = plan.NewSession(context.Background(), l.prog, plan.NewWeightSet(be, w), plan.BindOptions{Fixed: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.session.Close() })
	for i := range blocks {
		l.session.I32(l.table)[i] = int32((i + 5) % blocks)
	}
	return l
}

// run adds so many tokens at a position and returns what the layer makes of them.
func (l *codedLayer) run(t *testing.T, at, rows int) []float32 {
	t.Helper()
	s, table := l.session, l.session.I32(l.table)
	s.I32(l.starts)[1], s.I32(l.lens)[0] = int32(rows), int32(at+rows)
	for i := range rows {
		p := at + i
		s.I32(l.row)[i] = table[p/graph.KVBlock]*graph.KVBlock + int32(p%graph.KVBlock)
	}
	x := s.F32(l.x)
	for i := range x[:rows*l.x.Shape.RowLen()] {
		x[i] = float32(math.Sin(float64(i*i+7*at))) * float32(1+i%97/32)
	}
	if err := s.Run(context.Background(), tensor.Bind{T: rows, S: 1, R: 1}); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(s.F32(l.out)[:rows*l.out.Shape.RowLen()])
}

// TestRowCodes: steps that round one row for a product give the bits that they give if
// the product rounds it, whatever the number of workers, and several rows stay in f32.
func TestRowCodes(t *testing.T) {
	made := &sync.Map{}
	for _, tier := range isa.Available() {
		for i, d := range codes.Types() {
			e := codes.Types()[(i+1)%len(codes.Types())]
			t.Run(fmt.Sprintf("%v %v", tier, d), func(t *testing.T) {
				defer isa.Use(tier)()
				if !gemm.CanCodes(panelsOf(plan.Matrix{DType: d, N: 96, K: 256})) {
					t.Skip("no kernels for codes")
				}
				want := inF32(t, made, d, e)
				for _, workers := range []int{1, 2, 5, 16} {
					l := newCodedLayer(t, made, d, e, Options{Workers: workers, Test: workers == 5})
					if tier >= isa.VNNI && !l.packs(d) {
						t.Fatal("weights are not packed as codes")
					}
					for _, v := range []*graph.Value{l.heads, l.glu} {
						for b, p := range l.prog.Plans {
							format := p.Forms[v.ID][0].Format
							expected := b == 0 && l.packs(d)
							if coded := format != nil && format == rowCodes[codePanels[d]]; coded != expected {
								t.Errorf("up to %d rows: %s lies as %v, expected codes: %v", p.Max.T, v, format, expected)
							}
						}
					}
					for i, got := range l.all(t) {
						if !slices.EqualFunc(got, want[i], func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
							t.Errorf("%d workers: run %d of %d rows has other bits than with a row in f32", workers, i, len(got)/l.out.Shape.RowLen())
						}
					}
					if n := testing.AllocsPerRun(5, func() { l.session.Run(context.Background(), tensor.Bind{T: 1, S: 1, R: 1}) }); n != 0 && workers == 1 {
						t.Errorf("%v allocations per run of one row", n)
					}
				}
			})
		}
	}
}

// inF32 is what the layer computes without formats for one row.
func inF32(t *testing.T, made *sync.Map, d, e tensor.DType) [][]float32 {
	defer func(f map[*plan.Format]*plan.Format) { rowCodes = f }(rowCodes)
	rowCodes = nil
	l := newCodedLayer(t, made, d, e, Options{Workers: 1})
	if l.prog.Plans[0].Forms[l.glu.ID][0].Format != nil {
		t.Fatal("the row is not in f32")
	}
	return l.all(t)
}

// packs reports whether weights of type d are in panels of codes.
func (l *codedLayer) packs(d tensor.DType) bool {
	for _, n := range l.prog.Graph.Nodes {
		if n.Name == "reader down" {
			return l.prog.Packing(n.In[1]) == codePanels[d]
		}
	}
	return false
}

// all are runs of one row and of several, with few keys and with more than a tile.
func (l *codedLayer) all(t *testing.T) (out [][]float32) {
	for _, at := range []int{0, 590} {
		for _, rows := range []int{9, 1, 2, 1, 3, 1} {
			out = append(out, l.run(t, at, rows))
			at += rows
		}
	}
	return out
}

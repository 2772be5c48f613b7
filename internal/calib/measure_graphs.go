package calib

import (
	"fmt"
	"math/rand/v2"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// block is the graph of some encoder layers over rows.
func block(rows, layers int, d tensor.DType) *graph.Graph {
	b := graph.NewBuilder(tensor.Bind{T: rows, S: (rows + text - 1) / text, R: 1})
	b.WeightType = func(key string) (tensor.DType, error) { return random{d}.typeOf(key), nil }
	x := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), dim))
	starts := b.Input("starts", tensor.I32, tensor.Rows(tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1}))
	for i := range layers {
		done := b.LayerScope(i)
		project := func(name string, role graph.Role, x *graph.Value, n, k int) *graph.Value {
			return b.Linear(name, x, b.Weight(fmt.Sprintf("%s.%d", name, i), role, tensor.Static(n, k)), nil)
		}
		norm := func(name string, x, y *graph.Value) *graph.Value {
			w := b.Weight(fmt.Sprintf("norm.%s.%d", name, i), graph.RoleNorm, tensor.Static(dim))
			return b.RMSNorm(name, b.Add(name+"_add", x, y), w, 1e-6, 0)
		}
		q, k, v := project("q", graph.RoleQ, x, dim, dim), project("k", graph.RoleK, x, dim, dim), project("v", graph.RoleV, x, dim, dim)
		a, _ := b.Attention("attention", q, k, v, starts, graph.AttentionAttr{Heads: heads, KVHeads: heads, HeadDim: dim / heads})
		x = norm("attn_norm", x, project("o", graph.RoleO, a, dim, dim))
		h := b.Act("act", project("up", graph.RoleUp, x, ffn, dim), graph.GELU)
		x = norm("ffn_norm", x, project("down", graph.RoleDown, h, dim, ffn))
		done()
	}
	return freeze(b, x)
}

// barriers is the graph of a chain of small steps that all workers share.
func barriers(workers int) *graph.Graph {
	const cols = 8192 // a worker is worth as much
	b := graph.NewBuilder(tensor.Bind{T: 2 * workers, S: 1, R: 1})
	x := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), cols))
	for range chain {
		x = b.Scale("scale", x, 1.0001)
	}
	return freeze(b, x)
}

// freeze cannot fail: the graphs are the same on every machine.
func freeze(b *graph.Builder, out *graph.Value) *graph.Graph {
	g, err := b.Freeze(out)
	if err != nil {
		panic(err)
	}
	return g
}

// random is the source of the blocks' weights.
type random struct{ dtype tensor.DType }

func blockWeights(be plan.Backend, d tensor.DType) *plan.WeightSet {
	return plan.NewWeightSet(be, random{d})
}

// someValues is the number of different values; weights repeat them.
const someValues = 8191

// typeOf is the storage type of a weight: matrices have the set's, vectors f32.
func (s random) typeOf(key string) tensor.DType {
	if key[0] == 'n' {
		return tensor.F32
	}
	return s.dtype
}

func (s random) Weight(key string) (weights.Tensor, error) {
	rows, cols := dim, dim
	switch key[0] {
	case 'u':
		rows = ffn
	case 'd':
		cols = ffn
	case 'n':
		rows = 1
	}
	r := rand.New(rand.NewPCG(3, uint64(key[0])))
	f := make([]float32, rows*cols)
	for i := range f {
		if i < someValues {
			f[i] = (r.Float32() - 0.5) / 8
		} else {
			f[i] = f[i-someValues]
		}
	}
	d := s.typeOf(key)
	data := make([]byte, rows*d.RowBytes(cols))
	err := tensor.Quantize(data, d, f)
	return weights.Tensor{Name: key, DType: d, Dims: []int{rows, cols}, Data: data}, err
}

func (random) Drop(weights.Tensor) {}

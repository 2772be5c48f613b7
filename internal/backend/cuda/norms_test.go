package cuda

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// The norm between two large products of few rows has no kernel of its own, unless others
// read what lies between them.
func TestNormsAreFolded(t *testing.T) {
	const heads, kv, head = 32, 8, 64
	type layer struct {
		rows, dim, ffn int
		d              tensor.DType
		gated, layer   bool
		read           string // what an output of the graph reads
	}
	usual := layer{rows: 8, dim: 2048, ffn: 4096, d: tensor.BF16, gated: true}
	with := func(change func(l *layer)) layer {
		l := usual
		change(&l)
		return l
	}
	data := make([]byte, 4*2048*8192)
	tall := []string{"k_tall_8", "k_tall_8", "k_tall_8", "k_norm"}
	apart := []string{"k_tall_8", "k_norm", "k_tall_8", "k_tall_8", "k_norm"}
	for _, c := range []struct {
		name  string
		layer layer
		want  []string // behind attention
	}{
		{"usual", usual, tall},
		{"two rows", with(func(l *layer) { l.rows = 2 }), tall},
		{"one row", with(func(l *layer) { l.rows = 1 }), []string{"k_stream", "k_stream", "k_stream", "k_norm"}},
		{"nine rows", with(func(l *layer) { l.rows = 9 }), []string{"k_wide", "k_norm", "k_tall_16", "k_tall_16", "k_norm"}},
		{"f32 in the file", with(func(l *layer) { l.d = tensor.F32 }), tall},
		{"codes", with(func(l *layer) { l.d = tensor.Q8_0 }), []string{"k_few16_q8_0", "k_norm", "k_few16_glu_q8_0", "k_few16_q8_0", "k_norm"}},
		{"no gate", with(func(l *layer) { l.gated = false }), tall},
		{"layer norms", with(func(l *layer) { l.layer = true }), apart},
		{"narrow", with(func(l *layer) { l.dim = 1024 }), []string{"k_wide", "k_norm", "k_wide", "k_wide", "k_norm"}},
		{"a product is read", with(func(l *layer) { l.read = "o" }), apart},
		{"a norm is read", with(func(l *layer) { l.read = "norm" }), []string{"k_tall_8", "k_norm", "k_round", "k_tall_8", "k_tall_8", "k_norm"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := c.layer
			f := newFake()
			be, err := newBackend(Options{}, f)
			if err != nil {
				t.Fatal(err)
			}
			source := zeros{}
			b := graph.NewBuilder(tensor.Bind{T: l.rows, S: l.rows, R: 1})
			b.WeightType = func(name string) (tensor.DType, error) { return source[name].DType, nil }
			weight := func(name string, shape ...int) *graph.Value {
				d, rows := tensor.F32, 1
				if len(shape) > 1 {
					d, rows = l.d, shape[0]
				}
				source[name] = weights.Tensor{DType: d, Data: data[:rows*d.RowBytes(shape[len(shape)-1])]}
				return b.Weight(name, graph.RoleOther, tensor.Static(shape...))
			}
			norm := func(name string, x *graph.Value) *graph.Value {
				if l.layer {
					return b.LayerNorm(name, x, weight(name, l.dim), weight(name+"_bias", l.dim), 1e-5)
				}
				return b.RMSNorm(name, x, weight(name, l.dim), 1e-6, 0)
			}
			rows, seqs := tensor.Of(tensor.T, 1), tensor.Of(tensor.S, 1)
			ints := func(name string, s tensor.Shape) *graph.Value { return b.Input(name, tensor.I32, s) }
			q, x := b.Input("q", tensor.F32, tensor.Rows(rows, heads*head)), b.Input("x", tensor.F32, tensor.Rows(rows, l.dim))
			starts, lens, table := ints("starts", tensor.Rows(tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1})), ints("lens", tensor.Rows(seqs)), ints("table", tensor.Rows(seqs, 4))
			cache := tensor.Static(64*graph.KVBlock, kv*head)
			ks, vs := b.State("k", graph.RoleKV, tensor.F16, cache), b.State("v", graph.RoleKV, tensor.F16, cache)
			a := graph.AttentionKVAttr{AttentionAttr: graph.AttentionAttr{Heads: heads, KVHeads: kv, HeadDim: head, Causal: true}}
			values := map[string]*graph.Value{}
			o := b.Linear("o_proj", b.AttentionKV("attention", q, ks, vs, starts, lens, table, a), weight("o", l.dim, heads*head), nil)
			x = b.Add("sum", x, o)
			h := norm("norm", x)
			up := b.Linear("up", h, weight("up", l.ffn, l.dim), nil)
			if l.gated {
				up = b.GLU("glu", b.Linear("gate", h, weight("gate", l.ffn, l.dim), nil), up, graph.SiLU)
			} else {
				up = b.Act("act", up, graph.GELU)
			}
			down := b.Linear("down_proj", up, weight("down", l.dim, l.ffn), nil)
			sum := b.Add("sum2", x, down)
			values["o"], values["norm"] = o, h
			outs := []*graph.Value{norm("norm2", sum), sum}
			if v := values[l.read]; v != nil {
				outs = append(outs, v)
			}
			g, err := b.Freeze(outs...)
			if err != nil {
				t.Fatal(err)
			}
			s := open(t, be, g, source)
			var got []string
			for _, l := range f.lists[1][2:] { // behind inputs and attention
				if l.kernel != "k_transfer" {
					got = append(got, l.kernel)
				}
			}
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("kernels %v, expected %v", got, c.want)
			}
			if err := errors.Join(s.Close(), be.Close()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

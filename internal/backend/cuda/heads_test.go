package cuda

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// A layer with norms on both sides of attention, and of its heads, takes few kernels:
// heads are a part of attention, and both norms around a sum one kernel.
func TestSandwichedLayerIsFused(t *testing.T) {
	const dim, heads, head = 768, 3, 256
	sizes := sized{}
	for _, c := range []struct {
		rows int
		want []string
	}{
		{16, []string{"k_norm", "k_few16", "k_attention_heads", "k_few16", "k_norm"}},
		{4096, []string{"k_norm", "k_wg", "k_heads_256", "k_flash_256_f32", "k_wg", "k_norm"}},
	} {
		f := newFake()
		be, err := newBackend(Options{}, f)
		if err != nil {
			t.Fatal(err)
		}
		b := graph.NewBuilder(tensor.Bind{T: c.rows, S: 1, R: 1})
		weight := func(name string, shape ...int) *graph.Value {
			sizes[name] = shape[0]
			for _, n := range shape[1:] {
				sizes[name] *= n
			}
			return b.Weight(name, graph.RoleOther, tensor.Static(shape...))
		}
		norm := func(name string, x *graph.Value, width int) *graph.Value {
			return b.RMSNorm(name, x, weight(name, width), 1e-6, 1)
		}
		rows := tensor.Of(tensor.T, 1)
		x, pos := b.Input("x", tensor.F32, tensor.Rows(rows, dim)), b.Input("pos", tensor.I32, tensor.Rows(rows))
		starts := b.Input("starts", tensor.I32, tensor.Rows(tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1}))
		h := norm("attn_norm", x, dim)
		turned := func(name string, heads int) *graph.Value {
			p := b.Linear(name+"_proj", h, weight(name, heads*head, dim), nil)
			return b.Rope(name+"_rope", norm(name+"_norm", p, head), pos, nil, graph.RopeAttr{HeadDim: head, Base: 1e4})
		}
		q, k := turned("q", heads), turned("k", 1)
		v := b.Linear("v_proj", h, weight("v", head, dim), nil)
		out, _ := b.Attention("attention", q, k, v, starts, graph.AttentionAttr{Heads: heads, KVHeads: 1, HeadDim: head, Window: 257})
		o := norm("post_norm", b.Linear("o_proj", out, weight("o", dim, heads*head), nil), dim)
		g, err := b.Freeze(norm("ffn_norm", b.Add("sum", x, o), dim))
		if err != nil {
			t.Fatal(err)
		}
		prog, err := plan.Compile("test", g, be, plan.Buckets(be, g.Max), plan.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := plan.NewSession(context.Background(), prog, plan.NewWeightSet(be, sizes), plan.BindOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got [][]string
		for _, list := range f.lists {
			var kernels []string
			for _, l := range list {
				if l.kernel != "k_transfer" {
					kernels = append(kernels, l.kernel)
				}
			}
			got = append(got, kernels)
		}
		if !slices.ContainsFunc(got, func(l []string) bool { return slices.EqualFunc(l, c.want, strings.HasPrefix) }) {
			t.Errorf("%d rows: %v, expected %v", c.rows, got, c.want)
		}
		if err := errors.Join(s.Close(), be.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

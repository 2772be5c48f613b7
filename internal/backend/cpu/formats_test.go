package cpu

import (
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/graph/grad"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/isa"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// TestNormsInBF16: what a norm makes for products in bf16 lies in bf16, in both
// formats where others read it too, and in f32 alone where nobody wants it
// otherwise or where few rows multiply with the file's rows.
func TestNormsInBF16(t *testing.T) {
	if isa.Active() < isa.AMX {
		t.Skip("this machine has no tiles")
	}
	const f32, half, both = "plain", "bf16", "plain+bf16"
	const inner = "" // a product of few rows takes the norm in
	for _, c := range []struct {
		precision Precision
		dtype     tensor.DType
		width     int
		rows      int       // of the bucket that is looked at, at most
		want      [4]string // of a norm, of one that a sum reads too, of one of a sum and of the last
	}{
		{Auto, tensor.F32, 64, 100, [4]string{half, both, half, f32}},
		{Auto, tensor.F32, 64, bf16.FewRows, [4]string{inner, both, inner, f32}},
		{Auto, tensor.Q8_0, 64, 100, [4]string{half, both, half, f32}},
		{Auto, tensor.Q8_0, 64, bf16.FewRows, [4]string{inner, f32, inner, f32}},
		{F32, tensor.F32, 64, 100, [4]string{f32, f32, f32, f32}},
		{Auto, tensor.F32, 48, 100, [4]string{f32, f32, f32, f32}},
	} {
		b := graph.NewBuilder(tensor.Bind{T: 100, S: 1, R: 1})
		b.WeightType = func(string) (tensor.DType, error) { return c.dtype, nil }
		rows := func(n int) tensor.Shape { return tensor.Rows(tensor.Of(tensor.T, 1), n) }
		norm := func(name string, x *graph.Value) *graph.Value {
			return b.RMSNorm(name, x, b.Input(name+".w", tensor.F32, tensor.Static(c.width)), 1e-5, 0)
		}
		linear := func(name string, x *graph.Value, n int) *graph.Value {
			return b.Linear(name, x, b.Weight(name+".w", graph.RoleUp, tensor.Static(n, c.width)), nil)
		}
		x := b.Input("x", tensor.F32, rows(c.width))
		first := norm("first", x)
		second := norm("second", b.Add("sum", x, linear("q", first, c.width)))
		third := norm("third", b.Add("residual", second, linear("up", second, c.width)))
		last := norm("last", b.Add("end", x, linear("down", third, c.width)))
		g, err := b.Freeze(b.Scale("out", last, 2))
		if err != nil {
			t.Fatal(err)
		}
		be, err := New(Options{Workers: 1, Precision: c.precision})
		if err != nil {
			t.Fatal(err)
		}
		defer be.Close()
		prog, err := plan.Compile("test", g, be, plan.Buckets(be, g.Max), plan.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range prog.Plans {
			if p.Max.T != c.rows {
				continue
			}
			for i, v := range []*graph.Value{first, second, third, last} {
				got := ""
				for k, f := range p.Forms[v.ID] {
					if k > 0 {
						got += "+"
					}
					got += f.Format.String()
				}
				if got != c.want[i] {
					t.Errorf("%s, %v, %d values a row, up to %d rows: %s lies as %s, expected %s", c.precision, c.dtype, c.width, c.rows, v, got, c.want[i])
				}
			}
		}
	}
}

// TestTrainingInBF16: what training keeps for products in bf16, forward and of
// gradients, lies in bf16 alone; the residual stream, and what gradients of
// activations and attention read, stay in f32. In f32 nothing changes.
func TestTrainingInBF16(t *testing.T) {
	if isa.Active() < isa.AMX {
		t.Skip("this machine has no tiles")
	}
	const dim, ffn, vocab = 64, 128, 96
	for precision, half := range map[Precision]string{F32: "plain", BF16: "bf16"} {
		b := graph.NewBuilder(tensor.Bind{T: 100, S: 4, R: 100})
		b.Trainable = func(graph.Role, int) bool { return true }
		rows := tensor.Rows(tensor.Of(tensor.T, 1))
		linear := func(name string, x *graph.Value, n, k int) *graph.Value {
			return b.Linear(name, x, b.Weight(name+".w", graph.RoleUp, tensor.Static(n, k)), nil)
		}
		norm := func(name string, x *graph.Value) *graph.Value {
			return b.RMSNorm(name, x, b.Weight(name+".w", graph.RoleNorm, tensor.Static(dim)), 1e-5, 0)
		}
		ids, targets := b.Input("ids", tensor.I32, rows), b.Input("targets", tensor.I32, rows)
		starts := b.Input("starts", tensor.I32, tensor.Rows(tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1}))
		hyper := b.Input("hyper", tensor.F32, tensor.Static(graph.HyperLen))
		x := b.Embed("embed", b.Weight("table", graph.RoleEmbedding, tensor.Static(vocab, dim)), ids, 1)
		first := norm("first", x)
		q, k, v := linear("q", first, dim, dim), linear("k", first, dim, dim), linear("v", first, dim, dim)
		attention, _ := b.Attention("attention", q, k, v, starts, graph.AttentionAttr{Heads: 2, KVHeads: 2, HeadDim: dim / 2, Scale: 1, Causal: true})
		x = b.Add("middle", x, linear("o", attention, dim, dim))
		second := norm("second", x)
		gate := linear("gate", second, ffn, dim)
		glu := b.GLU("glu", gate, linear("up", second, ffn, dim), graph.SiLU)
		x = b.Add("residual", x, linear("down", glu, dim, ffn))
		before := linear("before", x, ffn, dim)
		act := b.Act("act", before, graph.GELU)
		nll, _ := b.CrossEntropy("nll", linear("head", act, vocab, ffn), targets)
		loss := b.Mean("loss", nll, targets)
		pairs, err := grad.Backward(b, loss)
		if err != nil {
			t.Fatal(err)
		}
		_, size := grad.Optimizer{}.Add(b, pairs, hyper)
		g, err := b.Freeze(loss, size)
		if err != nil {
			t.Fatal(err)
		}
		be, err := New(Options{Workers: 1, Precision: precision})
		if err != nil {
			t.Fatal(err)
		}
		defer be.Close()
		prog, err := plan.Compile("test", g, be, []tensor.Bind{g.Max}, plan.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for v, want := range map[*graph.Value]string{first: half, second: half, attention: half, glu: half, act: half, x: "plain", gate: "plain", before: "plain", q: "plain"} {
			if fs := prog.Plans[0].Forms[v.ID]; len(fs) != 1 || fs[0].Format.String() != want {
				t.Errorf("%s: %s lies as %v, expected %s alone", precision, v, fs, want)
			}
		}
	}
}

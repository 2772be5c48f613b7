package graph_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/graph/grad"
	"hotpath/internal/tensor"
)

// goldTensor is a tensor in testdata, written by scripts/goldens_ops.py.
type goldTensor struct {
	Shape []int
	F32   []float32
	I32   []int32
}

func (g *goldTensor) leaf(b *graph.Builder, e *eval, name string) *graph.Value {
	if g.I32 != nil {
		v := b.Input(name, tensor.I32, tensor.Static(g.Shape...))
		e.setI32(v, g.I32)
		return v
	}
	v := b.Weight(name, graph.RoleOther, tensor.Static(g.Shape...))
	e.setF32(v, g.F32)
	return v
}

func readGolden(t *testing.T, name string, dst any) {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, dst); err != nil {
		t.Fatal(err)
	}
}

// parseAttr makes the op's own attribute struct of a golden's JSON.
func parseAttr[A any](t *testing.T, raw []byte) any {
	t.Helper()
	var a A
	if err := json.Unmarshal(raw, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// parseAct finds an activation by its name.
func parseAct(t *testing.T, raw []byte) any {
	t.Helper()
	var a struct{ Kind string }
	if err := json.Unmarshal(raw, &a); err != nil {
		t.Fatal(err)
	}
	kind, err := graph.ParseActivation(a.Kind)
	if err != nil {
		t.Fatal(err)
	}
	return graph.ActAttr{Kind: kind}
}

var goldenAttrs = map[string]func(t *testing.T, raw []byte) any{
	"embed":     parseAttr[graph.EmbedAttr],
	"norm":      parseAttr[graph.NormAttr],
	"rope":      parseAttr[graph.RopeAttr],
	"attention": parseAttr[graph.AttentionAttr],
	"act":       parseAct,
	"glu":       parseAct,
	"pool":      parseAttr[graph.PoolAttr],
	"dropout":   parseAttr[graph.DropoutAttr],
}

func opByName(t *testing.T, name string) *graph.OpDef {
	t.Helper()
	for _, op := range graph.Ops() {
		if op.Name == name {
			return op
		}
	}
	t.Fatalf("no op %q", name)
	return nil
}

// TestGoldenOps holds references and gradient rules against torch.
func TestGoldenOps(t *testing.T) {
	var cases []struct {
		Name, Op string
		Attr     json.RawMessage
		Inputs   []*goldTensor
		Outputs  []*goldTensor
		DOut     *goldTensor
		Grads    []*goldTensor
	}
	readGolden(t, "ops.json", &cases)
	activations := map[string]bool{}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			b := graph.NewBuilder(tensor.Bind{T: 1, S: 1, R: 1})
			b.Trainable = func(graph.Role, int) bool { return true }
			e := newEval(t, b.Max())
			var in []*graph.Value
			for i, x := range c.Inputs {
				if x == nil {
					in = append(in, nil)
					continue
				}
				in = append(in, x.leaf(b, e, string(rune('a'+i))))
			}
			var attr any
			if parse := goldenAttrs[c.Op]; parse != nil {
				attr = parse(t, c.Attr)
			}
			if a, ok := attr.(graph.ActAttr); ok {
				activations[c.Op+" "+a.Kind.String()] = true
			}
			n := b.Apply(opByName(t, c.Op), "op", attr, in...)
			dOut := make([]*graph.Value, len(n.Out))
			dOut[0] = c.DOut.leaf(b, e, "dout")
			grads := n.Op.Grad(b, n, dOut)
			if err := b.Err(); err != nil {
				t.Fatal(err)
			}
			e.run(b.Nodes(), append(append([]*graph.Value{}, n.Out...), grads...)...)
			for i, want := range c.Outputs {
				near(t, "output", e.f32(n.Out[i]), want.F32, 2e-6)
			}
			for i, want := range c.Grads {
				if want != nil && grads[i] != nil {
					near(t, "gradient "+string(rune('a'+i)), e.f32(grads[i]), want.F32, 1e-5)
				} else if want != nil {
					t.Errorf("no gradient of operand %d", i)
				}
			}
		})
	}
	for _, name := range graph.ActivationNames() {
		if !activations["act "+name] || !activations["glu "+name] {
			t.Errorf("activation %s has no golden", name)
		}
	}
}

// tiny is a small transformer in testdata and what torch makes of it.
type tiny struct {
	IDs, Labels, Pos, Starts              []int32
	LR, Beta1, Beta2, Eps, Decay, Clip    float64
	Params, Grads, Final                  map[string]*goldTensor
	Losses, Norms                         []float32
	ids, labels, pos, starts, hyper, loss *graph.Value
}

// build describes the model as the script does.
func (m *tiny) build(b *graph.Builder) {
	w := func(name string) *graph.Value {
		return b.Weight(name, graph.RoleOther, tensor.Static(m.Params[name].Shape...))
	}
	rows := tensor.Rows(tensor.Of(tensor.T, 1))
	m.ids, m.pos = b.Input("ids", tensor.I32, rows), b.Input("pos", tensor.I32, rows)
	m.labels = b.Input("labels", tensor.I32, rows)
	m.starts = b.Input("q_start", tensor.I32, tensor.Rows(tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1}))
	m.hyper = b.Input("hyper", tensor.F32, tensor.Static(graph.HyperLen))

	const heads, kv, hd = 4, 2, 4
	rope := graph.RopeAttr{HeadDim: hd, Base: 10000}
	x := b.Embed("embed", w("embed"), m.ids, 1.5)
	end := b.LayerScope(0)
	h := b.RMSNorm("norm1", x, w("norm1"), 1e-5, 0)
	q := b.Rope("q_rope", b.Linear("q_proj", h, w("q"), nil), m.pos, nil, rope)
	k := b.Rope("k_rope", b.Linear("k_proj", h, w("k"), nil), m.pos, nil, rope)
	v := b.Linear("v_proj", h, w("v"), nil)
	a, _ := b.Attention("attn", q, k, v, m.starts, graph.AttentionAttr{Heads: heads, KVHeads: kv, HeadDim: hd, Causal: true})
	x = b.Add("res1", x, b.Linear("o_proj", a, w("o"), w("o.bias")))
	h = b.RMSNorm("norm2", x, w("norm2"), 1e-5, 0)
	h = b.GLU("glu", b.Linear("gate", h, w("gate"), nil), b.Linear("up", h, w("up"), nil), graph.SiLU)
	x = b.Add("res2", x, b.Linear("down", h, w("down"), nil))
	end()
	h = b.LayerNorm("norm3", x, w("norm3"), w("norm3.bias"), 1e-5)
	nll, _ := b.CrossEntropy("ce", b.Linear("head", h, w("embed"), nil), m.labels)
	m.loss = b.Mean("loss", nll, m.labels)
}

// TestTinyTraining compares all gradients and three clipped AdamW steps of a
// whole model with torch: Backward's sums, tied weights and ragged batches.
func TestTinyTraining(t *testing.T) {
	var m tiny
	readGolden(t, "tiny.json", &m)
	b := graph.NewBuilder(tensor.Bind{T: len(m.IDs), S: 2})
	b.Trainable = func(graph.Role, int) bool { return true }
	m.build(b)
	pairs, err := grad.Backward(b, m.loss)
	if err != nil {
		t.Fatal(err)
	}
	if len(pairs) != len(m.Params) {
		t.Fatalf("%d gradients, want %d", len(pairs), len(m.Params))
	}
	updates, norm := grad.Optimizer{}.Add(b, pairs, m.hyper)
	if err := b.Err(); err != nil {
		t.Fatal(err)
	}
	e := newEval(t, b.Max())
	e.setI32(m.ids, m.IDs)
	e.setI32(m.labels, m.Labels)
	e.setI32(m.pos, m.Pos)
	e.setI32(m.starts, m.Starts)
	for _, p := range pairs {
		e.setF32(p.Param, m.Params[p.Param.Node.Leaf.Key].F32)
	}
	h := grad.Hyper{LR: m.LR, Beta1: m.Beta1, Beta2: m.Beta2, Eps: m.Eps, Decay: m.Decay, Clip: m.Clip}
	hyper := make([]float32, graph.HyperLen)
	largest := make([][]float32, len(pairs)) // [pair][element], of the gradients of all steps
	for i, p := range pairs {
		largest[i] = make([]float32, p.Param.Shape.Len(b.Max()))
	}
	for step := range m.Losses {
		if err := h.Put(hyper, step+1); err != nil {
			t.Fatal(err)
		}
		e.setF32(m.hyper, hyper)
		e.run(b.Nodes(), m.loss)
		for i, p := range pairs {
			for k, g := range e.f32(p.Grad) {
				largest[i][k] = max(largest[i][k], float32(math.Abs(float64(g))))
			}
		}
		near(t, "loss", e.f32(m.loss), m.Losses[step:step+1], 1e-5)
		near(t, "norm", e.f32(norm), m.Norms[step:step+1], 1e-5)
		if step == 0 {
			for _, p := range pairs {
				near(t, "gradient of "+p.Param.Node.Name, e.f32(p.Grad), m.Grads[p.Param.Node.Leaf.Key].F32, 1e-5)
			}
		}
	}
	for i, p := range pairs {
		key := p.Param.Node.Leaf.Key
		got, want := slices.Clone(e.f32(updates[i].New)), m.Final[key].F32
		exempt := noisy(largest[i])
		if 20*len(exempt) > len(got) {
			t.Errorf("%s: %d of %d elements are exempt", key, len(exempt), len(got))
		}
		for _, k := range exempt {
			got[k] = want[k]
		}
		near(t, "final "+key, got, want, 1e-4)
	}
}

// noisy lists the elements that the comparison of final parameters leaves out:
// those whose gradients were never as large as a thousandth of the root mean
// square over their parameter. AdamW divides a gradient by its own size and
// makes a full step of what is mostly rounding there. An element whose gradient
// is exactly zero does not move, and stays in.
func noisy(largest []float32) []int {
	var square float64
	for _, g := range largest {
		square += float64(g) * float64(g)
	}
	least := 1e-3 * math.Sqrt(square/float64(len(largest)))
	var out []int
	for i, g := range largest {
		if g > 0 && float64(g) < least {
			out = append(out, i)
		}
	}
	return out
}

func TestNoisy(t *testing.T) {
	if got := noisy([]float32{2, 1e-4, 0, 0.01, 1, 3e-3}); !slices.Equal(got, []int{1}) {
		t.Errorf("exempt are %v, expected element 1", got)
	}
}

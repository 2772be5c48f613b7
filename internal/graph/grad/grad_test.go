package grad_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/graph/grad"
	"hotpath/internal/tensor"
)

// builder trains the roles it is given.
func builder(roles ...graph.Role) *graph.Builder {
	b := graph.NewBuilder(tensor.Bind{T: 8, S: 2, R: 8})
	b.Trainable = func(r graph.Role, _ int) bool { return slices.Contains(roles, r) }
	return b
}

var tokens = tensor.Of(tensor.T, 1)

// twoLayers is embed -> linear q -> relu -> linear o (same input twice) -> loss.
func twoLayers(b *graph.Builder) *graph.Value {
	ids := b.Input("ids", tensor.I32, tensor.Rows(tokens))
	targets := b.Input("targets", tensor.I32, tensor.Rows(tokens))
	x := b.Embed("embed", b.Weight("embed", graph.RoleEmbedding, tensor.Static(9, 4)), ids, 1)
	end := b.LayerScope(0)
	h := b.Act("act", b.Linear("q_proj", x, b.Weight("q", graph.RoleQ, tensor.Static(4, 4)), nil), graph.ReLU)
	end()
	end = b.LayerScope(1)
	y := b.Linear("o_proj", h, b.Weight("o", graph.RoleO, tensor.Static(4, 4)), nil)
	y = b.Add("res", y, h)
	end()
	nll, _ := b.CrossEntropy("ce", b.Linear("head", y, b.Weight("embed", graph.RoleEmbedding, tensor.Static(9, 4)), nil), targets)
	return b.Mean("loss", nll, targets)
}

// added lists the ops of the nodes from index start on.
func added(b *graph.Builder, start int) map[string]int {
	ops := map[string]int{}
	for _, n := range b.Nodes()[start:] {
		ops[n.Op.Name]++
	}
	return ops
}

func TestFrozenPartsCostNothing(t *testing.T) {
	for _, c := range []struct {
		roles []graph.Role
		keys  []string
		ops   map[string]int
	}{
		{[]graph.Role{graph.RoleO}, []string{"o"},
			map[string]int{"fill": 1, "mean_grad": 1, "cross_entropy_grad": 1, "linear_dx": 1, "linear_dw": 1}},
		{[]graph.Role{graph.RoleQ}, []string{"q"},
			map[string]int{"fill": 1, "mean_grad": 1, "cross_entropy_grad": 1, "linear_dx": 2, "add": 1, "act_grad": 1, "linear_dw": 1}},
		{[]graph.Role{graph.RoleQ, graph.RoleO, graph.RoleEmbedding}, []string{"embed", "q", "o"},
			map[string]int{"fill": 1, "mean_grad": 1, "cross_entropy_grad": 1, "linear_dx": 3, "add": 2, "act_grad": 1, "linear_dw": 3, "embed_grad": 1}},
	} {
		b := builder(c.roles...)
		loss := twoLayers(b)
		start := len(b.Nodes())
		pairs, err := grad.Backward(b, loss)
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, p := range pairs {
			keys = append(keys, p.Param.Node.Leaf.Key)
			if p.Grad.Shape != p.Param.Shape {
				t.Errorf("gradient of %s is %s", p.Param, p.Grad.Shape)
			}
		}
		if !slices.Equal(keys, c.keys) {
			t.Errorf("trained %v, want %v", keys, c.keys)
		}
		got := added(b, start)
		for _, op := range graph.Ops() {
			if got[op.Name] != c.ops[op.Name] {
				t.Errorf("training %v adds %d of %s, want %d", c.keys, got[op.Name], op.Name, c.ops[op.Name])
			}
		}
	}
}

func TestNamesAndLayers(t *testing.T) {
	b := builder(graph.RoleQ)
	loss := twoLayers(b)
	start := len(b.Nodes())
	if _, err := grad.Backward(b, loss); err != nil {
		t.Fatal(err)
	}
	layers := map[string]int{}
	for _, n := range b.Nodes()[start:] {
		layers[n.Name] = n.Layer
	}
	for name, layer := range map[string]int{
		"grad/loss/one": -1, "grad/ce/dlogits": -1, "grad/blk.1/o_proj/dx": 1, "grad/blk.0/act/sum": 0, "grad/blk.0/q_proj/dw": 0,
	} {
		if got, ok := layers[name]; !ok || got != layer {
			t.Errorf("%s has layer %d (%v), want %d; there are %v", name, got, ok, layer, layers)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name, want string
		build      func(b *graph.Builder) *graph.Value
	}{
		{"no rule", "blk.0/write: op kv_write has no gradient: the KV cache is not differentiated", func(b *graph.Builder) *graph.Value {
			defer b.LayerScope(0)()
			k := b.State("k", graph.RoleKV, tensor.F32, tensor.Static(64, 4))
			v := b.State("v", graph.RoleKV, tensor.F32, tensor.Static(64, 4))
			rows := b.Input("slots", tensor.I32, tensor.Rows(tokens))
			x := b.Weight("x", graph.RoleQ, tensor.Rows(tokens, 4))
			k, _ = b.KVWrite("write", k, v, x, x, rows)
			nll, _ := b.CrossEntropy("ce", k, b.Input("t", tensor.I32, tensor.Static(64)))
			return b.Mean("loss", nll, nil)
		}},
		{"log-sum-exp", "no gradient flows through the log-sum-exp of a cross entropy", func(b *graph.Builder) *graph.Value {
			x := b.Weight("x", graph.RoleQ, tensor.Rows(tokens, 4))
			_, lse := b.CrossEntropy("ce", x, b.Input("t", tensor.I32, tensor.Rows(tokens)))
			return b.Mean("loss", lse, nil)
		}},
		{"not one element", "expected a value of shape [1]", func(b *graph.Builder) *graph.Value {
			return b.Weight("x", graph.RoleQ, tensor.Static(4))
		}},
		{"missing", "expected a value of shape [1]", func(*graph.Builder) *graph.Value { return nil }},
		{"nothing to train", "loss depends on no trainable leaf", func(b *graph.Builder) *graph.Value {
			return b.Mean("loss", b.Input("x", tensor.F32, tensor.Rows(tokens)), nil)
		}},
		{"mistake before", "x (add): operand 0 is missing", func(b *graph.Builder) *graph.Value { return b.Add("x", nil, nil) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := builder(graph.RoleQ)
			if _, err := grad.Backward(b, c.build(b)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want it to contain %q", err, c.want)
			}
		})
	}
}

func TestAdamWNodes(t *testing.T) {
	b := builder(graph.RoleQ, graph.RoleO, graph.RoleNorm)
	loss := twoLayers(b)
	pairs, err := grad.Backward(b, loss)
	if err != nil {
		t.Fatal(err)
	}
	hyper := b.Input("hyper", tensor.F32, tensor.Static(graph.HyperLen))
	onlyO := func(p *graph.Value) bool { return p.Node.Leaf.Role == graph.RoleO }
	updates, norm := grad.Optimizer{Decay: onlyO}.Add(b, pairs, hyper)
	if _, err := b.Freeze(loss, norm); err != nil {
		t.Fatal(err)
	}
	for i, u := range updates {
		p, v := pairs[i].Param, u.New
		if v.Root() != p || !v.Node.Effect() || v.Node.Layer != p.Node.Layer {
			t.Errorf("%v is no new version of %v in its layer", v, p)
		}
		if u.M != v.Node.In[1] || u.V != v.Node.In[2] || u.Square.Node.In[0] != pairs[i].Grad {
			t.Errorf("the update of %v names other moments or another gradient", p)
		}
		for _, m := range v.Node.In[1:3] {
			if leaf := m.Node.Leaf; leaf == nil || leaf.Kind != graph.StateLeaf || leaf.Role != graph.RoleMoment {
				t.Errorf("moment %v of %v is no state of its role", m, p)
			}
		}
		if got := v.Node.Attr.(graph.AdamWAttr).Decay; got != onlyO(p) {
			t.Errorf("decay of %v is %v", p, got)
		}
	}
}

func TestHyperPut(t *testing.T) {
	h := grad.Hyper{LR: 0.5, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, Decay: 0.1, Clip: 2}
	got := make([]float32, graph.HyperLen)
	if err := h.Put(got, 2); err != nil {
		t.Fatal(err)
	}
	want := []float32{0.5, 0.9, 0.99, 1e-8, 0.1, 0.19, 0.0199, 2, math.MaxFloat32}
	if !slices.Equal(got, want) {
		t.Errorf("hyper-parameters are %v, want %v", got, want)
	}
	h.Limit = 7
	if err := h.Put(got, 2); err != nil || got[graph.HyperLimit] != 7 {
		t.Errorf("limit %v, %v, want 7", got[graph.HyperLimit], err)
	}
	if h.Put(got[:3], 1) == nil || h.Put(got, 0) == nil {
		t.Error("a short slice and step 0 must fail")
	}
}

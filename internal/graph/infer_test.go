package graph_test

import (
	"strings"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// TestShapeErrors: each wrong description gives one error that names the node,
// the op and what was expected.
func TestShapeErrors(t *testing.T) {
	attn := graph.AttentionAttr{Heads: 4, KVHeads: 2, HeadDim: 3}
	cases := []struct {
		name, want string
		build      func(b *bench)
	}{
		{"missing operand", "y (add): operand 1 is missing", func(b *bench) { b.Add("y", b.param(dimT, 3), nil) }},
		{"wrong type", "operand 1 has type I32, expected F32", func(b *bench) { b.Add("y", b.param(dimT), b.ints(dimT, 0, 1, 2, 3, 4, 5, 6)) }},
		{"add", "operand 1 is [T,4], expected [T,3]", func(b *bench) { b.Add("y", b.param(dimT, 3), b.param(dimT, 4)) }},
		{"mul", "operand 1 is [R,3], expected [T,3]", func(b *bench) { b.Mul("y", b.param(dimT, 3), b.param(dimR, 3)) }},
		{"linear", "x is [T,3] but w is [5,4]", func(b *bench) { b.Linear("y", b.param(dimT, 3), b.param(fixed(5), 4), nil) }},
		{"fill", "expected positive dimensions", func(b *bench) { b.Fill("y", tensor.Shape{}, 1) }},
		{"embed table", "table is [5], expected [V,D]", func(b *bench) { b.Embed("y", b.param(fixed(5)), b.ids(), 1) }},
		{"embed ids", "operand 1 has type F32, expected I32", func(b *bench) { b.Embed("y", b.param(fixed(5), 3), b.param(dimT), 1) }},
		{"norm width", "rows are no multiple of w [4]", func(b *bench) { b.RMSNorm("y", b.param(dimT, 6), b.param(fixed(4)), 1e-5, 0) }},
		{"norm weight", "w is [2,3], expected a vector", func(b *bench) { b.RMSNorm("y", b.param(dimT, 6), b.param(fixed(2), 3), 1e-5, 0) }},
		{"norm bias", "bias is [2], expected [3]", func(b *bench) {
			b.LayerNorm("y", b.param(dimT, 6), b.param(fixed(3)), b.param(fixed(2)), 1e-5)
		}},
		{"norm eps", "eps is -1", func(b *bench) { b.LayerNorm("y", b.param(dimT, 3), b.param(fixed(3)), nil, -1) }},
		{"rope head", "no multiple of the head size 5", func(b *bench) {
			b.Rope("y", b.param(dimT, 6), b.ids(), nil, graph.RopeAttr{HeadDim: 5, Base: 10})
		}},
		{"rope odd", "3 of 3 elements rotate", func(b *bench) {
			b.Rope("y", b.param(dimT, 6), b.ids(), nil, graph.RopeAttr{HeadDim: 3, Base: 10})
		}},
		{"rope base", "base is 0", func(b *bench) { b.Rope("y", b.param(dimT, 6), b.ids(), nil, graph.RopeAttr{HeadDim: 6}) }},
		{"rope positions", "pos is [T], expected [R]", func(b *bench) {
			b.Rope("y", b.param(dimR, 6), b.ids(), nil, graph.RopeAttr{HeadDim: 6, Base: 10})
		}},
		{"rope freqs", "freqs is [2], expected [3]", func(b *bench) {
			b.Rope("y", b.param(dimT, 6), b.ids(), b.param(fixed(2)), graph.RopeAttr{HeadDim: 6, Base: 10})
		}},
		{"attention q", "q is [T,6], expected [T,12]", func(b *bench) {
			b.Attention("y", b.param(dimT, 6), b.param(dimT, 6), b.param(dimT, 6), b.starts(), attn)
		}},
		{"attention k", "the numbers of tokens differ", func(b *bench) {
			b.Attention("y", b.param(dimT, 12), b.param(dimR, 6), b.param(dimR, 6), b.starts(), attn)
		}},
		{"attention groups", "4 heads are no multiple of 3 key heads", func(b *bench) {
			a := graph.AttentionAttr{Heads: 4, KVHeads: 3, HeadDim: 3}
			b.Attention("y", b.param(dimT, 12), b.param(dimT, 9), b.param(dimT, 9), b.starts(), a)
		}},
		{"attention starts", "q_start is [S], expected [S+1]", func(b *bench) {
			b.Attention("y", b.param(dimT, 12), b.param(dimT, 6), b.param(dimT, 6), b.ints(dimS, 0, 1, 2), attn)
		}},
		{"attention heads", "expected positive numbers", func(b *bench) {
			b.Attention("y", b.param(dimT, 12), b.param(dimT, 6), b.param(dimT, 6), b.starts(), graph.AttentionAttr{})
		}},
		{"cache blocks", "whole blocks of 64 rows", func(b *bench) {
			s := b.param(fixed(70), 6)
			b.AttentionKV("y", b.param(dimT, 12), s, s, b.starts(), b.ints(dimS, 1, 1, 1), b.ints(dimS, 0, 0, 0),
				graph.AttentionKVAttr{AttentionAttr: attn})
		}},
		{"cache is no state", "would be overwritten but is not state", func(b *bench) {
			k := b.Add("k", b.param(fixed(64), 6), b.param(fixed(64), 6))
			b.KVWrite("y", k, b.param(fixed(64), 6), b.param(dimT, 6), b.param(dimT, 6), b.ids())
		}},
		{"cache written twice", "would be overwritten twice", func(b *bench) {
			s := b.param(fixed(64), 6)
			b.KVWrite("y", s, s, b.param(dimT, 6), b.param(dimT, 6), b.ids())
		}},
		{"stale version", "a version of p0 that write has overwritten", func(b *bench) {
			k, v := b.param(fixed(64), 6), b.param(fixed(64), 6)
			b.KVWrite("write", k, v, b.param(dimT, 6), b.param(dimT, 6), b.ids())
			b.Add("y", k, k)
		}},
		{"activation", "unknown activation ActKind(99)", func(b *bench) { b.Act("y", b.param(dimT), 99) }},
		{"glu", "operand 1 is [T,4], expected [T,3]", func(b *bench) { b.GLU("y", b.param(dimT, 3), b.param(dimT, 4), graph.SiLU) }},
		{"gather", "operand 1 has type F32, expected I32", func(b *bench) { b.Gather("y", b.param(dimT, 3), b.param(dimR)) }},
		{"pool", "q_start is [T], expected [S+1]", func(b *bench) { b.Pool("y", b.param(dimT, 3), b.ids(), graph.PoolCLS) }},
		{"pool kind", "unknown pooling 9", func(b *bench) { b.Pool("y", b.param(dimT, 3), b.starts(), 9) }},
		{"cross entropy", "targets is [T], expected [R]", func(b *bench) { b.CrossEntropy("y", b.param(dimR, 3), b.ids()) }},
		{"mean", "x is [R,3], expected [R]", func(b *bench) { b.Mean("y", b.param(dimR, 3), nil) }},
		{"norm of nothing", "no operands", func(b *bench) { b.GlobalNorm("y") }},
		{"norm of a vector", "operand 0 is p0 F32 [3], expected F32 [1]", func(b *bench) { b.GlobalNorm("y", b.param(fixed(3))) }},
		{"adamw", "g is [4], expected [3]", func(b *bench) {
			p := func(n int) *graph.Value { return b.param(fixed(n)) }
			b.AdamW("y", p(3), p(3), p(3), p(4), p(1), p(graph.HyperLen), graph.AdamWAttr{})
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, someBind)
			c.build(b)
			if _, err := b.Freeze(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want it to contain %q", err, c.want)
			}
		})
	}
}

func (b *bench) ids() *graph.Value    { return b.ints(dimT, 0, 1, 2, 3, 4, 0, 1) }
func (b *bench) starts() *graph.Value { return b.ints(dimS1, 0, 4, 5, 7) }

// TestVersions: a new version leads back to its leaf and its writer is an
// effect; integer results and frozen operands need no gradient.
func TestVersions(t *testing.T) {
	b := newBench(t, someBind)
	k, v := b.param(fixed(64), 6), b.param(fixed(64), 6)
	k1, _ := b.KVWrite("write", k, v, b.param(dimT, 6), b.param(dimT, 6), b.ids())
	y := b.Add("y", k1, k1)
	if k1.Root() != k || y.Root() != y || k.Overwritten != k1.Node || k1.Overwritten != nil {
		t.Errorf("root of %v is %v, overwritten by %v", k1, k1.Root(), k.Overwritten)
	}
	if !k1.Node.Effect() || y.Node.Effect() {
		t.Error("exactly the write is an effect")
	}
	in := b.Input("x", tensor.F32, tensor.Rows(dimT, 3))
	frozen := b.Scale("s", in, 2)
	mixed := b.Add("m", frozen, b.param(dimT, 3))
	if in.NeedsGrad || frozen.NeedsGrad || !mixed.NeedsGrad {
		t.Error("only what has a trainable leaf upstream needs a gradient")
	}
}

// TestParseActivation: every row is found by its name and by its aliases.
func TestParseActivation(t *testing.T) {
	for i, name := range graph.ActivationNames() {
		kind := graph.ActKind(i)
		for _, n := range append([]string{name}, kind.Def().Aliases...) {
			if got, err := graph.ParseActivation(n); err != nil || got != kind {
				t.Errorf("%s is %v (%v), want %v", n, got, err, kind)
			}
		}
	}
	if _, err := graph.ParseActivation("gelo"); err == nil || !strings.Contains(err.Error(), `"gelo"`) {
		t.Errorf("error is %v, want it to name the activation", err)
	}
}

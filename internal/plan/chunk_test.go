package plan_test

import (
	"strings"
	"testing"

	"hotpath/internal/backend/ref"
	"hotpath/internal/graph"
	"hotpath/internal/graph/grad"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// chunked has chunks of four rows. Its plans are looked at, not run.
type chunked struct{ *ref.Backend }

func (c chunked) Caps() plan.Caps {
	caps := c.Backend.Caps()
	caps.Chunk = func(int64) int { return 4 }
	return caps
}

// trainHead is a head over x[R,8] with a vocabulary of 100, and what loss makes of
// the losses of its rows.
func trainHead(t *testing.T, loss func(b *graph.Builder, nll, targets *graph.Value) *graph.Value) (*graph.Graph, *graph.Value, error) {
	t.Helper()
	b := graph.NewBuilder(tensor.Bind{T: 9, S: 2, R: 9})
	b.Trainable = func(graph.Role, int) bool { return true }
	rows := tensor.Of(tensor.R, 1)
	ids, targets := b.Input("ids", tensor.I32, tensor.Rows(rows)), b.Input("targets", tensor.I32, tensor.Rows(rows))
	hyper := b.Input("hyper", tensor.F32, tensor.Static(graph.HyperLen))
	x := b.Embed("embed", b.Weight("table", graph.RoleEmbedding, tensor.Static(20, 8)), ids, 1)
	logits := b.Linear("output", x, b.Weight("head", graph.RoleHead, tensor.Static(100, 8)), b.Weight("bias", graph.RoleBias, tensor.Static(100)))
	nll, _ := b.CrossEntropy("loss", b.Scale("scaled", logits, 0.5), targets)
	total := loss(b, nll, targets)
	pairs, err := grad.Backward(b, total)
	if err != nil {
		t.Fatal(err)
	}
	_, norm := grad.Optimizer{}.Add(b, pairs, hyper)
	g, err := b.Freeze(total, norm)
	return g, total, err
}

// TestChunks: the steps between a head and the gradients of its operands are there
// once per chunk, the gradient of the loss comes before them and the loss behind
// them. Runs that end with the loss have no gradients.
func TestChunks(t *testing.T) {
	g, loss, err := trainHead(t, func(b *graph.Builder, nll, targets *graph.Value) *graph.Value { return b.Mean("mean", nll, targets) })
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile("train", g, chunked{ref.New()}, []tensor.Bind{g.Max}, plan.CompileOptions{Forward: loss})
	if err != nil {
		t.Fatal(err)
	}
	each := " linear scale cross_entropy cross_entropy_grad scale linear_dx linear_dw col_sum"
	if got, want := kinds(p.Plans[0]), "embed fill mean_grad"+strings.Repeat(each, 3)+" mean embed_grad"; !strings.HasPrefix(got, want) {
		t.Errorf("steps %s, want %s ...", got, want)
	}
	if got, want := kinds(p.Plans[1]), "embed"+strings.Repeat(" linear scale cross_entropy", 3)+" mean"; got != want {
		t.Errorf("forward steps %s, want %s", got, want)
	}
	var most int64
	for _, s := range p.Plans[0].Steps {
		for _, v := range s.Out {
			if v.Shape.RowLen() == 100 && v.Shape.Outer.Sym == tensor.R {
				most = max(most, p.Plans[0].Place(v).Bytes)
			}
		}
	}
	if most != 4*100*4 {
		t.Errorf("logits have %d bytes, want those of 4 rows", most)
	}
	second := &p.Plans[0].Steps[12] // of the second chunk
	for _, c := range []plan.Chunk{{}, {First: 8, Rows: 4, Index: 2, Of: 3}} {
		second.Chunk = c
		if err := plan.Check(p.Plans[0]); err == nil {
			t.Errorf("a plan with the step %s in chunk %s was taken", second.Name, c)
		}
	}
}

// TestNoChunks: where the gradient of a row's loss needs the losses of others, where
// somebody reads logits, and where nothing is trained, logits are whole.
func TestNoChunks(t *testing.T) {
	preference, _, err := trainHead(t, func(b *graph.Builder, nll, _ *graph.Value) *graph.Value {
		starts := b.Input("starts", tensor.I32, tensor.Rows(tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1}))
		refs := b.Input("refs", tensor.F32, tensor.Rows(tensor.Of(tensor.S, 1)))
		return b.Mean("mean", b.Preference("preference", b.SequenceSum("answers", nll, starts), refs, 0.1), nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	read, _, err := trainHead(t, func(b *graph.Builder, nll, targets *graph.Value) *graph.Value { return b.Mean("mean", nll, targets) })
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range read.Nodes {
		if n.Op == graph.OpLinear {
			read.Outputs = append(read.Outputs, n.Out[0])
		}
	}
	b := graph.NewBuilder(tensor.Bind{T: 9, S: 2, R: 9})
	x, w := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.R, 1), 8)), b.Input("w", tensor.F32, tensor.Static(100, 8))
	nll, _ := b.CrossEntropy("loss", b.Linear("output", x, w, nil), b.Input("targets", tensor.I32, tensor.Rows(tensor.Of(tensor.R, 1))))
	scores, err := b.Freeze(nll)
	if err != nil {
		t.Fatal(err)
	}
	for name, g := range map[string]*graph.Graph{"preference": preference, "read": read, "scores": scores} {
		p, err := plan.Compile(name, g, chunked{ref.New()}, []tensor.Bind{g.Max}, plan.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Plans[0].Steps {
			if s.Chunk.Of > 0 {
				t.Errorf("%s: step %s is of chunk %s", name, s.Name, s.Chunk)
			}
		}
	}
}

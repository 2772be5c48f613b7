package plan_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/backend/ref"
	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
	"hotpath/profile"
)

// merging is a reference backend that publishes merges of products.
type merging struct{ fused }

func (merging) Caps() plan.Caps {
	c := ref.New().Caps()
	all := func(op *graph.OpDef) func([]*graph.Node) bool {
		return func(nodes []*graph.Node) bool { return nodes[len(nodes)-1].Op == op }
	}
	c.Merges = []plan.Merge{{Rows: 1, Kind: "linear", Before: all(graph.OpNorm), After: all(graph.OpRope)}}
	return c
}

func (merging) Rules(bool) []plan.Rule {
	return []plan.Rule{{Class: "f32", Op: graph.OpLinear, Weights: func(plan.Matrix) bool { return true }}}
}

// mergedPlan is a product of a norm of a sum, which others read too, and a
// rotation of its result.
func mergedPlan(t *testing.T, rows int, build func(b *graph.Builder, sum, norm, product, turned *graph.Value) []*graph.Value) *plan.Plan {
	t.Helper()
	b := graph.NewBuilder(tensor.Bind{T: rows, S: 1, R: 1})
	x, y, w := b.Input("x", tensor.F32, tensor.Rows(dimT, 8)), b.Input("y", tensor.F32, tensor.Rows(dimT, 8)), b.Input("w", tensor.F32, tensor.Static(8))
	pos := b.Input("pos", tensor.I32, tensor.Rows(dimT))
	sum := b.Add("sum", x, y)
	norm := b.RMSNorm("norm", sum, w, 1e-5, 0)
	product := b.Linear("product", norm, b.Weight("m", graph.RoleQ, tensor.Static(8, 8)), nil)
	turned := b.Rope("turned", product, pos, nil, graph.RopeAttr{HeadDim: 4, Base: 1e4})
	g, err := b.Freeze(build(b, sum, norm, product, turned)...)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile("test", g, merging{fused{ref.New(), []plan.Pattern{addNorm}}}, []tensor.Bind{g.Max}, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p.Plans[0]
}

// TestMerge: a product of a single row takes in the norm before it and the
// rotation behind it, unless others read what stays inside of the step.
func TestMerge(t *testing.T) {
	for _, c := range []struct {
		name, want string
		rows       int
		build      func(b *graph.Builder, sum, norm, product, turned *graph.Value) []*graph.Value
	}{
		{"all", "linear add", 1, func(b *graph.Builder, sum, _, _, turned *graph.Value) []*graph.Value {
			return []*graph.Value{b.Add("out", turned, sum)}
		}},
		{"several rows", "add+norm linear rope add", 2, func(b *graph.Builder, sum, _, _, turned *graph.Value) []*graph.Value {
			return []*graph.Value{b.Add("out", turned, sum)}
		}},
		{"another reader of the norm", "add+norm linear add", 1, func(b *graph.Builder, _, norm, _, turned *graph.Value) []*graph.Value {
			return []*graph.Value{b.Add("out", turned, norm)}
		}},
		{"another reader of the product", "linear rope add", 1, func(b *graph.Builder, _, _, product, turned *graph.Value) []*graph.Value {
			return []*graph.Value{b.Add("out", turned, product)}
		}},
		{"an output", "add+norm linear", 1, func(_ *graph.Builder, _, norm, _, turned *graph.Value) []*graph.Value {
			return []*graph.Value{turned, norm}
		}},
	} {
		p := mergedPlan(t, c.rows, c.build)
		if got := kinds(p); got != c.want {
			t.Errorf("%s: steps are %s, expected %s", c.name, got, c.want)
		}
		for i := range p.Steps {
			if s := &p.Steps[i]; s.Index != i || len(s.Core())+len(s.Before)+len(s.After) != len(s.Nodes) {
				t.Errorf("%s: step %d has index %d and %d of %d nodes", c.name, i, s.Index, len(s.Core())+len(s.Before)+len(s.After), len(s.Nodes))
			}
		}
	}
}

// TestCheckFindsInMergedSteps breaks merged steps in each way that Check must see.
func TestCheckFindsInMergedSteps(t *testing.T) {
	half := &plan.Format{Name: "half"}
	for name, mangle := range map[string]func(p *plan.Plan){
		"a worker's own value in common memory": func(p *plan.Plan) {
			p.Places[p.Steps[0].Core()[0].In[0].ID] = plan.Place{Class: plan.Activations, Bytes: 64}
		},
		"a worker's own value from shares": func(p *plan.Plan) { p.Steps[0].Before = p.Steps[0].Before[1:] },
		"an inner result in common memory": func(p *plan.Plan) {
			p.Places[p.Steps[0].Core()[0].Out[0].ID] = plan.Place{Class: plan.Activations, Bytes: 64}
		},
		"a format that products do not take": func(p *plan.Plan) { p.Steps[0].Own = half },
	} {
		p := mergedPlan(t, 1, func(b *graph.Builder, sum, _, _, turned *graph.Value) []*graph.Value {
			return []*graph.Value{b.Add("out", turned, sum)}
		})
		if err := plan.Check(p); err != nil {
			t.Fatal(err)
		}
		mangle(p)
		if plan.Check(p) == nil {
			t.Errorf("%s was not found", name)
		}
	}
}

// unmerged is a backend without merges.
type unmerged struct{ plan.Backend }

func (b unmerged) Caps() plan.Caps {
	c := b.Backend.Caps()
	c.Merges = nil
	return c
}

// TestCostsOfMergedSteps: merged steps have the FLOPs of all their nodes, and no
// bytes of values that stay inside of them: one write and one read less of each.
func TestCostsOfMergedSteps(t *testing.T) {
	one := tensor.Bind{T: 1, S: 1, R: 1}
	st, err := weights.Open(testmodels.Dir(t, "llama"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	m, err := model.Open(st)
	if err != nil {
		t.Fatal(err)
	}
	g, ports, err := m.BuildGenerate(one, model.KVLayout{Blocks: 8, MaxBlocksPerSeq: 2})
	if err != nil {
		t.Fatal(err)
	}
	cost := func(be plan.Backend) (sum profile.Cost, p *plan.Plan) {
		s, prog := openSession(t, "generate", g, be, []tensor.Bind{one}, m)
		defer s.Close()
		rec := profile.NewRecorder(profile.Options{})
		if err := s.Attach(rec, plan.ProfileLabels{Model: "llama"}); err != nil {
			t.Fatal(err)
		}
		fillInputs(rand.New(rand.NewPCG(7, 8)), s, ports, one)
		if err := s.Run(context.Background(), one); err != nil {
			t.Fatal(err)
		}
		run := rec.Snapshot().Runs[0]
		for k := range prog.Plans[0].Steps {
			sum.FLOPs += run.FLOPs[k]
			sum.Bytes += run.Bytes[k]
		}
		return sum, prog.Plans[0]
	}
	be, err := cpu.New(cpu.Options{Workers: 1, Precision: cpu.F32})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	whole, wide := cost(unmerged{be})
	got, merged := cost(be)
	want := whole
	want.Bytes -= 4 * int64(m.Config().Layers) // both rotations of a layer read the position once
	for _, v := range g.Values {
		if wide.Place(v).Bytes > 0 && merged.Place(v).Bytes == 0 {
			want.Bytes -= 2 * 4 * int64(v.Shape.Len(one))
		}
	}
	if got != want || want == whole {
		t.Errorf("merged steps have %v, expected %v; steps of their own have %v", got, want, whole)
	}
}

// varying publishes merges whose bits differ from those of the steps alone.
type varying struct{ merging }

func (v varying) Caps() plan.Caps {
	c := v.merging.Caps()
	for i := range c.Merges {
		c.Merges[i].Varies = true
	}
	return c
}

// TestInvariantMerge: an invariant program does without merges that change bits.
func TestInvariantMerge(t *testing.T) {
	for invariant, want := range map[bool]string{false: "linear", true: "norm linear"} {
		b := graph.NewBuilder(tensor.Bind{T: 1, S: 1, R: 1})
		norm := b.RMSNorm("norm", b.Input("x", tensor.F32, tensor.Rows(dimT, 8)), b.Input("w", tensor.F32, tensor.Static(8)), 1e-5, 0)
		g, err := b.Freeze(b.Linear("product", norm, b.Weight("m", graph.RoleQ, tensor.Static(8, 8)), nil))
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Compile("test", g, varying{merging{fused{ref.New(), nil}}}, []tensor.Bind{g.Max}, plan.CompileOptions{Invariant: invariant})
		if err != nil {
			t.Fatal(err)
		}
		if got := kinds(p.Plans[0]); got != want {
			t.Errorf("invariant %v: steps are %s, expected %s", invariant, got, want)
		}
	}
}

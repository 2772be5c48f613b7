package plan_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/backend/ref"
	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
	"hotpath/profile"
)

// fused is a reference backend that publishes patterns; tests of the planner
// compile with it, tests of results run with kernels elsewhere.
type fused struct {
	*ref.Backend
	patterns []plan.Pattern
}

func (f fused) Patterns() []plan.Pattern { return f.patterns }

type noWeights struct{}

func (noWeights) Weight(key string) (weights.Tensor, error) {
	return weights.Tensor{}, fmt.Errorf("no weight %s", key)
}
func (noWeights) Drop(weights.Tensor) {}

var (
	dimT = tensor.Of(tensor.T, 1)
	max9 = tensor.Bind{T: 9, S: 2, R: 3}
)

func compile(t *testing.T, g *graph.Graph, err error, patterns ...plan.Pattern) *plan.Plan {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile("test", g, fused{ref.New(), patterns}, []tensor.Bind{g.Max}, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p.Plans[0]
}

func kinds(p *plan.Plan) string {
	var ks []string
	for _, s := range p.Steps {
		ks = append(ks, s.Kind)
	}
	return strings.Join(ks, " ")
}

var addNorm = plan.Pattern{Kind: "add+norm", Root: graph.OpNorm, Inputs: []*plan.Pattern{{Root: graph.OpAdd, Keep: true}}}
var mulAdd = plan.Pattern{Kind: "mul+add", Root: graph.OpAdd, Inputs: []*plan.Pattern{{Root: graph.OpMul}}}

func TestFusion(t *testing.T) {
	t.Run("an inner value that others read is kept", func(t *testing.T) {
		b := graph.NewBuilder(max9)
		x, y, w := b.Input("x", tensor.F32, tensor.Rows(dimT, 8)), b.Input("y", tensor.F32, tensor.Rows(dimT, 8)), b.Input("w", tensor.F32, tensor.Static(8))
		s := b.Add("s", x, y)
		n := b.RMSNorm("n", s, w, 1e-5, 0)
		g, err := b.Freeze(b.Add("out", n, s))
		p := compile(t, g, err, addNorm)
		if got := kinds(p); got != "add+norm add" {
			t.Fatalf("steps are %s", got)
		}
		if len(p.Steps[0].Out) != 2 || len(p.Steps[0].Nodes) != 2 {
			t.Errorf("the fused step has outputs %v", p.Steps[0].Out)
		}
	})
	t.Run("a pattern that does not keep refuses it", func(t *testing.T) {
		b := graph.NewBuilder(max9)
		x, y := b.Input("x", tensor.F32, tensor.Rows(dimT, 8)), b.Input("y", tensor.F32, tensor.Rows(dimT, 8))
		m := b.Mul("m", x, y)
		a := b.Add("a", m, x)
		g, err := b.Freeze(b.Add("out", a, m))
		if got := kinds(compile(t, g, err, mulAdd)); got != "mul add add" {
			t.Errorf("steps are %s", got)
		}
	})
	t.Run("a reader before the end of the step forbids it", func(t *testing.T) {
		b := graph.NewBuilder(max9)
		x, w := b.Input("x", tensor.F32, tensor.Rows(dimT, 8)), b.Input("w", tensor.F32, tensor.Static(8))
		s := b.Add("s", x, x)
		early := b.Mul("early", s, x)
		n := b.RMSNorm("n", s, w, 1e-5, 0)
		g, err := b.Freeze(b.Add("out", n, early))
		if got := kinds(compile(t, g, err, addNorm)); got != "add mul norm add" {
			t.Errorf("steps are %s", got)
		}
	})
	t.Run("an output is never removed", func(t *testing.T) {
		b := graph.NewBuilder(max9)
		x, y := b.Input("x", tensor.F32, tensor.Rows(dimT, 8)), b.Input("y", tensor.F32, tensor.Rows(dimT, 8))
		m := b.Mul("m", x, y)
		g, err := b.Freeze(b.Add("a", m, x), m)
		if got := kinds(compile(t, g, err, mulAdd)); got != "mul add" {
			t.Errorf("steps are %s", got)
		}
	})
	t.Run("dead code goes, effects stay", func(t *testing.T) {
		b := graph.NewBuilder(max9)
		x := b.Input("x", tensor.F32, tensor.Rows(dimT, 8))
		slots := b.Input("slots", tensor.I32, tensor.Rows(dimT))
		b.Mul("dead", x, x)
		k := b.State("k", graph.RoleKV, tensor.F32, tensor.Static(64, 8))
		v := b.State("v", graph.RoleKV, tensor.F32, tensor.Static(64, 8))
		b.KVWrite("write", k, v, x, x, slots)
		g, err := b.Freeze(b.Add("out", x, x))
		if got := kinds(compile(t, g, err)); got != "kv_write add" {
			t.Errorf("steps are %s", got)
		}
	})
}

// TestSiblings: products of one input are one step, in the place of the first,
// where nothing but the input and leaves is read.
func TestSiblings(t *testing.T) {
	pattern := plan.Pattern{Kind: "linears", Root: graph.OpLinear, Siblings: func(a, b *graph.Node) bool {
		return a.In[1].DType == b.In[1].DType
	}}
	weight := func(b *graph.Builder, key string) *graph.Value {
		return b.Weight(key, graph.RoleQ, tensor.Static(8, 8))
	}
	steps := func(p *plan.Plan) string {
		var names []string
		for _, s := range p.Steps {
			names = append(names, s.Kind+":"+s.Name)
		}
		return strings.Join(names, " ")
	}
	for _, c := range []struct {
		name, want string
		build      func(b *graph.Builder, x *graph.Value) []*graph.Value
	}{
		{"q, k and v", "linears:blk.0/q+k+v add:blk.0/y add:blk.0/z", func(b *graph.Builder, x *graph.Value) []*graph.Value {
			defer b.LayerScope(0)()
			q, k, v := b.Linear("q", x, weight(b, "q"), nil), b.Linear("k", x, weight(b, "k"), nil), b.Linear("v", x, weight(b, "v"), nil)
			return []*graph.Value{b.Add("z", b.Add("y", q, k), v)}
		}},
		{"a reader in between stays behind", "linears:q+k scale:s add:y", func(b *graph.Builder, x *graph.Value) []*graph.Value {
			q := b.Scale("s", b.Linear("q", x, weight(b, "q"), nil), 2)
			return []*graph.Value{b.Add("y", q, b.Linear("k", x, weight(b, "k"), nil))}
		}},
		{"one that nobody reads is none", "linear:q", func(b *graph.Builder, x *graph.Value) []*graph.Value {
			b.Linear("k", x, weight(b, "k"), nil)
			return []*graph.Value{b.Linear("q", x, weight(b, "q"), nil)}
		}},
		{"of another input", "linear:q linear:k add:y", func(b *graph.Builder, x *graph.Value) []*graph.Value {
			q := b.Linear("q", x, weight(b, "q"), nil)
			return []*graph.Value{b.Add("y", q, b.Linear("k", q, weight(b, "k"), nil))}
		}},
		{"with what is computed", "linear:q scale:w linear:k add:y", func(b *graph.Builder, x *graph.Value) []*graph.Value {
			q := b.Linear("q", x, weight(b, "q"), nil)
			w := b.Scale("w", b.Input("in", tensor.F32, tensor.Static(8, 8)), 2)
			return []*graph.Value{b.Add("y", q, b.Linear("k", x, w, nil))}
		}},
		{"that the backend keeps apart", "linears:q+v linear:k add:y add:z", func(b *graph.Builder, x *graph.Value) []*graph.Value {
			b.WeightType = func(key string) (tensor.DType, error) {
				return map[string]tensor.DType{"q": tensor.F16, "k": tensor.BF16, "v": tensor.F16}[key], nil
			}
			q, k, v := b.Linear("q", x, weight(b, "q"), nil), b.Linear("k", x, weight(b, "k"), nil), b.Linear("v", x, weight(b, "v"), nil)
			return []*graph.Value{b.Add("z", b.Add("y", q, k), v)}
		}},
		{"of other layers", "linear:blk.0/k linear:blk.1/k add:y", func(b *graph.Builder, x *graph.Value) []*graph.Value {
			var ks [2]*graph.Value
			for i := range ks {
				end := b.LayerScope(i)
				ks[i] = b.Linear("k", x, weight(b, fmt.Sprint("k", i)), nil)
				end()
			}
			return []*graph.Value{b.Add("y", ks[0], ks[1])}
		}},
	} {
		b := graph.NewBuilder(max9)
		outs := c.build(b, b.Input("x", tensor.F32, tensor.Rows(dimT, 8)))
		g, err := b.Freeze(outs...)
		p := compile(t, g, err, pattern)
		if got := steps(p); got != c.want {
			t.Errorf("%s: steps are %s, expected %s", c.name, got, c.want)
		}
	}
}

// randomGraph is a DAG of elementwise ops and products over a few inputs.
func randomGraph(rng *rand.Rand, n int) (*graph.Builder, []*graph.Value) {
	b := graph.NewBuilder(max9)
	w := b.Input("w", tensor.F32, tensor.Static(8))
	vs := []*graph.Value{b.Input("x", tensor.F32, tensor.Rows(dimT, 8)), b.Input("y", tensor.F32, tensor.Rows(dimT, 8))}
	pick := func() *graph.Value { return vs[max(0, len(vs)-1-int(rng.ExpFloat64()*3))] }
	for i := range n {
		name := fmt.Sprint("n", i)
		switch rng.IntN(5) {
		case 0:
			vs = append(vs, b.Add(name, pick(), pick()))
		case 1:
			vs = append(vs, b.Mul(name, b.Scale(name+"s", pick(), 0.5), pick()))
		case 2:
			vs = append(vs, b.Act(name, pick(), graph.SiLU))
		case 3:
			vs = append(vs, b.RMSNorm(name, pick(), w, 1e-5, 0))
		case 4:
			g := pick()
			vs = append(vs, b.GLU(name, g, pick(), graph.GELU))
		}
	}
	return b, vs
}

// openSession compiles g and binds it. The caller closes the session, before the
// file that its weights are in.
func openSession(t *testing.T, name string, g *graph.Graph, be plan.Backend, buckets []tensor.Bind, w plan.Source) (*plan.Session, *plan.Program) {
	t.Helper()
	p, err := plan.Compile(name, g, be, buckets, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(context.Background(), p, plan.NewWeightSet(be, w), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s, p
}

func run(t *testing.T, g *graph.Graph, err error, out *graph.Value, bind tensor.Bind) []float32 {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	be := ref.New()
	s, _ := openSession(t, "test", g, be, plan.Buckets(be, g.Max), noWeights{})
	defer s.Close()
	rng := rand.New(rand.NewPCG(3, 4))
	for _, in := range g.Inputs {
		for i := range in.Shape.Len(bind) {
			s.F32(in)[i] = float32(rng.NormFloat64())
		}
	}
	if err := s.Run(context.Background(), bind); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(s.F32(out)[:out.Shape.Len(bind)])
}

// TestSharedMemoryChangesNothing runs random graphs twice: with memory shared
// by lifetime, and with every value kept. The bits must be equal, on a
// backend that poisons what died.
func TestSharedMemoryChangesNothing(t *testing.T) {
	for seed := range uint64(60) {
		build := func() (*graph.Builder, []*graph.Value) { return randomGraph(rand.New(rand.NewPCG(seed, 1)), 25) }
		b1, vs1 := build()
		last1 := vs1[len(vs1)-1]
		g1, err1 := b1.Freeze(last1)
		b2, vs2 := build()
		last2 := vs2[len(vs2)-1]
		g2, err2 := b2.Freeze(append([]*graph.Value{last2}, vs2[2:len(vs2)-1]...)...)
		for _, bind := range []tensor.Bind{{T: 1, S: 1, R: 1}, {T: 9, S: 2, R: 3}} {
			if !slices.Equal(run(t, g1, err1, last1, bind), run(t, g2, err2, last2, bind)) {
				t.Fatalf("seed %d, T %d: sharing memory changed the result", seed, bind.T)
			}
		}
	}
}

// ownScratch brings a workspace of its own for some kinds of steps.
type ownScratch struct {
	fused
	kinds []string
}

func (o ownScratch) Caps() plan.Caps {
	c := o.fused.Caps()
	c.OwnScratch = func(kind string) bool { return slices.Contains(o.kinds, kind) }
	return c
}

// TestScratchOfTheBackend: steps that only a common scratch keeps apart need no
// barrier where the backend has one for each worker.
func TestScratchOfTheBackend(t *testing.T) {
	build := func() (*graph.Graph, error) {
		b := graph.NewBuilder(max9)
		x, y := b.Input("x", tensor.F32, tensor.Rows(dimT, 8)), b.Input("y", tensor.F32, tensor.Rows(dimT, 8))
		w := b.Weight("w", graph.RoleQ, tensor.Static(8, 8))
		return b.Freeze(b.Add("sum", b.Linear("a", x, w, nil), b.Linear("b", y, w, nil)))
	}
	for kind, want := range map[string][]bool{"add": {false, true, true}, "linear": {false, false, true}} {
		g, err := build()
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Compile("test", g, ownScratch{fused{ref.New(), nil}, []string{kind}}, []tensor.Bind{g.Max}, plan.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got []bool
		for _, s := range p.Plans[0].Steps {
			got = append(got, s.Barrier)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has scratch of its own: barriers %v, expected %v", kind, got, want)
		}
		if bytes := p.Plans[0].ArenaBytes[plan.Scratch]; (bytes == 0) != (kind == "linear") {
			t.Errorf("%s has scratch of its own: the plan has %d bytes of scratch", kind, bytes)
		}
	}
}

// TestArenaIsSmall: a chain of steps that may work in place needs one buffer,
// however long it is.
func TestArenaIsSmall(t *testing.T) {
	b := graph.NewBuilder(max9)
	x, w := b.Input("x", tensor.F32, tensor.Rows(dimT, 64)), b.Input("w", tensor.F32, tensor.Static(64))
	for i := range 20 {
		x = b.RMSNorm(fmt.Sprint(i), x, w, 1e-5, 0)
	}
	g, err := b.Freeze(x)
	p := compile(t, g, err)
	if got, want := p.ArenaBytes[plan.Activations], int64(9*64*4); got != want {
		t.Errorf("the arena has %d bytes, expected %d", got, want)
	}
}

// TestFusedInPlace: a fused step takes over its operand's buffer where its
// pattern says so, that is the operand's last use, and no node of it reads the
// operand again.
func TestFusedInPlace(t *testing.T) {
	const row = 64 * 4 * 9
	for _, c := range []struct {
		name    string
		inPlace bool
		again   bool // the operand is read by the second node too
		later   bool // and by a later step
		want    int64
	}{
		{"in place", true, false, false, row},
		{"not in place", false, false, false, 2 * row},
		{"read twice", true, true, false, 2 * row},
		{"read later", true, false, true, 2 * row},
	} {
		b := graph.NewBuilder(max9)
		x, w := b.Input("x", tensor.F32, tensor.Rows(dimT, 64)), b.Input("w", tensor.F32, tensor.Static(64))
		first := b.Scale("first", x, 2)
		other := x
		if c.again {
			other = first
		}
		y := b.Mul("y", b.RMSNorm("n", first, w, 1e-5, 0), other)
		end := x
		if c.later {
			end = first
		}
		g, err := b.Freeze(b.Mul("out", y, end))
		p := compile(t, g, err, plan.Pattern{Kind: "norm+mul", Root: graph.OpMul, Inputs: []*plan.Pattern{{Root: graph.OpNorm}}, InPlace: c.inPlace})
		if got := kinds(p); got != "scale norm+mul mul" {
			t.Fatalf("%s: steps are %s", c.name, got)
		}
		if got := p.ArenaBytes[plan.Activations]; got != c.want {
			t.Errorf("%s: the arena has %d bytes, expected %d", c.name, got, c.want)
		}
		p.Places[y.ID] = p.Places[first.ID]
		if err := plan.Check(p); (err == nil) != (c.want == row) {
			t.Errorf("%s: Check says %v of a result in the operand's place", c.name, err)
		}
	}
}

// TestCheckFinds breaks plans in each way that Check must see.
func TestCheckFinds(t *testing.T) {
	fresh := func() *plan.Plan {
		b := graph.NewBuilder(max9)
		x, w := b.Input("x", tensor.F32, tensor.Rows(dimT, 64)), b.Input("w", tensor.F32, tensor.Static(64))
		n := b.RMSNorm("n", x, w, 1e-5, 0)
		m := b.RMSNorm("m", n, w, 1e-5, 0)
		g, err := b.Freeze(b.RMSNorm("out", b.Add("a", n, m), w, 1e-5, 0))
		return compile(t, g, err)
	}
	if err := plan.Check(fresh()); err != nil {
		t.Fatal(err)
	}
	for name, mangle := range map[string]func(p *plan.Plan){
		"a missing barrier":       func(p *plan.Plan) { p.Steps[1].Barrier = false },
		"two live values overlap": func(p *plan.Plan) { p.Places[p.Steps[1].Out[0].ID] = p.Places[p.Steps[0].Out[0].ID] },
		"no place":                func(p *plan.Plan) { p.Places[p.Steps[0].Out[0].ID].Bytes = 0 },
		"outside of the arena":    func(p *plan.Plan) { p.Places[p.Steps[0].Out[0].ID].Offset += 1 << 20 },
		"unaligned":               func(p *plan.Plan) { p.Places[p.Steps[0].Out[0].ID].Offset += 4 },
		"read before written":     func(p *plan.Plan) { p.Steps[0], p.Steps[1] = p.Steps[1], p.Steps[0] },
	} {
		p := fresh()
		mangle(p)
		if plan.Check(p) == nil {
			t.Errorf("%s was not found", name)
		}
	}
}

func TestRunBeyondMaximum(t *testing.T) {
	b := graph.NewBuilder(max9)
	x := b.Input("x", tensor.F32, tensor.Rows(dimT, 8))
	g, err := b.Freeze(b.Add("y", x, x))
	if err != nil {
		t.Fatal(err)
	}
	be := ref.New()
	s, _ := openSession(t, "test", g, be, plan.Buckets(be, g.Max), noWeights{})
	defer s.Close()
	if err := s.Run(context.Background(), tensor.Bind{T: 10, S: 1, R: 1}); err == nil || !strings.Contains(err.Error(), "beyond the maximum") {
		t.Errorf("ten tokens of at most nine: %v", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(fmt.Errorf("enough"))
	if err := s.Run(ctx, max9); err == nil || err.Error() != "enough" {
		t.Errorf("cancelled run: %v", err)
	}
}

// TestRanForgetsWhatCameBefore: a run that could not begin has no times, not
// those of the one before it.
func TestRanForgetsWhatCameBefore(t *testing.T) {
	b, vs := randomGraph(rand.New(rand.NewPCG(1, 1)), 5)
	g, err := b.Freeze(vs[len(vs)-1])
	if err != nil {
		t.Fatal(err)
	}
	be := ref.New()
	s, _ := openSession(t, "test", g, be, plan.Buckets(be, g.Max), noWeights{})
	defer s.Close()
	if err := s.Attach(profile.NewRecorder(profile.Options{}), plan.ProfileLabels{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(context.Background(), g.Max); err != nil {
		t.Fatal(err)
	}
	if _, end := s.Slot(0).Ran(); end == 0 {
		t.Fatal("a recorded run has no times")
	}
	beyond := g.Max
	beyond.T++
	if err := s.Run(context.Background(), beyond); err == nil {
		t.Fatal("a run beyond the maximum")
	}
	if start, end := s.Slot(0).Ran(); start != 0 || end != 0 {
		t.Errorf("a run that did not begin was from %d to %d", start, end)
	}
}

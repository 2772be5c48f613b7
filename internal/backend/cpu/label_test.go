package cpu

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"runtime/trace"
	"strings"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// goroutines is the profile that shows labels as text.
func goroutines(t testing.TB) string {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// spy looks at the labels of the goroutine that runs it.
type spy struct {
	t    testing.TB
	seen string
}

func (s *spy) name() string                            { return "spy" }
func (s *spy) width(tensor.Bind, int) int              { return 1 }
func (s *spy) runShare(*worker, tensor.Bind, int, int) { s.seen = goroutines(s.t) }

func labelledSpy(t testing.TB) (*spy, *labelKernel) {
	b := graph.NewBuilder(tensor.Bind{T: 4, S: 1, R: 1})
	end := b.LayerScope(3)
	x := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), 8))
	y := b.Scale("scaled", x, 2)
	end()
	s := &spy{t: t}
	step := &plan.Step{Name: y.Node.Name, Kind: "scale", Nodes: []*graph.Node{y.Node}}
	return s, newLabelKernel(s, "embed", &plan.Plan{Max: tensor.Bind{T: 4}}, step)
}

// While a step runs its goroutine has the step's labels; afterwards it has
// none.
func TestLabels(t *testing.T) {
	s, k := labelledSpy(t)
	k.runShare(nil, tensor.Bind{}, 0, 1)
	for _, want := range []string{`"program":"embed"`, `"op":"scale"`, `"layer":"3"`, `"plan":"T<=4"`, `scaled"`} {
		if !strings.Contains(s.seen, want) {
			t.Errorf("no label %s in\n%s", want, s.seen)
		}
	}
	if after := goroutines(t); strings.Contains(after, `"program":"embed"`) {
		t.Error("the labels stay after the step")
	}
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Skipf("a trace is being taken: %v", err)
	}
	k.runShare(nil, tensor.Bind{}, 0, 1)
	trace.Stop()
	if !bytes.Contains(b.Bytes(), []byte("scaled")) {
		t.Error("the trace has no region of the step")
	}
}

// boundScales is a plan of n scalings of T rows, one after another, bound to
// memory.
func boundScales(t testing.TB, be *Backend, n int, size tensor.Bind) *exec {
	t.Helper()
	b := graph.NewBuilder(size)
	v := b.Input("x", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), 8))
	for i := range n {
		v = b.Scale(fmt.Sprintf("y%d", i), v, 2)
	}
	g, err := b.Freeze(v)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile("embed", g, be, []tensor.Bind{g.Max}, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m := &plan.Memory{Weights: make([]plan.Packed, len(g.Values))}
	for c := range m.Arenas {
		if m.Arenas[c], err = be.Arena(plan.Class(c), max(plan.Align, p.Plans[0].ArenaBytes[c])); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Arenas[c].Free() })
	}
	e, err := be.Bind(p.Plans[0], m, plan.BindOptions{Program: "embed"})
	if err != nil {
		t.Fatal(err)
	}
	return e.(*exec)
}

// Sessions label their steps only where it was asked for when they were bound.
func TestLabelSteps(t *testing.T) {
	be, err := New(Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { be.Close() })
	labelled := func() bool {
		e := boundScales(t, be, 1, tensor.Bind{T: 4, S: 1, R: 1})
		if err := e.Enqueue(context.Background(), e.plan.Max, nil); err != nil {
			t.Fatal(err)
		}
		_, ok := e.kernels[0].(*labelKernel)
		return ok
	}
	if labelled() {
		t.Error("steps are labelled unasked")
	}
	LabelSteps(true)
	defer LabelSteps(false)
	if !labelled() {
		t.Error("steps are not labelled")
	}
}

type nothing struct{}

func (nothing) name() string                            { return "" }
func (nothing) width(tensor.Bind, int) int              { return 1 }
func (nothing) runShare(*worker, tensor.Bind, int, int) {}

// BenchmarkLabel is what labels cost a share of a step.
func BenchmarkLabel(b *testing.B) {
	_, k := labelledSpy(b)
	k.kernel = nothing{}
	for b.Loop() {
		k.runShare(nil, tensor.Bind{}, 0, 1)
	}
}

package cpu

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// TestKeptCutsAreFreshOnes: whatever runs came before, with other sizes, other sequences
// in as many tokens or other workers, a run is cut as if it were the first.
func TestKeptCutsAreFreshOnes(t *testing.T) {
	const tokens, heads, dim = 192, 4, 32
	b := graph.NewBuilder(tensor.Bind{T: tokens, S: 4, R: 1})
	rows := tensor.Rows(tensor.Of(tensor.T, 1), heads*dim)
	x, w := b.Input("x", tensor.F32, rows), b.Input("w", tensor.F32, tensor.Static(heads*dim, heads*dim))
	starts := b.Input("starts", tensor.I32, tensor.Rows(tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1}))
	q, k, v := b.Linear("q", x, w, nil), b.Linear("k", x, w, nil), b.Linear("v", x, w, nil)
	y, _ := b.Attention("attention", q, k, v, starts, graph.AttentionAttr{Heads: heads, KVHeads: heads, HeadDim: dim, Scale: 1})
	g, err := b.Freeze(b.Linear("out", y, w, nil))
	if err != nil {
		t.Fatal(err)
	}
	be, err := New(Options{Workers: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	watch := &watched{Backend: be}
	p, err := plan.Compile("cuts", g, watch, []tensor.Bind{g.Max}, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(context.Background(), p, plan.NewWeightSet(watch, noWeights{}), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	e := watch.execs[0]
	r := rand.New(rand.NewPCG(1, 2))
	bind, same, others := g.Max, 0, 0
	var last []cut
	for range 300 {
		switch r.IntN(3) {
		case 0:
			bind = tensor.Bind{T: 1 + r.IntN(tokens), S: 1 + r.IntN(4), R: 1}
		case 1:
			e.limits.Of(bind.T).Init(1 + r.IntN(4))
		}
		at := s.I32(starts)[:bind.S+1]
		for i := range at {
			at[i] = int32(r.IntN(bind.T + 1))
		}
		slices.Sort(at)
		at[0], at[bind.S] = 0, int32(bind.T)
		workers := len(e.workers)
		if e.limits.Of(bind.T).Workers() == 1 {
			workers = 1
		}
		if err := s.Run(context.Background(), bind); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(e.flights, func(f *flight) bool { return f.runs == e.runs })
		got, fresh := e.flights[i], newFlight(e)
		fresh.bind, fresh.kernels = bind, e.kernels
		fresh.cutFor(workers)
		if !slices.Equal(got.cuts, fresh.cuts) {
			t.Fatalf("%v for %d workers, sequences %v: cuts %v, expected %v", bind, workers, at, got.cuts, fresh.cuts)
		}
		if slices.Equal(last, got.cuts) {
			same++
		} else {
			others++
		}
		last = slices.Clone(got.cuts)
	}
	if same < 10 || others < 10 {
		t.Errorf("%d runs were cut as those before and %d were not, expected some of both", same, others)
	}
}

// askedKernel counts how often it is asked for its width.
type askedKernel struct {
	calledKernel
	asked *int
}

func (k askedKernel) width(b tensor.Bind, n int) int {
	*k.asked++
	return k.calledKernel.width(b, n)
}

// TestCutsAreKept: a run of the same sizes as the last asks only the kernels that look at
// their inputs.
func TestCutsAreKept(t *testing.T) {
	var asked, looks int
	nothing := func(int, int) {}
	kernels := []kernel{askedKernel{calledKernel{4, nothing}, &asked}, askedKernel{calledKernel{8, nothing}, &looks}}
	e := steps(newTeam(), 2, kernels...)
	e.looks[1] = true
	f, one, two := e.flights[0], tensor.Bind{T: 1}, tensor.Bind{T: 2}
	for i, c := range []struct {
		bind        tensor.Bind
		workers     int
		asked, both int
	}{{one, 2, 1, 1}, {one, 2, 1, 2}, {two, 2, 2, 3}, {two, 1, 3, 4}, {two, 1, 3, 5}} {
		f.prepare(context.Background(), c.bind, nil, c.workers)
		if asked != c.asked || looks != c.both || f.cuts[1].upTo != 12 {
			t.Errorf("run %d: asked %d and %d times, expected %d and %d; %d shares", i, asked, looks, c.asked, c.both, f.cuts[1].upTo)
		}
	}
	if f.recut(1); looks != 5 {
		t.Error("a run without helpers was cut again at a barrier")
	}
	e.seats[1].Store(true)
	if f.recut(1); asked != 3 || looks != 6 {
		t.Errorf("asked %d and %d times, expected the kernel behind the barrier once more when a helper came", asked, looks)
	}
	if f.prepare(context.Background(), two, nil, 1); asked != 4 || looks != 7 {
		t.Errorf("asked %d and %d times, expected both once more after a helper was there", asked, looks)
	}
	e.kernels = []kernel{calledKernel{3, nothing}, kernels[1]}
	if f.prepare(context.Background(), two, nil, 1); f.cuts[0].shares != 3 || looks != 8 {
		t.Errorf("%d shares, expected 3 of another kernel", f.cuts[0].shares)
	}
}

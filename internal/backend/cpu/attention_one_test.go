package cpu

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// TestOneQueryAtAnyWorkers: single queries over a cache give the same bits at any number
// of workers, also where these divide the heads of a key head, and allocate nothing. A
// run with a sequence of several queries beside is among them.
func TestOneQueryAtAnyWorkers(t *testing.T) {
	const blocks = 10 // of a sequence
	for _, c := range []struct {
		heads, kv int
		dtype     tensor.DType
		window    int
		softCap   float32
	}{
		{4, 4, tensor.F16, 0, 0},
		{6, 2, tensor.F16, 0, 0},
		{9, 3, tensor.Q8_0, 200, 0},
		{8, 2, tensor.F32, 0, 20},
		{32, 8, tensor.F16, 0, 0},
		{16, 2, tensor.F16, 300, 30},
		{14, 2, tensor.F16, 0, 0},
		{4, 1, tensor.Q4_0, 0, 0},
	} {
		attr := graph.AttentionAttr{Heads: c.heads, KVHeads: c.kv, HeadDim: 64, Causal: true, Window: c.window, SoftCap: c.softCap}
		for _, of := range []struct {
			lens    []int32
			queries int // of the last sequence
		}{{[]int32{66}, 1}, {[]int32{150}, 1}, {[]int32{300}, 1}, {[]int32{640, 3, 70}, 1}, {[]int32{150, 257}, 3}} {
			t.Run(fmt.Sprintf("%d:%d/%s/%v/%d", c.heads, c.kv, c.dtype, of.lens, of.queries), func(t *testing.T) {
				want := oneQuery(t, attr, c.dtype, of.lens, of.queries, blocks, 1)
				for _, workers := range []int{2, 5, 8, 16} {
					if got := oneQuery(t, attr, c.dtype, of.lens, of.queries, blocks, workers); !slices.Equal(got, want) {
						t.Errorf("%d workers: results are not those of one", workers)
					}
				}
			})
		}
	}
}

// oneQuery is what workers make of one query per sequence, and some of the last one, over
// lens keys.
func oneQuery(t *testing.T, attr graph.AttentionAttr, d tensor.DType, lens []int32, queries, blocks, workers int) []float32 {
	t.Helper()
	be, err := New(Options{Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	seqs := len(lens)
	bind := tensor.Bind{T: seqs - 1 + queries, S: seqs, R: seqs}
	gb := graph.NewBuilder(bind)
	rows, narrow := seqs*blocks*graph.KVBlock, attr.KVHeads*attr.HeadDim
	q := gb.Input("q", tensor.F32, tensor.Rows(tensor.Of(tensor.T, 1), attr.Heads*attr.HeadDim))
	starts := gb.Input("starts", tensor.I32, tensor.Rows(tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1}))
	keys := gb.Input("lens", tensor.I32, tensor.Rows(tensor.Of(tensor.S, 1)))
	table := gb.Input("table", tensor.I32, tensor.Rows(tensor.Of(tensor.S, 1), blocks))
	k := gb.State("k", graph.RoleKV, d, tensor.Static(rows, narrow))
	v := gb.State("v", graph.RoleKV, d, tensor.Static(rows, narrow))
	out := gb.AttentionKV("y", q, k, v, starts, keys, table, graph.AttentionKVAttr{AttentionAttr: attr})
	g, err := gb.Freeze(out)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile("attention", g, be, []tensor.Bind{bind}, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(context.Background(), p, plan.NewWeightSet(be, nil), plan.BindOptions{Fixed: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, state := range []*graph.Value{k, v} {
		row, raw := make([]float32, rows*narrow), make([]byte, rows*d.RowBytes(narrow))
		for i := range row {
			row[i] = rng.Float32() - 0.5
		}
		if err := tensor.Quantize(raw, d, row); err != nil {
			t.Fatal(err)
		}
		if err := s.WriteState(state, floats(raw)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range s.F32(q) {
		s.F32(q)[i] = float32(rng.NormFloat64())
	}
	for i := range seqs {
		s.I32(starts)[i+1] = int32(i + 1)
	}
	s.I32(starts)[seqs] = int32(bind.T)
	copy(s.I32(keys), lens)
	for i, at := range rng.Perm(seqs * blocks) {
		s.I32(table)[i] = int32(at)
	}
	run := func() {
		if err := s.Run(context.Background(), bind); err != nil {
			t.Fatal(err)
		}
	}
	run()
	got := slices.Clone(s.F32(out))
	if n := testing.AllocsPerRun(1, run); n > 0 {
		t.Errorf("%d workers: a run allocates %g times", workers, n)
	}
	if !slices.Equal(s.F32(out), got) {
		t.Errorf("%d workers: another run has other results", workers)
	}
	return got
}

package graph_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/optest"
	"hotpath/internal/tensor"
)

// decodeGraph writes a batch into a cache and attends to it: two sequences,
// of which the first has a past, with blocks in no order.
func decodeGraph(t *testing.T) (b *bench, attr graph.AttentionAttr, k, v, q, out *graph.Value) {
	b = newBench(t, tensor.Bind{T: 5, S: 2})
	attr = graph.AttentionAttr{Heads: 4, KVHeads: 2, HeadDim: 3, Causal: true, Window: 70, Scale: 0.5}
	kState := b.State("k", graph.RoleKV, tensor.F32, tensor.Static(4*graph.KVBlock, 6))
	vState := b.State("v", graph.RoleKV, tensor.F32, tensor.Static(4*graph.KVBlock, 6))
	b.e.setF32(kState, random(b.rng, 4*graph.KVBlock*6))
	b.e.setF32(vState, random(b.rng, 4*graph.KVBlock*6))
	q, k, v = b.param(dimT, 12), b.param(dimT, 6), b.param(dimT, 6)
	// Sequence 0: positions 0..65 in blocks 3, 1; its new tokens are 63..65.
	// Sequence 1: positions 0..1 in block 2, both new.
	slots := b.ints(dimT, 3*64+63, 1*64+0, 1*64+1, 2*64+0, 2*64+1)
	table := b.Input("block_table", tensor.I32, tensor.Rows(dimS, 2))
	b.e.setI32(table, []int32{3, 1, 2, 0})
	k1, v1 := b.KVWrite("write", kState, vState, k, v, slots)
	out = b.AttentionKV("attn", q, k1, v1, b.ints(dimS1, 0, 3, 5), b.ints(dimS, 66, 2), table,
		graph.AttentionKVAttr{AttentionAttr: attr})
	if err := b.Err(); err != nil {
		t.Fatal(err)
	}
	return b, attr, k, v, q, out
}

// TestAttentionKV holds cached attention against plain attention over the
// same keys laid out in a row.
func TestAttentionKV(t *testing.T) {
	b, attr, k, v, q, out := decodeGraph(t)
	state := b.Nodes()[0].Out[0]
	vstate := b.Nodes()[1].Out[0]
	pastK, pastV := slices.Clone(b.e.f32(state)), slices.Clone(b.e.f32(vstate))
	b.e.run(b.Nodes(), out)

	f := newBench(t, tensor.Bind{T: 68, S: 2})
	fq, fk, fv := f.param(dimT, 12), f.param(dimT, 6), f.param(dimT, 6)
	want, _ := f.Attention("attn", fq, fk, fv, f.ints(dimS1, 0, 66, 68), attr)
	rows := func(past, fresh []float32) []float32 {
		all := slices.Clone(past[3*64*6 : (3*64+63)*6]) // positions 0..62 of sequence 0
		return append(all, fresh...)
	}
	f.e.setF32(fk, rows(pastK, b.e.f32(k)))
	f.e.setF32(fv, rows(pastV, b.e.f32(v)))
	f.e.setF32(fq, append(make([]float32, 63*12), b.e.f32(q)...))
	f.e.run(f.Nodes(), want)
	near(t, "out", b.e.f32(out), f.e.f32(want)[63*12:], 1e-6)

	n := out.Node
	cost := n.Op.Cost(b.e.call(n))
	pairs := int64(64 + 65 + 66 + 1 + 2)
	if want := 4 * 3 * 4 * pairs; cost.FLOPs != want {
		t.Errorf("%d FLOPs, want %d", cost.FLOPs, want)
	}
	// q, out, q_start, kv_len, three table entries, 68 rows of k and of v.
	if want := int64(2*5*12*4 + 3*4 + 2*4 + 3*4 + 68*2*6*4); cost.Bytes != want {
		t.Errorf("%d bytes, want %d", cost.Bytes, want)
	}
}

// TestAttentionPairs counts visible pairs one by one.
func TestAttentionPairs(t *testing.T) {
	for _, a := range []graph.AttentionAttr{{}, {Causal: true}, {Window: 1}, {Window: 4}, {Causal: true, Window: 4}} {
		for n := range 9 {
			for past := range 7 {
				var want int64
				for i := past; i < past+n; i++ {
					for j := range past + n {
						if (!a.Causal || j <= i) && (a.Window == 0 || max(i-j, j-i) < a.Window) {
							want++
						}
					}
				}
				if got := a.Pairs(n, past+n); got != want {
					t.Errorf("%+v, %d queries after %d: %d pairs, want %d", a, n, past, got, want)
				}
			}
		}
	}
}

// TestEmbedQuantized reads rows of a table as the file stores them.
func TestEmbedQuantized(t *testing.T) {
	b := newBench(t, tensor.Bind{T: 2})
	b.Trainable = nil
	b.WeightType = func(string) (tensor.DType, error) { return tensor.Q8_0, nil }
	table := b.Weight("table", graph.RoleEmbedding, tensor.Static(3, 32))
	y := b.Embed("y", table, b.ints(dimT, 2, 1), 0)
	x := b.e.alloc(table)
	for i := range 3 * 32 {
		row := x.Raw[i/32*34:]
		binary.LittleEndian.PutUint16(row, 0x3800) // 0.5
		row[2+i%32] = byte(i)
	}
	b.e.bufs[table] = x
	b.e.run(b.Nodes(), y)
	want := make([]float32, 64)
	for i := range 32 {
		want[i], want[32+i] = float32(64+i)/2, float32(32+i)/2
	}
	near(t, "rows", b.e.f32(y), want, 0)
	if cost, want := y.Node.Op.Cost(b.e.call(y.Node)), (graph.Cost{FLOPs: 0, Bytes: 2*34 + 2*4 + 64*4}); cost != want {
		t.Errorf("cost is %+v, want %+v", cost, want)
	}
}

// TestSumSquaresBlocks: the sum is one of whole blocks, tail included.
func TestSumSquaresBlocks(t *testing.T) {
	b := newBench(t, tensor.Bind{})
	x := b.param(fixed(2*graph.SumSquaresBlock + 17))
	y := b.SumSquares("y", x)
	b.e.run(b.Nodes(), y)
	var sum float64
	for _, block := range slices.Collect(slices.Chunk(b.e.f32(x), graph.SumSquaresBlock)) {
		var part float64
		for _, v := range block {
			part += float64(v) * float64(v)
		}
		sum += part
	}
	near(t, "sum", b.e.f32(y), []float32{float32(sum)}, 0)
}

// TestEveryReference runs each op of the table by the cases of the op bench: no
// allocation, no element left unwritten, the same bits when an output takes over
// its input's buffer as ReuseInput promises, and a positive cost. The bench
// itself holds gradient rules against finite differences.
func TestEveryReference(t *testing.T) {
	optest.KeepOperands()
	seen := map[string]bool{}
	for _, c := range optest.Cases() {
		for _, trained := range []bool{false, true} {
			b := optest.NewBench(someBind, trained)
			want := c.Build(b)
			if y := want[0]; trained && !c.NoGrad && y.Node.Op.Grad != nil {
				dOut := make([]*graph.Value, len(y.Node.Out))
				dOut[y.Index] = b.F32(y.Shape.Outer, y.Shape.Inner[:y.Shape.Rank()-1]...)
				want = append(want, y.Node.Op.Grad(b.Builder, y.Node, dOut)...)
			}
			if err := b.Err(); err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			e := newEval(t, someBind)
			for _, n := range b.Nodes() {
				if x, ok := b.Operand(n.Out[0]); ok {
					e.bufs[n.Out[0]] = x
				}
			}
			e.run(b.Nodes(), want...)
			checkReferences(t, c.Name, e, b.Nodes(), seen)
		}
	}
	for _, op := range graph.Ops() {
		if !seen[op.Name] {
			t.Errorf("op %s is run by no case", op.Name)
		}
	}
}

func checkReferences(t *testing.T, of string, e *eval, nodes []*graph.Node, seen map[string]bool) {
	t.Helper()
	for _, n := range nodes {
		if n.Leaf != nil {
			continue
		}
		op := n.Op
		seen[op.Name] = true
		c := e.call(n)
		if allocs := testing.AllocsPerRun(1, func() { op.Ref(c) }); allocs != 0 {
			t.Errorf("%s: %s (%s): %v allocations", of, n.Name, op.Name, allocs)
		}
		for i := range c.Out {
			for _, v := range c.Out[i].F32 {
				if v != v {
					t.Errorf("%s: %s (%s): output %d has an element that is not written", of, n.Name, op.Name, i)
					break
				}
			}
		}
		cost := op.Cost(c)
		if cost.Bytes <= 0 || cost.FLOPs < 0 {
			t.Errorf("%s: %s (%s): cost is %+v", of, n.Name, op.Name, cost)
		}
		blind := *c
		blind.In = slices.Clone(c.In)
		for i := range blind.In {
			if !slices.Contains(op.CostReads, i) {
				blind.In[i].I32 = nil
			}
		}
		if got := op.Cost(&blind); got != cost {
			t.Errorf("%s: %s (%s): cost is %+v without the integers of inputs that CostReads does not name and %+v with them", of, n.Name, op.Name, got, cost)
		}
		if op.ReuseInput > 0 {
			want := slices.Clone(c.Out[0].F32)
			in := &c.In[op.ReuseInput-1]
			c.Out[0].F32 = slices.Clone(in.F32)
			in.F32 = c.Out[0].F32
			op.Ref(c)
			if !slices.Equal(c.Out[0].F32, want) {
				t.Errorf("%s: %s (%s): another result in its input's buffer", of, n.Name, op.Name)
			}
		}
	}
}

// TestRopeFrequencies: what kernels precompute is what the reference uses.
func TestRopeFrequencies(t *testing.T) {
	factors := []float32{1, 2, 1.5}
	got := make([]float64, 3)
	graph.RopeFrequencies(got, graph.RopeAttr{HeadDim: 6, RotDim: 6, Base: 1000, Scale: 2}, factors, 0)
	want := []float64{0.5, 0.1 / 2 / 2, 0.01 / 2 / 1.5}
	for i := range got {
		if d := got[i] - want[i]; d > 1e-12 || d < -1e-12 {
			t.Errorf("frequency %d is %g, want %g", i, got[i], want[i])
		}
	}
}

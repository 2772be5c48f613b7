package plan_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
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

// directCost is the cost of a step by its ops' own word, from the inputs as
// they are now. Weights are as the file has them.
func directCost(s *plan.Session, p *plan.Plan, step *plan.Step, b tensor.Bind) profile.Cost {
	var sum profile.Cost
	read := map[*graph.Value]bool{} // or written by an earlier node: it is there already
	for _, n := range step.Nodes {
		c := graph.Call{Node: n, Bind: b, In: make([]graph.Tensor, len(n.In)), Out: make([]graph.Tensor, len(n.Out))}
		for i, v := range n.In {
			if v == nil {
				continue
			}
			c.In[i] = graph.Tensor{DType: v.DType, Rows: p.Part(step, v).Size(v.Shape.Outer, b), Cols: v.Shape.RowLen()}
			if v.Node.Leaf != nil && v.Node.Leaf.Kind == graph.InputLeaf && v.DType == tensor.I32 {
				c.In[i].I32 = s.I32(v)[:v.Shape.Len(b)]
			}
			if read[v] || slices.Contains(n.In[:i], v) {
				sum.Bytes -= c.In[i].Bytes()
			}
		}
		for _, v := range n.In {
			read[v] = true
		}
		for i, v := range n.Out {
			placed := p.Place(v).Bytes > 0
			if placed || len(step.Nodes) > 1 {
				c.Out[i] = graph.Tensor{DType: v.DType, Rows: p.Part(step, v).Size(v.Shape.Outer, b), Cols: v.Shape.RowLen()}
			}
			if step.Sums(v) {
				sum.Bytes += c.Out[i].Bytes()
			}
			if !placed && len(step.Nodes) > 1 {
				sum.Bytes -= 8 * int64(v.Shape.Len(b))
			}
			read[v] = placed
		}
		cost := n.Op.Cost(&c)
		sum.FLOPs += cost.FLOPs
		sum.Bytes += cost.Bytes
	}
	return sum
}

func readsWeight(s *plan.Step) bool {
	for _, n := range s.Nodes {
		for _, v := range n.In {
			if v != nil && v.Node.Leaf != nil && v.Node.Leaf.Kind == graph.WeightLeaf {
				return true
			}
		}
	}
	return false
}

// program is one way to use a model, with inputs for a batch.
type program struct {
	name  string
	model func(t *testing.T) string // its path
	build func(m *model.Model, most tensor.Bind) (*graph.Graph, *model.Ports, error)
}

func testmodel(name string) func(*testing.T) string {
	return func(t *testing.T) string { return testmodels.Dir(t, name) }
}

var programs = []program{
	{"embed", testmodel("bert"), func(m *model.Model, most tensor.Bind) (*graph.Graph, *model.Ports, error) {
		return m.BuildEmbed(most, model.EmbedOptions{Normalize: true})
	}},
	{"generate", testmodel("llama"), func(m *model.Model, most tensor.Bind) (*graph.Graph, *model.Ports, error) {
		return m.BuildGenerate(most, model.KVLayout{Blocks: 8, MaxBlocksPerSeq: 2})
	}},
	// Experts: not all are read where there are fewer tokens.
	{"generate-experts", func(*testing.T) string { return filepath.Join("..", "model", "testdata", "qwen3-moe") }, func(m *model.Model, most tensor.Bind) (*graph.Graph, *model.Ports, error) {
		return m.BuildGenerate(most, model.KVLayout{Blocks: 8, MaxBlocksPerSeq: 2})
	}},
	{"train", testmodel("llama"), func(m *model.Model, most tensor.Bind) (*graph.Graph, *model.Ports, error) {
		g, p, _, err := m.BuildTrain(most, model.TrainOptions{})
		return g, p, err
	}},
}

// fillInputs puts a batch of random lengths into the inputs of a program.
func fillInputs(rng *rand.Rand, s *plan.Session, p *model.Ports, b tensor.Bind) {
	starts := s.I32(p.QStart)
	starts[0] = 0
	for i := 1; i < b.S; i++ {
		room := b.T - int(starts[i-1]) - (b.S - i)
		starts[i] = starts[i-1] + 1 + int32(rng.IntN(room))
	}
	starts[b.S] = int32(b.T)
	for i := range b.T {
		s.I32(p.Tokens)[i], s.I32(p.Pos)[i] = int32(rng.IntN(20)), int32(i)
	}
	if p.KVLen != nil {
		for i := range b.S {
			s.I32(p.KVLen)[i] = starts[i+1] - starts[i] + int32(rng.IntN(9))
		}
	}
	if p.Targets != nil {
		for i := range b.R {
			s.I32(p.Targets)[i] = int32(rng.IntN(20)) - 3
		}
	}
}

// TestCostsOfRuns: the costs that a profile has are those that each op would
// have said after its run, although they are computed later, once for steps
// that are alike, when the inputs hold something else.
func TestCostsOfRuns(t *testing.T) {
	most := tensor.Bind{T: 24, S: 4, R: 24}
	for _, pr := range programs {
		for _, be := range []plan.Backend{ref.New(), cpuBackend(t)} {
			t.Run(pr.name+"/"+be.Caps().Name, func(t *testing.T) { testCosts(t, be, pr, most) })
		}
	}
	be, err := cpu.New(cpu.Options{Workers: 1, ChunkRows: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	t.Run("train/chunks", func(t *testing.T) {
		testCosts(t, be, programs[slices.IndexFunc(programs, func(p program) bool { return p.name == "train" })], most)
	})
}

func cpuBackend(t *testing.T) plan.Backend {
	be, err := cpu.New(cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { be.Close() })
	return be
}

// TestNodesOfSiblings: products that ran as one step are told apart to the last
// FLOP, no byte is lost, and the step is called after all of them.
func TestNodesOfSiblings(t *testing.T) {
	st, err := weights.Open(testmodels.Dir(t, "llama")) // with fewer keys and values than queries
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	m, err := model.Open(st)
	if err != nil {
		t.Fatal(err)
	}
	b := tensor.Bind{T: 23, S: 1, R: 1}
	g, ports, err := m.BuildGenerate(b, model.KVLayout{Blocks: 8, MaxBlocksPerSeq: 2})
	if err != nil {
		t.Fatal(err)
	}
	be := cpuBackend(t)
	s, _ := openSession(t, "generate", g, be, []tensor.Bind{g.Max}, m)
	defer s.Close()
	rec := profile.NewRecorder(profile.Options{})
	if err := s.Attach(rec, plan.ProfileLabels{Model: "llama"}); err != nil {
		t.Fatal(err)
	}
	fillInputs(rand.New(rand.NewPCG(7, 8)), s, ports, b)
	if err := s.Run(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	prof := rec.Snapshot()
	var step *profile.StepResult
	for _, r := range prof.Where(func(r profile.StepResult) bool { return r.Step.Name == "blk.1/q_proj+k_proj+v_proj" }) {
		step = &r
	}
	if step == nil {
		t.Fatal("no step is called blk.1/q_proj+k_proj+v_proj")
	}
	var bytes int64
	layer := childNode(t, prof.Tree(), "blk.1")
	for _, n := range g.Nodes {
		if !slices.ContainsFunc(step.Step.Nodes, func(s profile.Node) bool { return s.Name == n.Name }) {
			continue
		}
		part := childNode(t, layer, strings.TrimPrefix(n.Name, "blk.1/"))
		if want := 2 * int64(b.T) * int64(n.In[1].Shape.Len(tensor.Bind{})); part.FLOPs != want {
			t.Errorf("%s has %d FLOPs, expected %d", n.Name, part.FLOPs, want)
		}
		bytes += part.Bytes
	}
	if bytes != step.Bytes || len(step.Step.Nodes) != 3 {
		t.Errorf("the parts move %d bytes, the step %d", bytes, step.Bytes)
	}
}

func childNode(t *testing.T, n *profile.TreeNode, name string) *profile.TreeNode {
	t.Helper()
	i := slices.IndexFunc(n.Children, func(c *profile.TreeNode) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("%s has no part %s", n.Name, name)
	}
	return n.Children[i]
}

func testCosts(t *testing.T, be plan.Backend, pr program, most tensor.Bind) {
	st, err := weights.Open(pr.model(t))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	m, err := model.Open(st)
	if err != nil {
		t.Fatal(err)
	}
	g, ports, err := pr.build(m, most)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile(pr.name, g, be, []tensor.Bind{g.Max}, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(context.Background(), p, plan.NewWeightSet(be, m), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rec := profile.NewRecorder(profile.Options{})
	if err := s.Attach(rec, plan.ProfileLabels{Model: pr.name}); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	var want [][]profile.Cost // [run][step]
	b := g.Max
	for i := range 40 {
		if i%3 == 0 { // every size three times in turn
			b = tensor.Bind{T: 1 + rng.IntN(g.Max.T), R: 1}
			b.S = min(b.T, 1+rng.IntN(g.Max.S))
			b.R = min(g.Max.R, 1+rng.IntN(b.T))
		}
		if i%3 != 2 { // the last time with the same inputs
			fillInputs(rng, s, ports, b)
		}
		var costs []profile.Cost
		for k := range p.Plans[0].Steps {
			costs = append(costs, directCost(s, p.Plans[0], &p.Plans[0].Steps[k], b))
		}
		want = append(want, costs)
		if err := s.Run(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
	prof := rec.Snapshot()
	if len(prof.Runs) != len(want) {
		t.Fatalf("%d runs kept, want %d", len(prof.Runs), len(want))
	}
	for i := range prof.Runs {
		r := &prof.Runs[i]
		for k := range p.Plans[0].Steps {
			step := &p.Plans[0].Steps[k]
			if w := want[i][k]; r.FLOPs[k] != w.FLOPs {
				t.Errorf("run %d, %s (%s): %d FLOPs, want %d", i, step.Root().Name, step.Kind, r.FLOPs[k], w.FLOPs)
			} else if packed := be.Caps().Name == "cpu" && readsWeight(step); r.Bytes[k] != w.Bytes && !packed {
				t.Errorf("run %d, %s (%s): %d bytes, want %d", i, step.Root().Name, step.Kind, r.Bytes[k], w.Bytes)
			}
		}
	}
}

package cpu_test

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/batch"
	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// embedsApart is the CPU with a step of its own for each embedding and each sum of them.
type embedsApart struct{ *cpu.Backend }

var embedsKinds = []string{"embed+embed", "embed+embed+row"}

func (a embedsApart) Patterns() []plan.Pattern {
	return slices.DeleteFunc(a.Backend.Patterns(), func(p plan.Pattern) bool { return slices.Contains(embedsKinds, p.Kind) })
}

// TestFusedEmbeddingsKeepBits: a sum of embeddings has the same bits in one step as in
// several, whatever the type of the tables.
func TestFusedEmbeddingsKeepBits(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"bert", "bert-odd", "roberta", "distilbert", "gpt2", "gguf/bert-f16.gguf", "gguf/bert-q4_1.gguf", "gguf/gpt2-f16.gguf"} {
		m := cpu.OpenModel(t, filepath.Join("../../testmodels/testdata", name))
		for _, lengths := range [][]int{{1}, {5, 0, 17}, {30, 1, 40}} {
			sameBits(t, name, m, lengths, seen)
		}
	}
	for _, k := range embedsKinds {
		if !seen[k] {
			t.Errorf("no model has a step %s", k)
		}
	}
}

// sameBits compares the vectors of one step with those of several, and notes the kinds
// of steps in seen.
func sameBits(t *testing.T, name string, m *model.Model, lengths []int, seen map[string]bool) {
	t.Helper()
	want, _ := vectorsOf(t, m, 1, lengths, true)
	for workers := 1; workers <= 2; workers++ {
		got, kinds := vectorsOf(t, m, workers, lengths, false)
		for _, k := range kinds {
			seen[k] = true
		}
		if len(got) != len(want) || len(got) == 0 {
			t.Fatalf("%s, %v tokens, %d workers: %d values, expected %d", name, lengths, workers, len(got), len(want))
		}
		for i := range got {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Errorf("%s, %v tokens, %d workers: value %d is %g, %g in steps of their own", name, lengths, workers, i, got[i], want[i])
				break
			}
		}
	}
}

// opened is a session of a graph with plans for these sizes.
func opened(t *testing.T, be plan.Backend, m *model.Model, g *graph.Graph, sizes ...tensor.Bind) *plan.Session {
	t.Helper()
	p, err := plan.Compile("embed", g, be, sizes, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(context.Background(), p, plan.NewWeightSet(be, m), plan.BindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// vectorsOf is the vectors of sequences of these lengths, and the kinds of steps.
func vectorsOf(t *testing.T, m *model.Model, workers int, lengths []int, apart bool) (vectors []float32, kinds []string) {
	t.Helper()
	on, err := cpu.New(cpu.Options{Workers: workers, Test: true})
	if err != nil {
		t.Fatal(err)
	}
	defer on.Close()
	var be plan.Backend = on
	if apart {
		be = embedsApart{on}
	}
	all := tensor.Bind{S: len(lengths)}
	for _, n := range lengths {
		all.T += n
	}
	g, ports, err := m.BuildEmbed(all, model.EmbedOptions{Pooling: m.Config().Pooling, Normalize: true})
	if err != nil {
		t.Fatal(err)
	}
	s := opened(t, be, m, g, all)
	defer s.Close()
	b := batch.New(s.Slot(0), ports)
	b.Reset()
	for i, n := range lengths {
		ids := make([]int32, n)
		for k := range ids {
			ids[k] = int32((7*k + 11*i + 3) % m.Config().Vocab)
		}
		b.Add(ids, 0, n)
	}
	if err := s.Run(context.Background(), all); err != nil {
		t.Fatal(err)
	}
	for _, s := range s.Program().Plans[0].Steps {
		if apart && slices.Contains(embedsKinds, s.Kind) {
			t.Errorf("a step %s, expected one for each op", s.Kind)
		}
		kinds = append(kinds, s.Kind)
	}
	return slices.Clone(s.F32(ports.Embedding)), kinds
}

// An op without FLOPs has no part of its step's, whatever the size of the plan: recordings
// of one build compute the same work per token in plans of any size.
func TestEmbeddingsHaveNoFLOPs(t *testing.T) {
	be, err := cpu.New(cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	m := cpu.OpenModel(t, filepath.Join("../../testmodels/testdata", "bert"))
	sizes := []tensor.Bind{{T: 16, S: 4}, {T: 64, S: 4}}
	g, _, err := m.BuildEmbed(sizes[1], model.EmbedOptions{Pooling: m.Config().Pooling, Normalize: true})
	if err != nil {
		t.Fatal(err)
	}
	s := opened(t, be, m, g, sizes...)
	defer s.Close()
	rec := profile.NewRecorder(profile.Options{})
	if err := s.Attach(rec, plan.ProfileLabels{Model: "bert"}); err != nil {
		t.Fatal(err)
	}
	plans := rec.Snapshot().Plans
	if len(plans) != len(sizes) {
		t.Fatalf("%d plans, expected %d", len(plans), len(sizes))
	}
	for _, p := range plans {
		var got []profile.Node
		for _, s := range p.Steps {
			if s.Op == "embed+embed+row" {
				got = s.Nodes
			}
		}
		want := map[string]float64{"embed": 0, "add": 0.5, "add_row": 0.5}
		if len(got) != 4 {
			t.Errorf("%s: nodes %+v, expected two lookups and two sums", p.ID, got)
		}
		for _, n := range got {
			if n.Share != want[n.Op] {
				t.Errorf("%s: %s has %v of the step's FLOPs, expected %v", p.ID, n.Op, n.Share, want[n.Op])
			}
		}
	}
}

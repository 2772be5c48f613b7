package cpu_test

import (
	"slices"
	"strings"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/testmodels"
)

// TestStepsOfALayer: a layer is as few steps as there are kernels for, and no
// step waits for another that it has nothing to do with.
func TestStepsOfALayer(t *testing.T) {
	be, err := cpu.New(cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	most := tensor.Bind{T: 64, S: 2, R: 64} // few rows take in their neighbours
	embed := func(m *model.Model) (*graph.Graph, error) {
		g, _, err := m.BuildEmbed(most, model.EmbedOptions{})
		return g, err
	}
	generate := func(m *model.Model) (*graph.Graph, error) {
		g, _, err := m.BuildGenerate(most, model.KVLayout{Blocks: 4, MaxBlocksPerSeq: 2})
		return g, err
	}
	decode := func(m *model.Model) (*graph.Graph, error) {
		g, _, err := m.BuildGenerate(tensor.Bind{T: 1, S: 1, R: 1}, model.KVLayout{Blocks: 4, MaxBlocksPerSeq: 2})
		return g, err
	}
	train := func(m *model.Model) (*graph.Graph, error) {
		g, _, _, err := m.BuildTrain(most, model.TrainOptions{})
		return g, err
	}
	for _, c := range []struct {
		name, model string
		build       func(m *model.Model) (*graph.Graph, error)
		op          string   // of the first step that is looked at, of layer 1
		want        []string // a barrier before each but those in parentheses
	}{
		{"encoder", "bert", embed, "linear+linear", []string{"linear+linear", "attention", "linear", "add+norm", "linear+act", "linear", "add+norm"}},
		{"begin of an encoder", "bert", embed, "embed+embed+row", []string{"(embed+embed+row)", "norm", "linear+linear"}},
		{"norms around blocks", "embeddinggemma", embed, "linear+linear", []string{"linear+linear", "norm+rope", "(norm+rope)", "attention", "linear", "norm+add+norm", "linear+glu", "linear", "norm+add+norm"}},
		{"decoder", "llama", generate, "linear+linear", []string{"linear+linear", "rope", "(rope+kv_write)", "attention_kv", "linear", "add+norm", "linear+glu", "linear"}},
		{"decoder, a single row", "llama", decode, "linear+linear", []string{"linear+linear", "attention_kv", "linear", "linear+glu", "linear"}},
		{"decoder without a gate, a single row", "gpt2", decode, "linear+linear", []string{"linear+linear", "attention_kv", "linear", "linear+act", "linear"}},
		{"forward of training", "llama", train, "linear+linear", []string{"linear+linear", "rope", "(rope)", "attention", "linear", "add+norm", "linear+linear", "glu", "linear"}},
		{"gradients of a gate", "llama", train, "glu_grad", []string{"glu_grad", "linear_dx", "(linear_dw)", "(linear_dw)", "linear_dx+add", "norm_dw"}},
		{"gradients of a norm", "llama", train, "norm_dw", []string{"norm_dw", "norm_dx+add", "linear_dx", "(linear_dw)", "attention_grad"}},
		{"gradient of a tied table", "gpt2", train, "embed_grad+add", []string{"(embed_grad+add)"}},
	} {
		m := cpu.OpenModel(t, testmodels.Dir(t, c.model))
		g, err := c.build(m)
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Compile("test", g, be, []tensor.Bind{g.Max}, plan.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		steps := p.Plans[0].Steps
		of := func(layer int) int {
			return slices.IndexFunc(steps, func(s plan.Step) bool { return s.Kind == c.op && s.Root().Layer == layer })
		}
		first := of(1)
		if first < 0 {
			first = of(-1) // outside of any layer
		}
		if first < 0 || len(steps) < first+len(c.want) {
			t.Fatalf("%s: layer 1 has no %s", c.name, c.op)
		}
		var got []string
		for _, s := range steps[first : first+len(c.want)] {
			if kind := s.Kind; s.Barrier {
				got = append(got, kind)
			} else {
				got = append(got, "("+kind+")")
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: steps are %s, expected %s", c.name, strings.Join(got, " "), strings.Join(c.want, " "))
		}
	}
}

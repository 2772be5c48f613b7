package bench

import (
	"slices"
	"strings"

	"hotpath/internal/builtin"
)

// Group is a kind of case.
type Group struct {
	Name  string
	What  string
	Model string // what the model must do; "" where none is needed
	Cases func(e *Env) []*Case
}

// Groups is the table of benchmarks, in the order in which they run.
var Groups = []Group{
	{"ceiling", "what the machine can do: arithmetic by class, reads by size", "", ceilingCases},
	{"matmul", "the product kernels alone: class, storage type, rows, dimensions, tile sizes", "", matmulCases},
	{"linear", "products as a model runs them: storage type, rows, dimensions", "", linearCases},
	{"rope", "rotary positions: heads, lengths, both orders of pairs", "", ropeCases},
	{"attention", "heads, lengths, masks, one and many queries", "", attentionCases},
	{"norm", "layer, RMS and QK norms: sizes and batches", "", normCases},
	{"activation", "GELU, SiLU, GLU, exponentials and softmax", "", activationCases},
	{"pool", "pooling of token vectors", "", poolCases},
	{"loss", "cross-entropy over a vocabulary", "", lossCases},
	{"embed", "whole batches through a model", "embeds 16 tokens", embedCases},
	{"prefill", "prompts through a model", "generates after 16 tokens", prefillCases},
	{"decode", "tokens one after another from a model", "generates 49 tokens", decodeCases},
	{"cancel", "how long calls go on after their context has ended; --time for many of them", "embeds 16 tokens or generates after 512", cancelCases},
}

// GroupNames lists the names of the table.
func GroupNames() []string {
	names := make([]string, len(Groups))
	for i, g := range Groups {
		names[i] = g.Name
	}
	return names
}

// DefaultModel names the model inside the program that suits the named groups:
// the generator where one of them generates, the embedder where one embeds, ""
// where none needs a model.
func DefaultModel(names []string) string {
	model := ""
	for _, g := range Groups {
		switch {
		case !slices.Contains(names, g.Name) || g.Model == "":
		case strings.HasPrefix(g.Model, "generates"):
			return builtin.Generator
		default:
			model = builtin.Embedder
		}
	}
	return model
}

package bench

// Group is a kind of case.
type Group struct {
	Name  string
	What  string
	Model bool // needs a model
	Cases func(e *Env) []*Case
}

// Groups is the table of benchmarks, in the order in which they run.
var Groups = []Group{
	{"ceiling", "what the machine can do: arithmetic by class, reads by size", false, ceilingCases},
	{"matmul", "the product kernels alone: class, storage type, rows, dimensions, tile sizes", false, matmulCases},
	{"linear", "products as a model runs them: storage type, rows, dimensions", false, linearCases},
	{"rope", "rotary positions: heads, lengths, both orders of pairs", false, ropeCases},
	{"attention", "heads, lengths, masks, one and many queries", false, attentionCases},
	{"norm", "layer, RMS and QK norms: sizes and batches", false, normCases},
	{"activation", "GELU, SiLU, GLU, exponentials and softmax", false, activationCases},
	{"pool", "pooling of token vectors", false, poolCases},
	{"loss", "cross-entropy over a vocabulary", false, lossCases},
	{"embed", "whole batches through a model", true, embedCases},
	{"prefill", "prompts through a model", true, prefillCases},
	{"decode", "tokens one after another from a model", true, decodeCases},
	{"cancel", "how long calls go on after their context has ended; --time for many of them", true, cancelCases},
}

// GroupNames lists the names of the table.
func GroupNames() []string {
	names := make([]string, len(Groups))
	for i, g := range Groups {
		names[i] = g.Name
	}
	return names
}

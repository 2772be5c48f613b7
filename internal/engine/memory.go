package engine

import (
	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// GenerateBytes is the memory of the program that generates, arenas and resident
// weights, without opening it.
func (e *Engine) GenerateBytes() (int64, error) {
	g, _, err := e.model.BuildGenerate(e.generator.most(), e.kvLayout(e.opts.KVBlocks))
	if err != nil {
		return 0, err
	}
	return e.bytes(g)
}

// EmbedBytes is the memory of the program that embeds, arenas and resident weights,
// without opening it. Runs are fine.
func (e *Engine) EmbedBytes(o model.EmbedOptions) (int64, error) {
	g, _, err := e.model.BuildEmbed(tensor.Bind{T: max(e.opts.MaxBatchTokens, e.cfg.MaxSeq), S: e.opts.MaxSeqs, R: 1}, o)
	if err != nil {
		return 0, err
	}
	return e.bytes(g)
}

func (e *Engine) bytes(g *graph.Graph) (sum int64, err error) {
	prog, err := e.compile("memory", g, plan.CompileOptions{})
	if err != nil {
		return 0, err
	}
	for _, n := range prog.MemoryBytes() {
		sum += n
	}
	return sum, nil
}

package engine

import (
	"slices"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/testmodels"
)

// TestInvariantGenerationsAreExact: neither company nor the size of batches,
// the cache, yielding or the number of workers changes a bit.
func TestInvariantGenerationsAreExact(t *testing.T) {
	for name, path := range repeatable(t) {
		t.Run(name, func(t *testing.T) {
			onTiers(t, 3, func(t *testing.T, be *cpu.Backend) {
				e := openOn(t, path, be, Options{Invariant: true, MaxBatchTokens: 512})
				var reqs []Request
				var want []trace
				for i, n := range []int{60, 65, 1, 129, 120} {
					req := drawn(e, n, i)
					req.MaxTokens = 20
					reqs, want = append(reqs, req), append(want, alone(t, e, req))
					if d := want[i].differs(alone(t, e, req)); d != "" {
						t.Errorf("prompt of %d again: %s", n, d)
					}
				}
				for _, o := range []Options{{MaxBatchTokens: 512}, {MaxBatchTokens: 67}, {MaxBatchTokens: 7, Workers: 1}, {Ctx: 192, KVBlocks: 4, Workers: 2}} {
					o.Invariant = true
					e := openOn(t, path, be, o)
					for i, got := range traced(t, e, 3, reqs...) {
						if d := want[i].differs(got); d != "" {
							t.Errorf("prompt of %d in batches of %d on %d workers: %s", len(reqs[i].Prompt), o.MaxBatchTokens, o.Workers, d)
						}
					}
					if o.KVBlocks > 0 && e.Stats().Preemptions == 0 {
						t.Error("nobody had to yield: the test shows less than it should")
					}
				}
			})
		})
	}
}

// TestInvariantVectorsAreExact: a vector has the same bits alone and beside
// others, on any number of workers.
func TestInvariantVectorsAreExact(t *testing.T) {
	for _, name := range []string{"gguf/bert-q4_1", "gguf/bert-q8_0", "gguf/embeddinggemma-f16", "modernbert", "gguf/llama-q4_1"} {
		t.Run(name, func(t *testing.T) {
			onTiers(t, 3, func(t *testing.T, be *cpu.Backend) {
				var want [][]float32
				for _, workers := range []int{1, 2, 3} {
					e := openOn(t, testmodels.Dir(t, name), be, Options{Invariant: true, Workers: workers})
					var seqs [][]int32
					for i, n := range []int{1, 2, 9, 17, 40, 5, 1, 33} {
						seqs = append(seqs, text(e, min(n, e.cfg.MaxSeq), i))
					}
					w := e.cfg.EmbedDim
					got := make([]float32, len(seqs)*w)
					if err := e.EmbedIDs(t.Context(), seqs, got, e.pooling()); err != nil {
						t.Fatal(err)
					}
					for i := range seqs {
						one := make([]float32, w)
						if err := e.EmbedIDs(t.Context(), seqs[i:i+1], one, e.pooling()); err != nil {
							t.Fatal(err)
						}
						if workers == 1 {
							want = append(want, one)
						}
						if !slices.Equal(one, want[i]) || !slices.Equal(got[i*w:(i+1)*w], want[i]) {
							t.Errorf("text %d of %d tokens on %d workers: the vector depends on its run", i, len(seqs[i]), workers)
						}
					}
				}
			})
		})
	}
}

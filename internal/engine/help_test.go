package engine

import (
	"slices"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/testmodels"
)

// TestHelpersComputeTheSameBits: workers that join the last coarse runs of others change
// no vector.
func TestHelpersComputeTheSameBits(t *testing.T) {
	const workers, texts = 2 * fewWorkers, 19
	for _, name := range testmodels.Directories(testmodels.Encoders(t)) {
		for _, precision := range []cpu.Precision{cpu.F32, cpu.Auto} {
			be, err := cpu.New(cpu.Options{Workers: workers, Precision: precision})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { be.Close() })
			e := open(t, name, be, Options{Parallel: Coarse, Workers: workers})
			if helpers(workers) == 0 {
				t.Fatal("nobody helps")
			}
			var seqs [][]int32
			for i := range texts {
				ids := make([]int32, min(20+13*i%150, e.cfg.MaxSeq, coarseLongest))
				for k := range ids {
					ids[k] = int32((7 + 13*i + 5*k) % e.cfg.Vocab)
				}
				seqs = append(seqs, ids)
			}
			var want []float32
			for i := range 12 {
				got := make([]float32, len(seqs)*e.cfg.EmbedDim)
				if err := e.EmbedIDs(t.Context(), seqs, got, e.pooling()); err != nil {
					t.Fatal(err)
				}
				if want == nil {
					want = got
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%s, %s: vectors differ in call %d", name, precision, i)
				}
			}
			if s := e.Stats(); s.FineRuns > 0 || s.CoarseRuns == 0 {
				t.Errorf("%s: %d fine and %d coarse runs", name, s.FineRuns, s.CoarseRuns)
			}
		}
	}
}

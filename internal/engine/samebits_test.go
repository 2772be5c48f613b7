package engine

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/testmodels"
)

// TestSharingComputesTheSameBits: where the scheduler holds that vectors do not
// depend on their run, texts alone, together and shared out give the same bits.
// Models with weights in the file's blocks are not among them.
func TestSharingComputesTheSameBits(t *testing.T) {
	alike := map[bool]int{}
	dirs := []string{wideLlama(t)}
	for _, name := range testmodels.Encoders(t) {
		dirs = append(dirs, testmodels.Dir(t, name))
	}
	for _, dir := range dirs {
		for _, precision := range []cpu.Precision{cpu.F32, cpu.Auto} {
			be, err := cpu.New(cpu.Options{Workers: 3, Precision: precision})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { be.Close() })
			e := openOn(t, dir, be, Options{})
			var seqs [][]int32
			for i, n := range []int{1, 2, 3, 5, 15, 40, 16, 17, 31, 33, 64, 65, 100, 129} {
				ids := make([]int32, min(n, e.cfg.MaxSeq))
				for k := range ids {
					ids[k] = int32((7 + 13*i + 5*k) % e.cfg.Vocab)
				}
				seqs = append(seqs, ids)
			}
			w := e.cfg.EmbedDim
			embed := func(m Mode, seqs [][]int32, dst []float32) {
				e.SetParallel(m)
				if err := e.EmbedIDs(t.Context(), seqs, dst, e.pooling()); err != nil {
					t.Fatal(err)
				}
			}
			var got [3][]float32
			for i := range got {
				got[i] = make([]float32, len(seqs)*w)
			}
			embed(Fine, seqs, got[0])
			embed(Coarse, seqs, got[1])
			for i := range seqs {
				embed(Coarse, seqs[i:i+1], got[2][i*w:])
			}
			same := e.embedders[e.pooling()].fine.sess.Program().Uniform()
			alike[same]++
			if same && !(slices.Equal(got[0], got[1]) && slices.Equal(got[0], got[2])) {
				t.Errorf("%s, %s: vectors depend on what else is in their run", filepath.Base(dir), precision)
			}
		}
	}
	if alike[true] == 0 || alike[false] == 0 {
		t.Errorf("%d models of one kind, %d of the other: expected both", alike[true], alike[false])
	}
}

// TestAnyWorkersComputeTheSameBits: vectors do not depend on the number of
// workers. How many of them take part in a run is a matter of the backend's
// tests.
func TestAnyWorkersComputeTheSameBits(t *testing.T) {
	for _, name := range testmodels.Directories(testmodels.Encoders(t)) {
		for _, precision := range []cpu.Precision{cpu.F32, cpu.Auto} {
			be, err := cpu.New(cpu.Options{Workers: 4, Precision: precision})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { be.Close() })
			var engines []*Engine
			for _, workers := range []int{1, 2, 4} {
				engines = append(engines, open(t, name, be, Options{Parallel: Fine, Workers: workers}))
			}
			alone := engines[0]
			for _, tokens := range []int{1, 7, 16, 33, 64, 65, 140, 250} {
				if tokens > alone.cfg.MaxSeq {
					continue
				}
				ids := make([]int32, tokens)
				for i := range ids {
					ids[i] = int32((7 + 13*i) % alone.cfg.Vocab)
				}
				for _, seqs := range [][][]int32{{ids}, {ids[:(tokens+1)/2], ids[tokens/2:]}} {
					var want []float32
					for _, e := range engines {
						got := make([]float32, len(seqs)*e.cfg.EmbedDim)
						if err := e.EmbedIDs(context.Background(), seqs, got, e.pooling()); err != nil {
							t.Fatal(err)
						}
						if want == nil {
							want = got
						}
						if !slices.Equal(got, want) {
							t.Errorf("%s, %s: %d texts of %d tokens in all: one worker and %d differ", name, precision, len(seqs), tokens, e.opts.Workers)
						}
					}
				}
			}
		}
	}
}

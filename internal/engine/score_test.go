package engine

import (
	"context"
	"errors"
	"slices"
	"testing"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/backend/ref"
	"hotpath/internal/testmodels"
)

// TestScoresDoNotDependOnCompany: a text's likelihoods have the same bits alone,
// beside others, in batches of any size and on any number of workers.
func TestScoresDoNotDependOnCompany(t *testing.T) {
	for name, path := range repeatable(t) {
		t.Run(name, func(t *testing.T) {
			onTiers(t, 4, func(t *testing.T, be *cpu.Backend) {
				e := openOn(t, path, be, Options{})
				var want [][]float32
				var ids [][]int32
				for i, n := range []int{2, 40, 3, 129, 17, 66, 2, 9, 450, 5} {
					ids = append(ids, text(e, min(n, e.opts.Ctx), i))
					nll, err := e.ScoreIDs(t.Context(), ids[i:])
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, nll[0])
				}
				for _, o := range []Options{{Workers: 1}, {Workers: 2, MaxBatchTokens: 67}, {Workers: 3, MaxBatchTokens: 129}, {Workers: 4, MaxBatchTokens: 11}} {
					got, err := openOn(t, path, be, o).ScoreIDs(t.Context(), ids)
					if err != nil {
						t.Fatal(err)
					}
					for i := range want {
						if !slices.Equal(got[i], want[i]) {
							t.Errorf("text %d of %d tokens, batches of %d, %d workers: %v, alone %v", i, len(ids[i]), o.MaxBatchTokens, o.Workers, got[i], want[i])
						}
					}
				}
			})
		})
	}
}

// TestRealModelScoresDoNotDependOnCompany: so has a real model's, whose texts
// are longer than a run.
func TestRealModelScoresDoNotDependOnCompany(t *testing.T) {
	path := testmodels.RealOrInside(t, "SmolLM2-135M-Instruct.Q4_1.gguf")
	if testing.Short() {
		t.Skip("a real model takes long")
	}
	be, err := cpu.New(cpu.Options{Workers: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	e := openOn(t, path, be, Options{Workers: 2})
	ids := [][]int32{text(e, 3, 1), text(e, min(530, e.cfg.MaxSeq), 2), text(e, 20, 3)}
	var want [][]float32
	for i := range ids {
		nll, err := e.ScoreIDs(t.Context(), ids[i:i+1])
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, nll[0])
	}
	for _, o := range []Options{{Workers: 1}, {Workers: 3, MaxBatchTokens: 67}, {Workers: 4, MaxBatchTokens: 301}} {
		got, err := openOn(t, path, be, o).ScoreIDs(t.Context(), ids)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if !slices.Equal(got[i], want[i]) {
				t.Errorf("likelihoods of a text of %d tokens in batches of %d on %d workers are not those that it has alone", len(ids[i]), o.MaxBatchTokens, o.Workers)
			}
		}
	}
}

// TestCancelledScoresEndTheirRun: a run with several texts of one call ends with the
// call's context, and is no run of several calls.
func TestCancelledScoresEndTheirRun(t *testing.T) {
	be := &patient{Backend: ref.New(), enter: make(chan struct{}, 1), left: make(chan error, 1)}
	e := open(t, "llama", be, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := e.ScoreIDs(ctx, [][]int32{{1, 2, 3}, {4, 5, 6, 7}})
		ended <- err
	}()
	<-be.enter
	cancel()
	if err := <-be.left; !errors.Is(err, context.Canceled) {
		t.Errorf("the run ended with %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	if n := e.Stats().MergedRuns; n != 0 {
		t.Errorf("%d runs served several calls, expected none", n)
	}
	if p := e.scorer.pool; p.Available() != p.Size() {
		t.Errorf("%d of %d blocks are free", p.Available(), p.Size())
	}
}

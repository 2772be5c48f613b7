package engine

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"hotpath/internal/testmodels"
)

// Scores of pairs as sentence-transformers has them, in batches of several
// sizes and by several callers at once.
func TestRerank(t *testing.T) {
	for _, name := range []string{"rerank-bert", "rerank-roberta", "rerank-distilbert"} {
		path := filepath.Join("..", "model", "testdata", "encoders", name)
		data, err := os.ReadFile(filepath.Join(path, "reference.json"))
		if err != nil {
			t.Fatal(err)
		}
		var want struct {
			Cases []struct {
				Query, Doc string
				Scores     []float32
			}
		}
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		for _, o := range []Options{{}, {MaxBatchTokens: 20, MaxSeqs: 2}} {
			e := openAt(t, path, o)
			var wait sync.WaitGroup
			for _, c := range want.Cases {
				wait.Go(func() {
					scores := make([]float32, 3)
					if err := e.Rerank(context.Background(), c.Query, []string{"a", c.Doc, "another one"}, scores, nil); err != nil {
						t.Errorf("%s: %v", name, err)
					}
					if d := math.Abs(float64(scores[1] - c.Scores[0])); !(d <= 2e-5*max(1, math.Abs(float64(c.Scores[0])))) {
						t.Errorf("%s: %.20q: score %g, want %g", name, c.Doc, scores[1], c.Scores[0])
					}
				})
			}
			wait.Wait()
		}
	}
}

func TestRerankRefuses(t *testing.T) {
	ctx := context.Background()
	labels := openAt(t, filepath.Join("..", "model", "testdata", "encoders", "rerank-bert-labels"), Options{})
	if err := labels.Rerank(ctx, "q", []string{"d"}, make([]float32, 1), nil); !errors.Is(err, ErrUnsupported) {
		t.Errorf("three labels: %v", err)
	}
	plain := openAt(t, testmodels.Dir(t, "bert"), Options{})
	if err := plain.Rerank(ctx, "q", []string{"d"}, make([]float32, 1), nil); !errors.Is(err, ErrUnsupported) {
		t.Errorf("no classifier: %v", err)
	}
	e := openAt(t, filepath.Join("..", "model", "testdata", "encoders", "rerank-bert"), Options{})
	if err := e.Rerank(ctx, "q", []string{"d", "e"}, make([]float32, 1), nil); !errors.Is(err, ErrInput) {
		t.Errorf("no room: %v", err)
	}
	if err := e.Rerank(ctx, "q", nil, nil, nil); err != nil {
		t.Errorf("nothing to rank: %v", err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := e.Rerank(gone, "q", []string{"d"}, make([]float32, 1), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Rerank(ctx, "q", []string{"d"}, make([]float32, 1), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

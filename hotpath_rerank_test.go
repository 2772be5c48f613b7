package hotpath

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

func TestRerank(t *testing.T) {
	dir := filepath.Join("internal", "model", "testdata", "encoders", "rerank-bert")
	data, err := os.ReadFile(filepath.Join(dir, "reference.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Cases []struct {
			Query, Doc string
			Scores     []float64
		}
	}
	if err := json.Unmarshal(data, &want); err != nil || len(want.Cases) == 0 {
		t.Fatalf("%d cases, %v", len(want.Cases), err)
	}
	m := open(t, dir, Options{Precision: "f32"})
	var docs []string
	for _, c := range want.Cases {
		docs = append(docs, c.Doc)
		got, err := m.Rerank(context.Background(), c.Query, []string{c.Doc})
		if err != nil {
			t.Fatal(err)
		}
		if d := math.Abs(float64(got[0].Score) - c.Scores[0]); d > 1e-4 {
			t.Errorf("%.30q is off by %v", c.Doc, d)
		}
	}
	ranked, err := m.Rerank(context.Background(), want.Cases[0].Query, docs)
	if err != nil || len(ranked) != len(docs) {
		t.Fatalf("%d of %d, %v", len(ranked), len(docs), err)
	}
	seen := map[int]bool{}
	for i, r := range ranked {
		if seen[r.Index] = true; i > 0 && r.Score > ranked[i-1].Score {
			t.Errorf("%v is not in order", ranked)
		}
	}
	if len(seen) != len(docs) {
		t.Errorf("%v is not every document once", ranked)
	}
	if info, err := m.Info(); err != nil || !info.CanRerank {
		t.Errorf("%+v, %v", info, err)
	}
	encoder := open(t, testmodels.Dir(t, "bert"), Options{})
	if _, err := encoder.Rerank(context.Background(), "q", docs); !errors.Is(err, ErrUnsupported) {
		t.Errorf("an encoder ranks: %v", err)
	}
}

// What a call needs is kept from call to call, also of documents that are cut.
func TestRerankIntoAllocatesNothing(t *testing.T) {
	m := open(t, filepath.Join("internal", "model", "testdata", "encoders", "rerank-bert"), Options{Threads: 2})
	docs := []string{"A stitch in time saves nine.", "rain", strings.Repeat("the boats had swung round ", 200)}
	scores, cut := make([]float32, len(docs)), []int{}
	ctx := context.Background()
	if n := testing.AllocsPerRun(5, func() {
		if err := m.RerankInto(ctx, scores, "What saves nine?", docs, RerankOptions{Truncated: &cut}); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if len(cut) != 1 || cut[0] != 2 {
		t.Errorf("cut: %v, expected document 2", cut)
	}
}

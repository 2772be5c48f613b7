package hotpath

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
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

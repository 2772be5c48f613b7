package train

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// ranked is a ranking with gains by document.
func ranked(scores, gains []float64) *ranking {
	r := &ranking{scores, map[int]float64{}}
	for doc, gain := range gains {
		if gain > 0 {
			r.relevant[doc] = gain
		}
	}
	return r
}

// The golden is of scipy and scikit-learn (scripts/goldens_metrics.py).
func TestMetricsMatchSciPy(t *testing.T) {
	var want struct {
		Pairs []struct {
			X, Y              []float64
			Pearson, Spearman float64
		}
		Queries, One []struct {
			Scores, Relevance []float64
			NDCG10, RR        float64
		}
	}
	data, err := os.ReadFile("testdata/metrics.json")
	must(t, err)
	must(t, json.Unmarshal(data, &want))
	same := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("%s %g, want %g", what, got, want)
		}
	}
	for _, p := range want.Pairs {
		same("Pearson", pearson(p.X, p.Y), p.Pearson)
		same("Spearman", spearman(p.X, p.Y), p.Spearman)
	}
	for _, q := range want.Queries {
		same("NDCG@10", ranked(q.Scores, q.Relevance).ndcg(10), q.NDCG10)
	}
	for _, q := range want.One {
		same("1/rank", ranked(q.Scores, q.Relevance).reciprocal(), q.RR)
	}
}

func TestMetricsAtTheirEdges(t *testing.T) {
	for _, got := range []float64{pearson([]float64{1}, []float64{2}), pearson([]float64{1, 1}, []float64{1, 2}), spearman(nil, nil)} {
		if !math.IsNaN(got) {
			t.Errorf("correlation %g of what has none", got)
		}
	}
	third, none := ranked([]float64{3, 2, 1}, []float64{0, 0, 1}), ranked([]float64{3, 2, 1}, nil)
	if got := third.reciprocal(); math.Abs(got-1.0/3) > 1e-12 {
		t.Errorf("reciprocal rank %g, want 1/3", got)
	}
	if got := third.ndcg(10); math.Abs(got-0.5) > 1e-12 {
		t.Errorf("NDCG %g, want 0.5: the relevant document is third, at half its gain", got)
	}
	if got := third.ndcg(2); got != 0 {
		t.Errorf("NDCG@2 %g, want 0", got)
	}
	if none.reciprocal() != 0 || none.ndcg(10) != 0 {
		t.Error("a query without relevant documents must count 0")
	}
	if equal := ranked([]float64{1, 1, 1}, []float64{0, 1, 0}); equal.rank(1) != 2 {
		t.Errorf("rank %d among equal scores, want 2", equal.rank(1))
	}
}

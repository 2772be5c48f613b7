package train

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

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
		same("Pearson", Pearson(p.X, p.Y), p.Pearson)
		same("Spearman", Spearman(p.X, p.Y), p.Spearman)
	}
	var all, one []Query
	var ndcg, rr float64
	for i, q := range want.Queries {
		all = append(all, Query{q.Scores, q.Relevance})
		same("NDCG@10", NDCG(all[i:], 10), q.NDCG10)
		ndcg += q.NDCG10 / float64(len(want.Queries))
	}
	for _, q := range want.One {
		one = append(one, Query{q.Scores, q.Relevance})
		rr += q.RR / float64(len(want.One))
	}
	same("NDCG@10 of all", NDCG(all, 10), ndcg)
	same("MRR", MRR(one, 0), rr)
}

func TestMetricsAtTheirEdges(t *testing.T) {
	for _, got := range []float64{Pearson([]float64{1}, []float64{2}), Pearson([]float64{1, 1}, []float64{1, 2}), Spearman(nil, nil)} {
		if !math.IsNaN(got) {
			t.Errorf("correlation %g of what has none", got)
		}
	}
	q := []Query{{[]float64{3, 2, 1}, []float64{0, 0, 1}}, {[]float64{3, 2, 1}, []float64{0, 0, 0}}}
	if got := MRR(q, 10); math.Abs(got-1.0/6) > 1e-12 {
		t.Errorf("MRR %g, want 1/6", got)
	}
	if got := MRR(q, 2); got != 0 {
		t.Errorf("MRR@2 %g, want 0", got)
	}
	if got := NDCG(q, 10); math.Abs(got-0.25) > 1e-12 {
		t.Errorf("NDCG %g, want 0.25: the relevant document is third, at half its gain", got)
	}
	if MRR(nil, 10) != 0 || NDCG(nil, 10) != 0 {
		t.Error("no queries must give 0")
	}
}

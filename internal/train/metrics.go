package train

import (
	"cmp"
	"math"
	"slices"
)

// Pearson is the linear correlation of x and y, NaN where one of them is
// constant or they have fewer than two elements.
func Pearson(x, y []float64) float64 {
	n := float64(len(x))
	var mx, my float64
	for i := range x {
		mx, my = mx+x[i]/n, my+y[i]/n
	}
	var xy, xx, yy float64
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		xy, xx, yy = xy+dx*dy, xx+dx*dx, yy+dy*dy
	}
	if len(x) < 2 || xx == 0 || yy == 0 {
		return math.NaN()
	}
	return max(-1, min(1, xy/math.Sqrt(xx*yy)))
}

// Spearman is the correlation of the ranks of x and y, as the STS benchmarks
// take it of cosines and of people's scores. Equal values share the mean of
// their ranks.
func Spearman(x, y []float64) float64 { return Pearson(ranks(x), ranks(y)) }

// ranks are from 1, in the order of x.
func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	out := make([]float64, len(x))
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && x[order[to]] == x[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			out[i] = float64(from+1+to) / 2
		}
		from = to
	}
	return out
}

// Query is one query of a retrieval test: how a model scores each document, and
// how relevant each of them is (0: not at all).
type Query struct {
	Scores, Relevance []float64 // by document
}

// ranked are the documents from the best score to the worst; of equal scores the
// first document comes first.
func (q *Query) ranked() []int {
	order := make([]int, len(q.Scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(q.Scores[b], q.Scores[a]) })
	return order
}

// MRR is the mean over queries of 1/rank of the first relevant document among
// the first k, 0 where there is none; k 0 means all.
func MRR(queries []Query, k int) float64 {
	return meanOf(queries, func(q *Query) float64 {
		for rank, doc := range q.ranked() {
			if k > 0 && rank >= k {
				break
			}
			if q.Relevance[doc] > 0 {
				return 1 / float64(rank+1)
			}
		}
		return 0
	})
}

// NDCG is the mean over queries of the discounted gain of the first k documents
// in parts of the best possible one; a query without a relevant document
// counts 0.
func NDCG(queries []Query, k int) float64 {
	return meanOf(queries, func(q *Query) float64 {
		best := slices.Clone(q.Relevance)
		slices.SortFunc(best, func(a, b float64) int { return cmp.Compare(b, a) })
		var got, most float64
		for rank, doc := range q.ranked() {
			if rank >= k {
				break
			}
			discount := math.Log2(float64(rank + 2))
			got, most = got+q.Relevance[doc]/discount, most+best[rank]/discount
		}
		if most == 0 {
			return 0
		}
		return got / most
	})
}

func meanOf(queries []Query, f func(q *Query) float64) float64 {
	var sum float64
	for i := range queries {
		sum += f(&queries[i])
	}
	return sum / float64(max(len(queries), 1))
}

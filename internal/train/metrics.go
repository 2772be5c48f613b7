package train

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// pearson is the linear correlation of x and y, NaN where one of them is
// constant or they have fewer than two elements.
func pearson(x, y []float64) float64 {
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

// spearman is the correlation of the ranks of x and y, as the STS benchmarks
// take it of cosines and of people's scores. Equal values share the mean of
// their ranks.
func spearman(x, y []float64) float64 { return pearson(ranks(x), ranks(y)) }

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

// ranking is the result for one query: the model's score of each document, and the
// gains of the relevant documents.
type ranking struct {
	scores   []float64
	relevant map[int]float64 // gain by document, above 0
}

// rank is the place of a document from 1 in the order of falling scores; of
// equal scores the first document comes first.
func (r *ranking) rank(doc int) int {
	place, score := 1, r.scores[doc]
	for i, s := range r.scores {
		if s > score || s == score && i < doc {
			place++
		}
	}
	return place
}

// reciprocal is 1/rank of the first relevant document, 0 where there is none.
func (r *ranking) reciprocal() float64 {
	best := 0.0
	for doc := range r.relevant {
		best = max(best, 1/float64(r.rank(doc)))
	}
	return best
}

// ndcg is the discounted gain of the first k documents in parts of the best
// possible one, 0 where no document is relevant.
func (r *ranking) ndcg(k int) float64 {
	var gains []float64
	found := 0.0
	for _, doc := range slices.Sorted(maps.Keys(r.relevant)) { // a sum in any order would have other bits
		gain := r.relevant[doc]
		gains = append(gains, gain)
		if place := r.rank(doc); place <= k {
			found += gain / math.Log2(float64(place+1))
		}
	}
	slices.SortFunc(gains, func(a, b float64) int { return cmp.Compare(b, a) })
	most := 0.0
	for i, gain := range gains[:min(k, len(gains))] {
		most += gain / math.Log2(float64(i+2))
	}
	if most == 0 {
		return 0
	}
	return found / most
}

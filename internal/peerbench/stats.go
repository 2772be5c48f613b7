package main

import (
	"math/rand/v2"
	"slices"

	"hotpath/internal/stats"
)

// quantile is stats.Quantile of values in any order, which it sorts.
func quantile(v []float64, q float64) float64 {
	slices.Sort(v)
	return stats.Quantile(v, q)
}

// Ratio says how many times as fast one engine is, with its 95 % interval.
type Ratio struct {
	Of    string  `json:"of"`
	Over  string  `json:"over"`
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

const resamples = 10000

// ratio compares the medians of samples of the same rounds. Rounds are drawn, not
// samples: a slow minute of the machine met both engines, and stays with both.
func ratio(num, den []float64) Ratio {
	n := len(num)
	rng := rand.New(rand.NewPCG(3, 4)) // equal samples give equal intervals
	a, b := make([]float64, n), make([]float64, n)
	all := make([]float64, resamples)
	for k := range all {
		for i := range n {
			j := rng.IntN(n)
			a[i], b[i] = num[j], den[j]
		}
		all[k] = quantile(a, 0.5) / quantile(b, 0.5)
	}
	return Ratio{Value: stats.Median(num) / stats.Median(den), Low: quantile(all, 0.025), High: quantile(all, 0.975)}
}

// paired is the median of the ratios of all turns, for samples whose calls
// followed one another: what the machine did from turn to turn is in none of
// them. Turns of a round are as good as neighbours, so rounds are drawn here too;
// ends are how many turns there were at the end of each.
func paired(num, den []float64, ends []int) Ratio {
	rs := gainOf(num, den)
	rng := rand.New(rand.NewPCG(3, 4))
	var draw []float64
	all := make([]float64, resamples)
	for k := range all {
		draw = draw[:0]
		for range ends {
			r, from := rng.IntN(len(ends)), 0
			if r > 0 {
				from = ends[r-1]
			}
			draw = append(draw, rs[from:ends[r]]...)
		}
		all[k] = quantile(draw, 0.5)
	}
	return Ratio{Value: stats.Median(rs), Low: quantile(all, 0.025), High: quantile(all, 0.975)}
}

// gainOf is the ratio of each turn.
func gainOf(num, den []float64) []float64 {
	out := make([]float64, len(num))
	for i := range out {
		out[i] = num[i] / den[i]
	}
	return out
}

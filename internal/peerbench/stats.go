package main

import (
	"slices"

	"hotpath/internal/experiment"
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

func ratioOf(e experiment.Estimate) Ratio { return Ratio{Value: e.Mid, Low: e.Low, High: e.High} }

// ratio compares the medians of samples of the same rounds.
func ratio(num, den []float64) Ratio {
	a, b := make([]float64, len(num)), make([]float64, len(num))
	return ratioOf(experiment.Rounds(len(num), func(rounds []int) float64 {
		for i, r := range rounds {
			a[i], b[i] = num[r], den[r]
		}
		return quantile(a, 0.5) / quantile(b, 0.5)
	}))
}

// paired is the median of the ratios of all turns, for samples whose calls
// followed each other: a change of the machine's speed from turn to turn cancels.
// Turns of a round are not independent, so whole rounds are drawn here too; ends
// has the number of turns at the end of each round.
func paired(num, den []float64, ends []int) Ratio {
	ratios := gainOf(num, den)
	var drawn []float64
	return ratioOf(experiment.Rounds(len(ends), func(rounds []int) float64 {
		drawn = drawn[:0]
		for _, r := range rounds {
			from := 0
			if r > 0 {
				from = ends[r-1]
			}
			drawn = append(drawn, ratios[from:ends[r]]...)
		}
		return quantile(drawn, 0.5)
	}))
}

// gainOf is the ratio of each turn.
func gainOf(num, den []float64) []float64 {
	out := make([]float64, len(num))
	for i := range out {
		out[i] = num[i] / den[i]
	}
	return out
}

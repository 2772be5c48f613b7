package main

import (
	"context"
	"fmt"
	"math"
)

// judge holds answers to one batch against those of the reference.
type judge struct {
	ref     *worker
	work    Work
	batch   [][]int32
	vectors [][]float32 // the reference's, once asked for
}

// hold says how well a worker's answers agree, and whether that is wrong.
func (j *judge) hold(ctx context.Context, w *worker, r Runner) (says string, wrong bool, err error) {
	if j.work.Op == "embed" {
		return j.embeddings(ctx, w, r)
	}
	return j.text(ctx, w, r.Limit)
}

func (j *judge) embeddings(ctx context.Context, w *worker, r Runner) (string, bool, error) {
	q := request{Op: "vectors", Batches: [][][]int32{j.batch}}
	if j.vectors == nil {
		a, err := j.ref.ask(ctx, q)
		if err != nil {
			return "", false, fmt.Errorf("the reference: %w", err)
		}
		j.vectors = a.Vectors
	}
	if r.Way != "" {
		q.Ways = []string{r.Way}
	}
	a, err := w.ask(ctx, q)
	if err != nil {
		return "", false, err
	}
	worst, err := worstCosine(a.Vectors, j.vectors)
	if err != nil {
		return "", false, err
	}
	return fmt.Sprintf("cosine %.5f", worst), !(worst >= r.Limit), nil
}

// text has the worker go on greedily and asks the reference what it thinks of
// every token. A prompt's run is seen through what it left in the cache.
func (j *judge) text(ctx context.Context, w *worker, limit float64) (string, bool, error) {
	a, err := w.ask(ctx, request{Op: "greedy", Batches: [][][]int32{j.batch}, Steps: decodeSteps})
	if err != nil {
		return "", false, err
	}
	if len(a.IDs) != len(j.batch) {
		return "", false, fmt.Errorf("%d texts for %d prompts", len(a.IDs), len(j.batch))
	}
	for _, ids := range a.IDs {
		if len(ids) != decodeSteps {
			return "", false, fmt.Errorf("%d tokens, expected %d", len(ids), decodeSteps)
		}
	}
	r, err := j.ref.ask(ctx, request{Op: "leads", Batches: [][][]int32{j.batch}, IDs: a.IDs})
	if err != nil {
		return "", false, fmt.Errorf("the reference: %w", err)
	}
	mean, worst := leadsOf(r.Leads)
	return fmt.Sprintf("off by %.4f logits, worst %.2f", mean, worst), !(mean <= meanLead && worst <= limit), nil
}

// leadsOf gives the mean and the greatest lead; NaN where there is one or
// nothing at all.
func leadsOf(leads [][]float64) (mean, worst float64) {
	n := 0
	for _, text := range leads {
		for _, l := range text {
			mean += l
			worst = max(worst, l)
			n++
		}
	}
	return mean / float64(n), worst
}

func worstCosine(got, want [][]float32) (float64, error) {
	if len(got) != len(want) {
		return 0, fmt.Errorf("%d vectors, expected %d", len(got), len(want))
	}
	worst := 1.0
	for i := range got {
		if len(got[i]) != len(want[i]) {
			return 0, fmt.Errorf("a vector of %d, expected %d", len(got[i]), len(want[i]))
		}
		var ab, aa, bb float64
		for k := range got[i] {
			a, b := float64(got[i][k]), float64(want[i][k])
			ab, aa, bb = ab+a*b, aa+a*a, bb+b*b
		}
		worst = min(worst, ab/math.Sqrt(aa*bb)) // NaN stays
	}
	return worst, nil
}

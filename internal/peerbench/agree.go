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
func (j *judge) hold(ctx context.Context, w *worker, floor float64) (says string, wrong bool, err error) {
	if j.work.Op == "embed" {
		return j.embeddings(ctx, w, floor)
	}
	return j.text(ctx, w, floor)
}

func (j *judge) embeddings(ctx context.Context, w *worker, floor float64) (string, bool, error) {
	q := request{Op: "vectors", Batches: [][][]int32{j.batch}}
	if j.vectors == nil {
		a, err := j.ref.ask(ctx, q)
		if err != nil {
			return "", false, fmt.Errorf("the reference: %w", err)
		}
		j.vectors = a.Vectors
	}
	a, err := w.ask(ctx, q)
	if err != nil {
		return "", false, err
	}
	worst, err := worstCosine(a.Vectors, j.vectors)
	if err != nil {
		return "", false, err
	}
	return fmt.Sprintf("cosine %.5f", worst), !(worst >= floor), nil
}

// text has the worker go on greedily and asks the reference what it thinks of
// every token. A prompt's logits are seen through the first.
func (j *judge) text(ctx context.Context, w *worker, floor float64) (string, bool, error) {
	a, err := w.ask(ctx, request{Op: "greedy", Batches: [][][]int32{j.batch}, Steps: max(1, j.work.Steps)})
	if err != nil {
		return "", false, err
	}
	if len(a.IDs) != len(j.batch) {
		return "", false, fmt.Errorf("%d texts for %d prompts", len(a.IDs), len(j.batch))
	}
	for _, ids := range a.IDs {
		if len(ids) != max(1, j.work.Steps) {
			return "", false, fmt.Errorf("%d tokens, expected %d", len(ids), max(1, j.work.Steps))
		}
	}
	r, err := j.ref.ask(ctx, request{Op: "leads", Batches: [][][]int32{j.batch}, IDs: a.IDs})
	if err != nil {
		return "", false, fmt.Errorf("the reference: %w", err)
	}
	worst := 0.0
	for _, l := range r.Leads {
		worst = max(worst, l) // NaN stays
	}
	return fmt.Sprintf("off by %.2f logits", worst), !(worst <= floor), nil
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

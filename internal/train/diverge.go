package train

import (
	"fmt"
	"math"
	"strings"

	"hotpath/internal/graph"
)

// judge checks the loss and the gradient norm of a step. limit is the norm above which
// the step changed no weight: judge marks such a step as skipped. A norm above
// stop_above, or a loss or norm that is not finite, ends the run.
func (t *Trainer) judge(s *Step, limit float64) error {
	loss, norm := float64(s.Loss), float64(s.GradNorm)
	if f := loss + norm; math.IsNaN(f) || math.IsInf(f, 0) {
		return t.diverged(s, "")
	}
	if factor, average := t.cfg.StopAbove, t.norms.average(); factor > 0 && average > 0 && norm > factor*average {
		return t.diverged(s, fmt.Sprintf(", %.1f times the average of %.3g and above stop_above (%g)", norm/average, average, factor))
	}
	s.Skipped = limit > 0 && norm > float64(float32(limit))
	t.norms.addNorm(norm, limit)
	return nil
}

// diverged is the error of a step that ends the run. It names the tensor and the
// texts that caused it, if they can be found.
func (t *Trainer) diverged(s *Step, why string) error {
	where := ""
	if err := t.runner.finite(); err != nil {
		where = ": " + err.Error()
	} else if tensor := t.runner.suspect(); tensor != "" {
		where = ": " + tensor
	}
	return fmt.Errorf("step %d: loss %g, norm of gradients %g%s%s; batch %s: %w%s", s.Step, s.Loss, s.GradNorm, why, where, t.culprits(), ErrDiverged, t.remains())
}

// remains names the checkpoint from which a diverged run can be resumed.
func (t *Trainer) remains() string {
	if t.saved == 0 {
		return " (no checkpoint was written before)"
	}
	return fmt.Sprintf(" (the checkpoint of step %d is finite)", t.saved)
}

// suspect names the parameter whose gradient is not finite, or the one with the
// largest.
func (r *runner) suspect() string {
	name, most := "", float32(-1)
	for _, p := range r.parts.Params {
		square := r.sess.F32(p.Square)[0]
		if f := float64(square); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Sprintf("gradient of tensor %q: a sum of squares of %g", p.Key, square)
		}
		if square > most {
			name, most = p.Key, square
		}
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf("gradient of tensor %q: a norm of %g, the largest", name, math.Sqrt(float64(most)))
}

const (
	maxCulprits = 3  // examples that an error shows
	maxWords    = 48 // bytes of text of each
)

// culprits are the examples of the run whose loss is not finite, or of all runs
// of the step: how many there are, and how the first of them begin.
func (t *Trainer) culprits() string {
	runs := t.data.runs
	for i, loss := range t.losses {
		if f := float64(loss); math.IsNaN(f) || math.IsInf(f, 0) {
			runs = runs[i : i+1]
			break
		}
	}
	var b strings.Builder
	n, at := 0, t.data.at
	defer func() { t.data.at = at }()
	for _, run := range runs {
		t.data.at = run.from
		for range run.examples {
			if n++; n <= maxCulprits {
				if t.data.next() == nil {
					fmt.Fprintf(&b, "; example %d of epoch %d: %q", t.data.walk.at(t.data.at), t.data.at.Epoch, t.beginning(&t.data.example))
				}
			}
			t.data.advance()
		}
	}
	return fmt.Sprintf("of %d examples%s", n, b.String())
}

// beginning is how the text of an example begins.
func (t *Trainer) beginning(e *Example) string {
	tok, err := t.runner.model.Tokenizer()
	if err != nil || len(e.Seqs) == 0 {
		return ""
	}
	ids := e.Seqs[0].IDs
	text := tok.Decode(ids[:min(len(ids), maxWords)], false)
	return strings.ToValidUTF8(text[:min(len(text), maxWords)], "")
}

// finite returns an error with the first weight or moment that is not finite. Steps
// check loss and norm only, which show the same one step later at no cost. Every
// checkpoint checks all values.
func (r *runner) finite() error {
	read := r.reader()
	check := func(name string, v *graph.Value) error {
		f, err := read(v)
		if err != nil {
			return err
		}
		for i, x := range f {
			if math.Float32bits(x)&0x7f800000 == 0x7f800000 {
				return fmt.Errorf("tensor %q: element %d is %g", name, i, x)
			}
		}
		return nil
	}
	for _, p := range r.parts.Params {
		if err := check(p.Key, p.Value); err != nil {
			return err
		}
	}
	for name, v := range r.moments() {
		if err := check(name, v); err != nil {
			return err
		}
	}
	return nil
}

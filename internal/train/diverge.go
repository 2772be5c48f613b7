package train

import (
	"fmt"
	"math"

	"hotpath/internal/graph"
)

// diverged is the error of a step whose loss or gradients are not finite.
func (t *Trainer) diverged(s Step) error {
	where := ""
	if err := t.runner.finite(); err != nil {
		where = ": " + err.Error()
	}
	return fmt.Errorf("step %d: loss %g, norm of gradients %g%s: %w%s", s.Step, s.Loss, s.GradNorm, where, ErrDiverged, t.remains())
}

// remains says what a run that diverged can go on from.
func (t *Trainer) remains() string {
	if t.saved == 0 {
		return " (no checkpoint was written before)"
	}
	return fmt.Sprintf(" (the checkpoint of step %d is finite)", t.saved)
}

// finite names the first weight or moment that is not a finite number. Steps
// look at loss and norm only, which show it one step later at no cost; every
// checkpoint looks at everything.
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

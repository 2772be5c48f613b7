package train

import (
	"context"
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// countdown is a context that ends when it was asked so many times.
type countdown struct {
	context.Context
	left atomic.Int64
}

func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// everything is the state of a run: parameters, moments and the place in the data.
func everything(t *testing.T, r *Trainer) ([]float32, Position) {
	t.Helper()
	var out []float32
	read := func(v *graph.Value) {
		f := make([]float32, v.Shape.Len(tensor.Bind{}))
		must(t, r.runner.sess.ReadState(v, f))
		out = append(out, f...)
	}
	for _, p := range r.runner.parts.Params {
		read(p.Value)
	}
	for _, v := range r.runner.moments() {
		read(v)
	}
	return out, r.data.at
}

// A step that is cancelled, whenever that is, is undone or whole.
func TestCancelledStepIsUndoneOrWhole(t *testing.T) {
	for name, be := range backends {
		t.Run(name, func(t *testing.T) {
			plain, err := New(t.Context(), fixture(t, "llama"), Options{Backend: be(t)})
			must(t, err)
			cut, err := New(t.Context(), fixture(t, "llama"), Options{Backend: be(t)})
			must(t, err)
			defer func() { must(t, errors.Join(plain.Close(), cut.Close())) }()
			for range 2 { // the second step has moments
				want, err := plain.Step(t.Context())
				must(t, err)
				before, at := everything(t, cut)
				undone := 0
				for n := int64(0); ; n += 1 + n/8 {
					ctx := &countdown{Context: t.Context()}
					ctx.left.Store(n)
					got, err := cut.Step(ctx)
					if err == nil {
						if got.Loss != want.Loss || got.GradNorm != want.GradNorm {
							t.Errorf("after cancelled ones, step %d has loss %g and norm %g, expected %g and %g", got.Step, got.Loss, got.GradNorm, want.Loss, want.GradNorm)
						}
						break
					}
					undone++
					if !errors.Is(err, context.Canceled) {
						t.Fatal(err)
					}
					if now, place := everything(t, cut); !slices.Equal(now, before) || place != at || cut.Done() != want.Step-1 {
						t.Fatalf("a step that was cancelled after %d looks left something behind", n)
					}
				}
				if undone < 10 {
					t.Errorf("%d cancellations before the step went through", undone)
				}
				a, _ := everything(t, plain)
				if b, _ := everything(t, cut); !slices.Equal(a, b) {
					t.Error("the whole step is another one")
				}
			}
		})
	}
}

// A run that is cancelled within a step keeps the steps before it, and goes on
// to what it would have been.
func TestCancelWithinAStep(t *testing.T) {
	c := fixture(t, "llama")
	var want, got losses
	_, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 2), OnStep: want.add})
	must(t, err)
	c.Out = t.TempDir()
	resumed := 0
	for n := int64(300); len(got) < len(want); n += 50 {
		ctx := &countdown{Context: t.Context()}
		ctx.left.Store(n)
		res, err := Run(ctx, c, Options{Backend: cpuBackend(t, 2), Resume: "auto", OnStep: got.add})
		switch {
		case err != nil && !errors.Is(err, context.Canceled):
			t.Fatal(err)
		case err != nil:
			resumed++
		}
		if res != nil && res.Steps != len(got) {
			t.Fatalf("%d steps are behind a run of %d", res.Steps, len(got))
		}
	}
	if resumed < 2 {
		t.Errorf("cancelled %d times", resumed)
	}
	if !slices.Equal(got, want) {
		t.Errorf("losses %v, without a cancellation %v", got, want)
	}
}

// A run that is cancelled within an evaluation makes that evaluation when it is
// resumed: figures, the best step and the logs are those of a run that was not.
func TestCancelWithinAnEvaluation(t *testing.T) {
	c := fixture(t, "llama")
	c.Steps, c.Validation.Share, c.Validation.Every, c.LR = 4, 0.3, 2, 0.01
	var want, got losses
	whole, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1), OnStep: want.add})
	must(t, err)
	log := func() string { return strings.Join(columnsOf(t, c.Out, "step", "loss", "val_loss"), "\n") }
	lines := log()
	c.Out = t.TempDir()
	late := 0
	for n := int64(250); ; n += 20 {
		ctx := &countdown{Context: t.Context()}
		ctx.left.Store(n)
		res, err := Run(ctx, c, Options{Backend: cpuBackend(t, 1), Resume: "auto", OnStep: got.add})
		if err == nil {
			if res.Best != whole.Best || res.BestLoss != whole.BestLoss {
				t.Errorf("best %+v, without a cancellation %+v", res, whole)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if res != nil && res.Steps > len(got) {
			late++
			if loss := want[res.Steps-1].Loss; res.Loss != loss {
				t.Errorf("loss %g of step %d, expected %g", res.Loss, res.Steps, loss)
			}
		}
	}
	if late == 0 {
		t.Error("no evaluation was cancelled")
	}
	if !slices.Equal(got, want) {
		t.Errorf("steps %v, without a cancellation %v", got, want)
	}
	if now := log(); now != lines {
		t.Errorf("log\n%s\nwithout a cancellation\n%s", now, lines)
	}
}

// columnsOf are columns of each line of a run's log.
func columnsOf(t *testing.T, out string, names ...string) []string {
	t.Helper()
	f, err := os.Open(filepath.Join(out, csvLog))
	must(t, err)
	rows, err := csv.NewReader(f).ReadAll()
	must(t, errors.Join(err, f.Close()))
	var lines []string
	for _, row := range rows {
		var line []string
		for i, cell := range row {
			if slices.Contains(names, rows[0][i]) {
				line = append(line, cell)
			}
		}
		lines = append(lines, strings.Join(line, ","))
	}
	return lines
}

package train

import (
	"errors"
	"strings"
	"testing"

	"hotpath/internal/backend/ref"
	"hotpath/internal/engine"
	"hotpath/internal/plan"
)

// onFire is a device whose runs panic.
type onFire struct{ plan.Backend }

type burning struct{ plan.Exec }

func (b onFire) Bind(p *plan.Plan, m *plan.Memory, o plan.BindOptions) (plan.Exec, error) {
	x, err := b.Backend.Bind(p, m, o)
	return burning{x}, err
}

func (burning) Wait() error { panic("the device is on fire") }

// A panic in a step is an error of the run that names the step, in one line.
func TestPanicInAStep(t *testing.T) {
	_, err := Run(t.Context(), fixture(t, "llama"), Options{Backend: onFire{ref.New()}})
	if !errors.Is(err, engine.ErrInternal) || !strings.Contains(err.Error(), "step 1") || strings.Contains(err.Error(), "\n") {
		t.Errorf("the run ended with %v", err)
	}
}

package hotpath

import (
	"errors"
	"strings"
	"testing"
	"time"

	"hotpath/internal/backend/ref"
	"hotpath/internal/engine"
	"hotpath/internal/plan"
	"hotpath/internal/testmodels"
)

// stalling is a device whose runs end when they may.
type stalling struct {
	plan.Backend
	entered, pass chan struct{}
}

type stallingExec struct {
	plan.Exec
	be stalling
}

func (b stalling) Bind(p *plan.Plan, m *plan.Memory, o plan.BindOptions) (plan.Exec, error) {
	x, err := b.Backend.Bind(p, m, o)
	return stallingExec{x, b}, err
}

func (x stallingExec) Wait() error {
	x.be.entered <- struct{}{}
	<-x.be.pass
	return x.Exec.Wait()
}

// Close gives up on a run that does not end and leaves the model's file mapped
// under it.
func TestCloseOfAStalledModel(t *testing.T) {
	m := open(t, testmodels.Dir(t, "bert"), Options{Device: "ref"})
	be := stalling{ref.New(), make(chan struct{}), make(chan struct{})}
	eng, err := engine.Open(m.model, be, engine.Options{CloseTimeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	m.eng = eng
	done := make(chan error, 1)
	go func() {
		_, err := m.Embed(t.Context(), []string{"a text"}, EmbedOptions{})
		done <- err
	}()
	<-be.entered
	if err := m.Close(); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "embed (1)") {
		t.Errorf("Close: %v", err)
	}
	name := m.store.Names()[0]
	if _, err := m.store.Get(name); err != nil {
		t.Errorf("the file under the run: %v", err)
	}
	close(be.pass)
	if err := <-done; err != nil {
		t.Errorf("the call: %v", err)
	}
	for errors.Is(m.Close(), ErrBusy) { // the call is about to leave
	}
	if _, err := m.store.Get(name); !errors.Is(err, ErrClosed) {
		t.Errorf("the file after Close: %v", err)
	}
}

package train

import (
	"context"
	"errors"
	"fmt"

	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// frozen is a model beside the one that is trained, which sees the same batches
// and does not change: a teacher, or the reference of preferences.
type frozen struct {
	store *weights.Store
	model *model.Model
	prog  *plan.Program
	ports *model.Ports
	sess  *plan.Session
	in    *inputs
	out   *graph.Value
}

// openFrozen opens a model file; compile and start prepare it for runs.
func openFrozen(path string) (*frozen, error) {
	st, err := weights.Open(path)
	if err != nil {
		return nil, err
	}
	m, err := model.Open(st)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return &frozen{store: st, model: m}, nil
}

// compile plans what end makes of the model for the same batches as p, and gives the
// bytes that it takes.
func (f *frozen) compile(p *plan.Program, end func(t *model.Trainee) *graph.Value) (int64, error) {
	most := p.Graph.Max
	g, ports, out, err := f.model.BuildFrozen(most, end)
	if err != nil {
		return 0, err
	}
	if f.prog, err = plan.Compile("frozen", g, p.Backend, []tensor.Bind{most}, plan.CompileOptions{}); err != nil {
		return 0, err
	}
	f.ports, f.out = ports, out
	return programBytes(f.prog), nil
}

// start opens what was compiled.
func (f *frozen) start(ctx context.Context, workers int) (err error) {
	if f.sess, err = plan.NewSession(ctx, f.prog, plan.NewWeightSet(f.prog.Backend, f.model), plan.BindOptions{Workers: workers}); err == nil {
		f.in = newInputs(f.sess, f.ports)
	}
	return err
}

// forward computes the output for a batch. It lasts until the next run.
func (f *frozen) forward(ctx context.Context, in *inputs) ([]float32, error) {
	f.in.CopyFrom(in.Batch)
	if err := f.sess.Run(ctx, in.Bind); err != nil {
		return nil, err
	}
	return f.sess.F32(f.out), nil
}

// sameVocab reports a model whose ids mean something else.
func (f *frozen) sameVocab(field string, m *model.Model) error {
	if got, want := f.model.Config().Vocab, m.Config().Vocab; got != want {
		return fmt.Errorf("%s: %s has a vocabulary of %d tokens, expected the %d of the model that is trained: %w", field, f.store.Path(), got, want, ErrConfig)
	}
	theirs, err := f.model.Tokenizer()
	if err != nil {
		return nil // a teacher needs none
	}
	ours, err := m.Tokenizer()
	if err != nil {
		return err
	}
	for id := range int32(max(ours.Size(), theirs.Size())) {
		a, known := ours.Token(id)
		if b, ok := theirs.Token(id); a != b && known && ok {
			return fmt.Errorf("%s: token %d of %s is %.*q, expected %.*q as in the trained model: %w", field, id, f.store.Path(), maxShown, b, maxShown, a, ErrConfig)
		}
	}
	return nil
}

func (f *frozen) close() error {
	var err error
	if f.sess != nil {
		err = f.sess.Close()
	}
	return errors.Join(err, f.store.Close())
}

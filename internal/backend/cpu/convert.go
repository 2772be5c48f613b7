package cpu

import (
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// convert writes a value in another format, on one worker. Plans of models for
// this backend do not need it.
type convert struct {
	x   mat
	out []byte
	to  *plan.Format
}

func bindConvert(b *binder, s *plan.Step) (kernel, error) {
	v := s.Root().In[0]
	x := b.f32(v)
	at, _ := b.plan.Form(v, s.Convert)
	return &convert{x, b.memory(at), s.Convert}, nil
}

func (k *convert) name() string               { return "convert to " + k.to.Name }
func (k *convert) width(tensor.Bind, int) int { return 1 }
func (k *convert) runShare(_ *worker, b tensor.Bind, _, _ int) {
	k.to.Encode(k.out, k.x.all(b), k.x.rows(b), k.x.cols)
}

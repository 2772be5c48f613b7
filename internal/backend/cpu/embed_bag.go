package cpu

import (
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// bindEmbedBag sums rows of a table straight into the mean of a sequence.
func bindEmbedBag(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.Out[0])
	w := b.weight(n.In[0])
	ids, starts, y := b.i32(n.In[1]), b.i32(n.In[2]), ms[0]
	var table mat
	if f, ok := w.(*fileRows); w == nil || ok && f.dtype == tensor.F32 {
		table = b.f32(n.In[0])
	} else {
		b.want(y.cols)
	}
	return &rowwise{"embed bag", y, func(k *worker, _ tensor.Bind, lo, hi int) {
		for i := lo; i < hi; i++ {
			sum := y.row(i)
			clear(sum)
			tokens := ids.full[starts.full[i]:starts.full[i+1]]
			for _, id := range tokens {
				if table.present() {
					vec.Add(sum, sum, table.row(int(id)))
					continue
				}
				row := k.scratch.f[:y.cols]
				w.unpackRow(row, int(id))
				vec.Add(sum, sum, row)
			}
			vec.Scale(sum, sum, 1/float32(max(len(tokens), 1)))
		}
	}}, nil
}

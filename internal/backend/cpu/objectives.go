package cpu

import (
	"math"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// Losses over pairs of rows and of logits. A worker has whole rows, so the bits
// do not depend on the number of workers.

func bindInfoNCE(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.Out[0], n.Out[1])
	x, nll, lse, partner, same, a := ms[0], ms[1], ms[2], b.i32(n.In[1]), b.i32(n.In[2]), n.Attr.(graph.InfoNCEAttr)
	b.want(x.rows(b.plan.Max))
	return &pairwise{label: "infonce", x: x, rows: func(w *worker, bind tensor.Bind, lo, hi int) {
		partner, same, rows := partner.all(bind), same.all(bind), x.rows(bind)
		for q := lo; q < hi; q++ {
			l, right := float32(0), float32(0)
			if partner[q] >= 0 {
				scores := w.scratch.f[:0]
				for c := range rows {
					if a.Counts(partner, same, q, c) {
						scores = append(scores, a.Scale*vec.Dot(x.row(q), x.row(c)))
					}
				}
				shift := vec.Max(scores)
				l = shift + log32(vec.Exp(scores, scores, shift))
				right = a.Scale * vec.Dot(x.row(q), x.row(int(partner[q])))
			}
			if lse.present() {
				lse.full[q] = l
			}
			if nll.present() {
				nll.full[q] = l - right
			}
		}
	}}, nil
}

// pairwise is a step that compares each row with all others.
type pairwise struct {
	label string
	x     mat
	rows  func(w *worker, b tensor.Bind, lo, hi int)
}

func (k *pairwise) name() string { return k.label }
func (k *pairwise) width(b tensor.Bind, n int) int {
	rows := k.x.rows(b)
	return min(widthFor(rows*rows*k.x.cols, n), max(1, rows))
}
func (k *pairwise) runShare(w *worker, b tensor.Bind, i, n int) {
	lo, hi := share(k.x.rows(b), 1, i, n)
	k.rows(w, b, lo, hi)
}

func bindInfoNCEGrad(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[1], n.In[4], n.Out[0])
	x, lse, d, dx, partner, same, a := ms[0], ms[1], ms[2], ms[3], b.i32(n.In[2]), b.i32(n.In[3]), n.Attr.(graph.InfoNCEAttr)
	return &pairwise{label: "infonce backward", x: x, rows: func(_ *worker, bind tensor.Bind, lo, hi int) {
		partner, same := partner.all(bind), same.all(bind)
		asks := func(q, c int, dot float64) float32 {
			if partner[q] < 0 || !a.Counts(partner, same, q, c) {
				return 0
			}
			return float32(a.Slope(dot, lse.full[q], d.full[q], int(partner[q]) == c))
		}
		for i := lo; i < hi; i++ {
			clear(dx.row(i))
			for j := range x.rows(bind) {
				if same[i] < 0 == (same[j] < 0) || partner[i] < 0 && partner[j] < 0 {
					continue
				}
				dot := float64(vec.Dot(x.row(i), x.row(j)))
				vec.Axpy(dx.row(i), x.row(j), asks(i, j, dot)+asks(j, i, dot))
			}
		}
	}}, nil
}

// softened is exp of a row of logits divided by a temperature, and its sum.
func softened(dst, row []float32, t float32) (shift, sum float32) {
	vec.Scale(dst, row, 1/t)
	shift = vec.Max(dst)
	return shift, vec.Exp(dst, dst, shift)
}

func bindDistill(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[1], n.Out[0])
	student, teacher, kl, t := ms[0], ms[1], ms[2].full, n.Attr.(graph.DistillAttr).Temperature
	b.want(2 * student.cols)
	return &rowwise{"distill", student, func(w *worker, _ tensor.Bind, lo, hi int) {
		p, diff := w.scratch.f[:student.cols], w.scratch.f[student.cols:][:student.cols]
		for i := lo; i < hi; i++ {
			shiftS, sumS := softened(p, student.row(i), t)
			shiftT, sumT := softened(p, teacher.row(i), t)
			// The mean of the teacher's log p less the student's, under the teacher.
			vec.Scale(diff, student.row(i), -1)
			vec.Add(diff, diff, teacher.row(i))
			mean := float64(vec.Dot(p, diff)) / float64(sumT) / float64(t)
			rest := float64(shiftS) + math.Log(float64(sumS)) - float64(shiftT) - math.Log(float64(sumT))
			kl[i] = float32((mean + rest) * float64(t) * float64(t))
		}
	}}, nil
}

func bindDistillGrad(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[1], n.In[2], n.Out[0])
	student, teacher, d, dx, t := ms[0], ms[1], ms[2].full, ms[3], n.Attr.(graph.DistillAttr).Temperature
	b.want(student.cols)
	return &rowwise{"distill backward", student, func(w *worker, _ tensor.Bind, lo, hi int) {
		p := w.scratch.f[:student.cols]
		for i := lo; i < hi; i++ {
			_, sum := softened(p, student.row(i), t)
			vec.Scale(p, p, d[i]*t/sum)
			_, sum = softened(dx.row(i), teacher.row(i), t)
			vec.Scale(dx.row(i), dx.row(i), -d[i]*t/sum)
			vec.Add(dx.row(i), dx.row(i), p)
		}
	}}, nil
}

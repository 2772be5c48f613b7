package cpu

import (
	"hotpath/internal/graph"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// sumRows is the number of rows per partial sum, whatever the number of workers.
const sumRows = 64

// rowSums is a step that adds up rows: gradients of biases and of norms' weights. A
// share makes the partial sums of some blocks of rows, so that a worker reads rows
// that are in its cache and looks at each of them once. The share that ends last adds
// the partial sums in their order, so any number of workers gives the same bits.
type rowSums struct {
	label string
	like  mat
	cost  int         // passes over a row
	sums  [][]float32 // [block][values]
	// rows adds rows [lo,hi) to sum, which is zero before.
	rows func(b tensor.Bind, lo, hi int, sum []float32)
	// end writes the result, to which sums are added in their order.
	end  func(sums [][]float32)
	ends lastShare
}

// newRowSums is for sums of so many values.
func newRowSums(b *binder, label string, like mat, values, cost int) *rowSums {
	k := &rowSums{label: label, like: like, cost: cost, sums: make([][]float32, max(1, sumBlocks(like.rows(b.plan.Max))))}
	for i := range k.sums {
		k.sums[i] = make([]float32, values)
	}
	return k
}

func sumBlocks(rows int) int { return (rows + sumRows - 1) / sumRows }

func (k *rowSums) name() string { return k.label }
func (k *rowSums) width(b tensor.Bind, n int) int {
	rows := k.like.rows(b)
	return min(widthFor(k.cost*rows*k.like.cols, n), max(1, sumBlocks(rows)))
}

func (k *rowSums) runShare(w *worker, b tensor.Bind, i, n int) {
	rows := k.like.rows(b)
	blocks := sumBlocks(rows)
	lo, hi := share(blocks, 1, i, n)
	for j := lo; j < hi; j++ {
		clear(k.sums[j])
		k.rows(b, j*sumRows, min(rows, (j+1)*sumRows), k.sums[j])
	}
	if k.ends.here(w.epoch, n) {
		k.end(k.sums[:blocks])
	}
}

// addSums sets dst to the sum of values [at,at+len(dst)) of all partial sums, or adds
// them to it.
func addSums(dst []float32, sums [][]float32, at int, add bool) {
	if !add {
		clear(dst)
	}
	for _, s := range sums {
		vec.Add(dst, dst, s[at:at+len(dst)])
	}
}

func bindColSum(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.Out[0])
	x, y, add := ms[0], ms[1].full, s.Sums(n.Out[0])
	k := newRowSums(b, "column sums", x, x.cols, 1)
	k.rows = func(_ tensor.Bind, lo, hi int, sum []float32) {
		for i := lo; i < hi; i++ {
			vec.Add(sum, sum, x.row(i))
		}
	}
	k.end = func(sums [][]float32) { addSums(y, sums, 0, add) }
	return k, nil
}

// bindNormDW sums dy*xhat, and dy, over all rows and chunks of them.
func bindNormDW(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[1], n.Out[0], n.Out[1])
	a := n.Attr.(graph.NormDWAttr)
	dy, x, dw, db, size := ms[0], ms[1], ms[2].full, ms[3].full, a.Size(a.Width)
	k := newRowSums(b, a.Kind.String()+" weight backward", x, 2*a.Width, rowPasses)
	k.rows = func(_ tensor.Bind, lo, hi int, sum []float32) {
		weight, bias := sum[:a.Width], sum[a.Width:]
		for i := lo; i < hi; i++ {
			for c := 0; c < x.cols; c += a.Width {
				g := dy.row(i)[c : c+a.Width]
				for k := 0; dw != nil && k < a.Width; k += size {
					xr := x.row(i)[c+k : c+k+size]
					mean, rstd := normStats(&a.NormAttr, xr)
					vec.NormWeightGrad(weight[k:k+size], g[k:k+size], xr, mean, rstd)
				}
				if db != nil {
					vec.Add(bias, bias, g)
				}
			}
		}
	}
	k.end = func(sums [][]float32) {
		if dw != nil {
			addSums(dw, sums, 0, false)
		}
		if db != nil {
			addSums(db, sums, a.Width, false)
		}
	}
	return k, nil
}

package cpu

import (
	"cmp"
	"math"
	"sync"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

func bindCrossEntropy(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.Out[0], n.Out[1])
	logits, nll, lse, targets, smoothing := ms[0], ms[1], ms[2], b.i32(n.In[1]), b.optionalI32(n.In[2])
	b.want(logits.cols)
	return &rowwise{"cross entropy", logits, func(w *worker, _ tensor.Bind, lo, hi int) {
		for i := lo; i < hi; i++ {
			row := logits.row(i)
			shift := vec.Max(row)
			l := shift + log32(vec.Exp(w.scratch.f[:len(row)], row, shift))
			if lse.present() {
				lse.full[i] = l
			}
			if !nll.present() {
				continue
			}
			nll.full[i] = 0
			if t := targets.full[i]; t >= 0 {
				likely := row[t]
				if s := graph.Smoothing(smoothing); s > 0 {
					likely += s * (vec.Sum(row)/float32(len(row)) - likely)
				}
				nll.full[i] = l - likely
			}
		}
	}}, nil
}

func bindCrossEntropyGrad(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[1], n.In[3], n.Out[0])
	logits, lse, dnll, dx, targets, smoothing := ms[0], ms[1], ms[2], ms[3], b.i32(n.In[2]), b.optionalI32(n.In[4])
	return &rowwise{"cross entropy backward", logits, func(_ *worker, _ tensor.Bind, lo, hi int) {
		for i := lo; i < hi; i++ {
			t, dst := targets.full[i], dx.row(i)
			if t < 0 {
				clear(dst)
				continue
			}
			vec.Exp(dst, logits.row(i), lse.full[i])
			dst[t]--
			if s := graph.Smoothing(smoothing); s > 0 {
				dst[t] += s
				each := s / float32(len(dst))
				for j := range dst {
					dst[j] -= each
				}
			}
			vec.Scale(dst, dst, dnll.full[i])
		}
	}}, nil
}

// columns is a step that reduces over rows: workers own ranges of columns and
// sum rows in their order, so any number of workers gives the same bits.
type columns struct {
	label string
	like  mat // what is read
	cols  int // how many columns there are to share
	part  func(w *worker, b tensor.Bind, lo, hi int)
}

func (k *columns) name() string { return k.label }
func (k *columns) width(b tensor.Bind, n int) int {
	// One share per worker: more would write so few columns of a row that memory is
	// slow.
	n = max(1, n/sharesEach)
	return min(widthFor(k.like.rows(b)*k.like.cols, n), max(1, k.cols/16))
}
func (k *columns) runShare(w *worker, b tensor.Bind, i, n int) {
	lo, hi := share(k.cols, 16, i, n)
	k.part(w, b, lo, hi)
}

// bindEmbedGrad adds token gradients to table rows in token order; workers
// own columns.
func bindEmbedGrad(b *binder, s *plan.Step) (kernel, error) {
	dt := b.f32(s.Root().Out[0])
	return embedGrad(b, s.Root(), dt, func(r, lo, hi int) { clear(dt.row(r)[lo:hi]) }), nil
}

// bindEmbedGradAdd adds the gradients in place to another gradient of the table,
// that of a tied head. Most rows of the table are not touched.
func bindEmbedGradAdd(b *binder, s *plan.Step) (kernel, error) {
	plus := newAddend(b, s.Root())
	return embedGrad(b, s.Nodes[0], plus.sum, func(r, lo, hi int) { plus.put(r, r+1, lo, hi) }), nil
}

// embedGrad adds the rows of n to dt. begin writes the initial value of columns
// [lo,hi) of a row of dt.
func embedGrad(b *binder, n *graph.Node, dt mat, begin func(r, lo, hi int)) kernel {
	dy, ids, scale := b.f32(n.In[0]), b.i32(n.In[1]), cmp.Or(n.Attr.(graph.EmbedGradAttr).Scale, 1)
	return &columns{label: "embed backward", like: dt, cols: dt.cols, part: func(_ *worker, b tensor.Bind, lo, hi int) {
		for r := range dt.rows(b) {
			begin(r, lo, hi)
		}
		for i := range dy.rows(b) {
			vec.Axpy(dt.row(int(ids.full[i]))[lo:hi], dy.row(i)[lo:hi], scale)
		}
	}}
}

// normStats are the mean and the reciprocal deviation of a chunk.
func normStats(a *graph.NormAttr, x []float32) (mean, rstd float32) {
	n := float32(len(x))
	var sq float32
	if a.Kind == graph.LayerNorm {
		mean = vec.Sum(x) / n
		sq = vec.SumSquaresFrom(x, mean)
	} else {
		sq = vec.SumSquares(x)
	}
	return mean, float32(1 / math.Sqrt(float64(sq/n)+float64(a.Eps)))
}

// bindNormDX binds dx alone, or an add of a value and dx.
func bindNormDX(b *binder, s *plan.Step) (kernel, error) {
	n := s.Nodes[0]
	ms := b.mats(n.In[0], n.In[1], n.In[2], s.Root().Out[0])
	dy, x, wt, dx, a := ms[0], ms[1], ms[2].full, ms[3], n.Attr.(graph.NormAttr)
	width := a.Size(len(wt))
	b.want(width + len(wt))
	var plus mat
	if s.Root() != n {
		plus = b.f32(s.Root().In[0])
	}
	return &rowwise{a.Kind.String() + " backward", x, func(w *worker, _ tensor.Bind, lo, hi int) {
		g, weight := w.scratch.f[:width], wt // g is dy * (w + offset)
		if a.Offset != 0 {
			weight = w.scratch.f[width:][:len(wt)]
			for j, v := range wt {
				weight[j] = v + a.Offset
			}
		}
		for i := lo; i < hi; i++ {
			for c := 0; c < x.cols; c += width {
				xr := x.row(i)[c : c+width]
				mean, rstd := normStats(&a, xr)
				vec.Mul(g, dy.row(i)[c:c+width], weight[c%len(wt):][:width])
				// dx = rstd * (g - mean(g) - xhat * mean(g*xhat)); RMSNorm has no mean(g).
				dot, sum := vec.DotFrom(g, xr, mean)*rstd/float32(width), float32(0)
				if a.Kind == graph.LayerNorm {
					sum = vec.Sum(g) / float32(width)
				}
				d := dx.row(i)[c : c+width]
				if !plus.present() {
					vec.NormGrad(d, g, xr, mean, rstd, sum, dot*rstd)
					continue
				}
				vec.NormGrad(g, g, xr, mean, rstd, sum, dot*rstd)
				vec.Add(d, plus.row(i)[c:c+width], g)
			}
		}
	}}, nil
}

// sumSquares adds up blocks side by side, each by itself; who is done last adds
// up the blocks in their order, so any number of workers gives the same bits.
type sumSquares struct {
	x      mat
	y      []float32
	blocks []float64
	ends   lastShare
}

// lastShare determines which share of a step ends last.
type lastShare struct {
	mu    sync.Mutex
	epoch uint64 // of the run that done is of: one that was cancelled leaves some
	done  int    // shares
}

// here is called at the end of each of n shares. It reports whether this was the
// last one; all results can then be read.
func (l *lastShare) here(epoch uint64, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epoch != epoch {
		l.epoch, l.done = epoch, 0
	}
	l.done++
	return l.done == n
}

func bindSumSquares(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.Out[0])
	return &sumSquares{x: ms[0], y: ms[1].full, blocks: make([]float64, blocksOf(len(ms[0].full)))}, nil
}

func blocksOf(n int) int { return (n + graph.SumSquaresBlock - 1) / graph.SumSquaresBlock }

func (k *sumSquares) name() string { return "sum of squares" }
func (k *sumSquares) width(b tensor.Bind, n int) int {
	x := k.x.all(b)
	return min(widthFor(len(x), n), max(1, blocksOf(len(x))))
}
func (k *sumSquares) runShare(w *worker, b tensor.Bind, i, n int) {
	x := k.x.all(b)
	blocks := k.blocks[:blocksOf(len(x))]
	lo, hi := share(len(blocks), 1, i, n)
	for j := lo; j < hi; j++ {
		at := j * graph.SumSquaresBlock
		blocks[j] = float64(vec.SumSquares(x[at:min(len(x), at+graph.SumSquaresBlock)]))
	}
	if !k.ends.here(w.epoch, n) {
		return
	}
	var sum float64
	for _, v := range blocks {
		sum += v
	}
	k.y[0] = float32(sum)
}

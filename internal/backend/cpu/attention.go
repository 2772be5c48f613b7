package cpu

import (
	"math"

	"hotpath/internal/graph"
	"hotpath/internal/kernel/bf16"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
)

// attention computes blocks of queries of a key head of a sequence, shared out
// in their order: block-diagonal by construction, no mask exists.
type attention struct {
	graph.AttentionAttr
	q, out, lse      mat
	k, v             keys
	qStart           ints
	paged            bool
	kvLen, table     ints // paged only
	block, maxBlocks int
	class            Precision
	outBF16          []uint16 // out in bf16 instead, where not nil
	workers          int      // that share a run, at most
	direct           bool     // one query of a sequence reads the cache as it lies
	even             bool     // one query takes the way of several
	parts            *shared[*partials]
	bias             scoreBias
	drop             []int32                 // key of dropout, [DropoutLen]; nil: none
	head             *perWorker[*bf16.Head]  // of the class bf16
	short            *perWorker[*bf16.Heads] // the same of short sequences
	headF32          *perWorker[*gemm.Head]  // of the class f32
}

func bindAttention(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.In[1], n.In[2], n.Out[0], n.Out[1])
	k := &attention{AttentionAttr: n.Attr.(graph.AttentionAttr), q: ms[0], k: keys{mat: ms[1]}, v: keys{mat: ms[2]}, out: ms[3], lse: ms[4], qStart: b.i32(n.In[3]), drop: b.optionalI32(n.In[4])}
	k.reserve(b, b.plan.Max.T)
	return k, nil
}

func bindAttentionKV(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms := b.mats(n.In[0], n.Out[0])
	a := n.Attr.(graph.AttentionKVAttr)
	b.wantKeys(a.BlockSize * a.HeadDim)
	k := &attention{AttentionAttr: a.AttentionAttr, q: ms[0], k: b.keys(n.In[1]), v: b.keys(n.In[2]), out: ms[1], qStart: b.i32(n.In[3]),
		paged: true, kvLen: b.i32(n.In[4]), table: b.i32(n.In[5]), block: a.BlockSize, maxBlocks: n.In[5].Shape.RowLen()}
	k.reserve(b, k.maxBlocks*k.block)
	k.even, k.workers = b.plan.Invariant, b.workers
	if k.direct = readsCache(n) && !k.even; k.direct {
		k.wantTiles(b, k.maxBlocks*k.block)
	}
	return k, nil
}

// reserve asks for scratch for sequences of up to keys.
func (k *attention) reserve(b *binder, keys int) {
	b.want(keys)
	k.alibi()
	k.class = classOf(b.step)
	size := [2]int{k.HeadDim, keys}
	if k.class == BF16 {
		k.outBF16 = b.blocks(b.step.Root().Out[0])
		k.head = scratchFor(b, "bf16 head", size, func(size [2]int) *bf16.Head { return bf16.NewHead(size[0], size[1]) })
		k.short = scratchFor(b, "bf16 heads", size, func(size [2]int) *bf16.Heads { return bf16.NewHeads(size[0]) })
		return
	}
	k.headF32 = scratchFor(b, "f32 head", size, func(size [2]int) *gemm.Head { return gemm.NewHead(size[0], size[1]) })
}

func (k *attention) name() string {
	if k.paged {
		return "attention " + string(k.class) + " paged"
	}
	return "attention " + string(k.class)
}

// keys is the number of keys that sequence s has.
func (k *attention) keys(s, queries int) int {
	if k.paged {
		return int(k.kvLen.full[s])
	}
	return queries
}

// query computes the only query of head h of sequence s, at token t: too few to
// pay for packing.
func (k *attention) query(w *worker, s, h, t, first, keys int) {
	pos := keys - 1
	lo, hi := k.Visible(pos, keys)
	d, kv := k.HeadDim, h/(k.Heads/k.KVHeads)
	scores := w.scratch.f[:hi-lo]
	q, out := k.q.full[t*k.q.cols+h*d:][:d], k.out.full[t*k.out.cols+h*d:][:d]
	k.eachRun(s, first, lo, hi, func(row, j, n int) {
		keys, ldk := k.k.head(w.scratch.keys, row, n, kv, d)
		for i := range n {
			scores[j-lo+i] = vec.Dot(q, keys[i*ldk:][:d])
		}
	})
	vec.Scale(scores, scores, k.Scale)
	k.bias.addBias(scores, h, pos, lo)
	sum, shift := k.softmax(scores, len(scores))
	if k.lse.present() {
		k.lse.row(t)[h] = shift + log32(sum)
	}
	clear(out)
	k.eachRun(s, first, lo, hi, func(row, j, n int) {
		values, ldv := k.v.head(w.scratch.keys, row, n, kv, d)
		for i := range n {
			vec.Axpy(out, values[i*ldv:][:d], scores[j-lo+i])
		}
	})
	vec.Scale(out, out, 1/sum)
}

// eachRun visits keys [lo,hi) of sequence s as runs of consecutive cache rows.
func (k *attention) eachRun(s, first, lo, hi int, f func(row, j, n int)) {
	if !k.paged {
		f(first+lo, lo, hi-lo)
		return
	}
	table := k.table.full[s*k.maxBlocks:]
	for j, n := lo, 0; j < hi; j += n {
		n = min(k.block-j%k.block, hi-j)
		f(int(table[j/k.block])*k.block+j%k.block, j, n)
	}
}

// softmax turns a row of n scores and padding into exponentials; the caller divides
// by sum.
func (k *attention) softmax(row []float32, n int) (sum, shift float32) {
	k.cap(row[:n])
	for i := range row[n:] {
		row[n+i] = float32(math.Inf(-1))
	}
	shift = vec.Max(row)
	return vec.Exp(row, row, shift), shift
}

// cap applies the soft cap to scores, if the model has one.
func (k *attention) cap(row []float32) {
	if k.SoftCap > 0 {
		vec.SoftCap(row, row, k.SoftCap)
	}
}

// queries computes queries [t0,t1) of key head kv in f32, all heads that share
// it; pos is the position of t0, and the packed keys begin at position lo.
func (k *attention) queries(w *worker, kv, t0, t1, pos, keys, lo int) {
	group, d := k.Heads/k.KVHeads, k.HeadDim
	head, dropout := k.headF32.of[w.lane], k.Dropout(k.drop)
	adjusted := k.SoftCap > 0 || k.bias.present()
	for h := kv * group; h < (kv+1)*group; h++ {
		for t, rows := t0, 0; t < t1; t += rows {
			p := pos + t - t0
			rows = min(k.blockRows(keys), t1-t)
			a, _ := k.Visible(p, keys)
			_, z := k.Visible(p+rows-1, keys)
			visible := func(i int) (int, int) {
				from, to := k.Visible(p+i, keys)
				return from - lo, to - lo
			}
			var adjust func(i int, scores []float32)
			if adjusted {
				adjust = func(i int, scores []float32) {
					from, _ := k.Visible(p+i, keys)
					k.bias.addBias(scores, h, p+i, from)
					k.cap(scores)
				}
			}
			var drop func(i int, weights []float32)
			if dropout.Any() {
				drop = func(i int, weights []float32) {
					from, _ := k.Visible(p+i, keys)
					dropout.Apply(weights, t+i, h, from)
				}
			}
			head.Queries(k.out.full[t*k.out.cols+h*d:], k.out.cols, k.q.full[t*k.q.cols+h*d:], k.q.cols, rows, a-lo, z-lo, visible, adjust, drop)
			for i := range rows {
				if k.lse.present() {
					k.lse.row(t + i)[h] = head.LogSum(i)
				}
			}
		}
	}
}

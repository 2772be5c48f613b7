package cpu

import (
	"hotpath/internal/graph"
	"hotpath/internal/kernel/gemm"
	"hotpath/internal/kernel/vec"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// queryTile is how many queries of a head are computed together, at most.
const queryTile = 128

// scoreBudget bounds the scores that a worker holds at a time, in f32.
const scoreBudget = 1 << 16

// attention computes (sequence, head, query tile) items, claimed in a fixed
// order by share: block-diagonal by construction, no mask exists.
type attention struct {
	graph.AttentionAttr
	q, out, lse      mat
	k, v             keys
	qStart           ints
	paged            bool
	kvLen, table     ints // paged only
	block, maxBlocks int
	class            Precision
	outHalf          half // out, where it is kept in bf16
	direct           bool // one query of a sequence reads the cache as it lies
	bias             scoreBias
}

func bindAttention(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms, err := b.mats(n.In[0], n.In[1], n.In[2], n.Out[0], n.Out[1])
	if err != nil {
		return nil, err
	}
	k := &attention{AttentionAttr: n.Attr.(graph.AttentionAttr), q: ms[0], k: keys{mat: ms[1]}, v: keys{mat: ms[2]}, out: ms[3], lse: ms[4], qStart: b.i32(n.In[3])}
	k.reserve(b, b.plan.Max.T)
	return k, nil
}

func bindAttentionKV(b *binder, s *plan.Step) (kernel, error) {
	n := s.Root()
	ms, err := b.mats(n.In[0], n.Out[0])
	if err != nil {
		return nil, err
	}
	ks, err := b.keys(n.In[1])
	if err != nil {
		return nil, err
	}
	vs, err := b.keys(n.In[2])
	if err != nil {
		return nil, err
	}
	a := n.Attr.(graph.AttentionKVAttr)
	b.wantKeys(a.BlockSize * a.HeadDim)
	k := &attention{AttentionAttr: a.AttentionAttr, q: ms[0], k: ks, v: vs, out: ms[1], qStart: b.i32(n.In[3]),
		paged: true, kvLen: b.i32(n.In[4]), table: b.i32(n.In[5]), block: a.BlockSize, maxBlocks: n.In[5].Shape.RowLen()}
	k.reserve(b, k.maxBlocks*k.block)
	if k.direct = b.readsCache(n); k.direct {
		b.want(oneHeads * k.maxBlocks * k.block)
		if b.plan.Max.T == 1 { // then no other way is ever taken
			k.class = F32
		}
	}
	return k, nil
}

// readsCache reports whether a sequence's only query can read the cache as it lies.
func (b *binder) readsCache(n *graph.Node) bool {
	a := n.Attr.(graph.AttentionKVAttr)
	return !b.invariant && a.HeadDim%32 == 0 && gemm.CanMix(n.In[1].DType) && gemm.CanMix(n.In[2].DType)
}

// tile is how many queries of a sequence make an item.
func tile(keys int) int { return max(1, min(queryTile, scoreBudget/max(1, keys))) }

// reserve asks for scratch for sequences of up to keys.
func (k *attention) reserve(b *binder, keys int) {
	b.want(max(scoreBudget, keys+k.block) + queryTile*(k.HeadDim+1))
	k.alibi()
	k.class = b.attentionClass(b.step.Root())
	if k.class == BF16 {
		b.wantHead(k.HeadDim, keys)
		k.outHalf = b.half(b.step.Root().Out[0], k.out)
	}
}

// attentionClass is the compute class of attention. Training, which wants the
// log-sum-exp, computes in f32: its backward pass does too. So does what the
// tiles have no kernel for: soft caps and biases by distance or position.
func (b *binder) attentionClass(n *graph.Node) Precision {
	changed := false
	switch a := n.Attr.(type) {
	case graph.AttentionAttr:
		changed = a.SoftCap > 0 || a.Alibi
	case graph.AttentionKVAttr:
		changed = a.SoftCap > 0 || a.Alibi
	}
	lse := n.Op == graph.OpAttention && b.plan.Place(n.Out[1]).Bytes > 0
	if changed || lse || n.Op != graph.OpAttention && n.Op != graph.OpAttentionKV {
		return F32
	}
	return b.be.opts.Precision.Attention()
}

// computeClass is for the profile.
func (k *attention) computeClass() Precision { return k.class }

func (k *attention) name() string {
	if k.paged {
		return "attention " + string(k.class) + " paged"
	}
	return "attention " + string(k.class)
}

// minScores is the share of attention below which a worker is not worth having,
// in multiply-adds: far less than in products, because so little of it is
// multiplying.
const minScores = 1 << 14

// width is by the number of score elements; tiles are whole ones.
func (k *attention) width(b tensor.Bind, n int) int {
	qs := k.qStart.all(b)
	work := 0
	for s := 0; s+1 < len(qs); s++ {
		q := int(qs[s+1] - qs[s])
		keys := k.keys(b, s, q)
		if k.class == BF16 && q > 1 {
			q, keys = (q+15)/16*16, (keys+15)/16*16
		}
		work += q * keys * k.HeadDim * k.Heads
	}
	return max(1, min(max(n, work/maxMACs), work/minScores))
}

// keys is the number of keys that sequence s has.
func (k *attention) keys(b tensor.Bind, s, queries int) int {
	if k.paged {
		return int(k.kvLen.full[s])
	}
	return queries
}

func (k *attention) run(w *worker, b tensor.Bind, i, n int) {
	qs := k.qStart.all(b)
	item := 0
	for s := 0; s+1 < len(qs); s++ {
		q0, q1 := int(qs[s]), int(qs[s+1])
		keys := k.keys(b, s, q1-q0)
		if k.direct && q1-q0 == 1 && !k.outHalf.in(k.out.rows(b)) {
			for kv := range k.KVHeads {
				if item++; item%n == i {
					k.one(w, s, q0, kv, keys)
				}
			}
			continue
		}
		if k.class == BF16 {
			item = k.tiles(w, b, s, q0, q1, keys, item, i, n)
			continue
		}
		step := tile(keys + k.block)
		for h := range k.Heads {
			for t := q0; t < q1; t += step {
				if item++; item%n == i {
					k.queries(w, s, h, t, min(t+step, q1), keys-(q1-t), q0, keys)
				}
			}
		}
	}
}

// queries computes rows [t0,t1) of head h; pos is the position of t0 among
// the keys of the sequence, which begin at token first where not paged.
func (k *attention) queries(w *worker, s, h, t0, t1, pos, first, keys int) {
	lo, _ := k.Visible(pos, keys)
	_, hi := k.Visible(pos+t1-t0-1, keys)
	if k.paged {
		lo = lo / k.block * k.block
	}
	d, kv := k.HeadDim, h/(k.Heads/k.KVHeads)
	rows, cols := t1-t0, hi-lo
	scores, rest := w.scratch.f[:rows*cols], w.scratch.f[rows*cols:] // [rows][cols]
	sums, q := rest[:rows], rest[rows:][:rows*d]                     // [rows], [rows][d]
	for r := range rows {
		vec.Scale(q[r*d:][:d], k.q.full[(t0+r)*k.q.cols+h*d:][:d], k.Scale)
	}
	k.eachRun(s, first, lo, hi, func(row, j, n int) {
		keys, ldk := k.k.head(w.scratch.keys, row, n, kv, d)
		k.scores(w, scores[j-lo:], cols, q, keys, ldk, rows, n)
	})
	for r := range rows {
		a, z := k.Visible(pos+r, keys)
		row := scores[r*cols : (r+1)*cols]
		k.bias.add(row[a-lo:z-lo], h, pos+r, a)
		sum, shift := k.softmax(row[a-lo : z-lo])
		clear(row[:a-lo])
		clear(row[z-lo:])
		if k.lse.present() {
			k.lse.row(t0 + r)[h] = shift + log32(sum)
		}
		sums[r] = sum
	}
	started := false
	k.eachRun(s, first, lo, hi, func(row, j, n int) {
		values, ldv := k.v.head(w.scratch.keys, row, n, kv, d)
		k.weigh(w, k.out.full[t0*k.out.cols+h*d:], scores[j-lo:], cols, values, ldv, rows, n, started)
		started = true
	})
	for r := range rows {
		out := k.out.full[(t0+r)*k.out.cols+h*d:][:d]
		vec.Scale(out, out, 1/sums[r])
	}
}

// eachRun visits keys [lo,hi) of sequence s as runs of consecutive cache rows.
func (k *attention) eachRun(s, first, lo, hi int, f func(row, j, n int)) {
	if !k.paged {
		f(first+lo, lo, hi-lo)
		return
	}
	table := k.table.full[s*k.maxBlocks:]
	for j := lo; j < hi; j += k.block {
		f(int(table[j/k.block])*k.block, j, min(k.block, hi-j))
	}
}

// scores writes s[rows][ld] = q k^T for n keys, q being [rows][HeadDim].
func (k *attention) scores(w *worker, s []float32, ld int, q, keys []float32, ldk, rows, n int) {
	d := k.HeadDim
	if rows == 1 {
		for j := range n {
			s[j] = vec.Dot(q[:d], keys[j*ldk:][:d])
		}
		return
	}
	w.scratch.rows = gemm.Rows{W: keys, N: n, K: d, LD: ldk}
	t := gemm.Task{M: rows, N: n, K: d, A: q, LDA: d, B: &w.scratch.rows, C: s, LDC: ld}
	gemm.Run(&t, 0, rows, 0, gemm.NumPanels(n), w.scratch.gemm)
}

// softmax turns a row of scores into exponentials; the caller divides by sum.
func (k *attention) softmax(row []float32) (sum, shift float32) {
	if k.SoftCap > 0 {
		vec.SoftCap(row, row, k.SoftCap)
	}
	shift = vec.Max(row)
	return vec.Exp(row, row, shift), shift
}

// weigh adds p[rows][ld] v to the output rows.
func (k *attention) weigh(w *worker, out, p []float32, ld int, values []float32, ldv, rows, n int, add bool) {
	d := k.HeadDim
	if rows == 1 {
		if !add {
			clear(out[:d])
		}
		for j := range n {
			vec.Axpy(out[:d], values[j*ldv:][:d], p[j])
		}
		return
	}
	w.scratch.natural = gemm.Natural{W: values, N: d, K: n, LD: ldv}
	t := gemm.Task{M: rows, N: d, K: n, A: p, LDA: ld, B: &w.scratch.natural, C: out, LDC: k.out.cols, Accumulate: add}
	gemm.Run(&t, 0, rows, 0, gemm.NumPanels(d), w.scratch.gemm)
}

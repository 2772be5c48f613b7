package gemm

import (
	"fmt"
	"math"

	"hotpath/internal/kernel/isa"
	"hotpath/internal/kernel/vec"
)

const (
	log2e = float32(math.Log2E)
	// headScores is how many scores a block of queries has, unless one strip has
	// more: they are written, read twice and read again as probabilities, and
	// should not leave L1 meanwhile.
	headScores = 4096
	// headStrips is how many strips of rows a block has at most.
	headStrips = 4
	// callMACs bounds one call of assembly to about 100 us, which is how long a
	// goroutine may keep the scheduler waiting.
	callMACs = 1 << 22
	// leastScale is the smallest that softmax brings in itself: what it makes -127
	// has to be a number, and of hidden scores more than nothing has to be left.
	leastScale = 1e-30
)

// Head is attention of one key head in f32 over packed keys and values: scores,
// softmax and weighted sum of a block of queries at a time. What comes out for a
// query does not depend on the queries beside it nor on which keys that it does
// not see are packed.
type Head struct {
	dim   int
	scale float32
	keys  []float32 // [panels of keys][dim][NR]
	vals  []float32 // [panels of dim][deep][NR]
	n     int       // keys packed
	deep  int       // keys in whole chunks of four
	task  Task      // the queries, for packing

	q      []float32 // [strips][dim/4][h][4]
	scores []float32 // [rows][keys]
	probs  []float32 // [strips][keys/4][h][4]
	sums   []float32 // [rows]
	tops   []float32 // [rows], the largest scores
	unit   float32   // of tops
	out    []float32 // [rows][panels of dim]
}

// NewHead makes room for heads of up to dim and up to keys keys, on any tier.
func NewHead(dim, keys int) *Head {
	kp, dp := up(keys, maxNR), up(dim, maxNR)
	rows, scores := headStrips*maxMR, max(headScores, maxMR*kp)
	return &Head{
		keys: make([]float32, kp*dp), vals: make([]float32, kp*dp), q: make([]float32, rows*dp),
		scores: make([]float32, scores), probs: make([]float32, scores),
		sums: make([]float32, rows), tops: make([]float32, rows), out: make([]float32, rows*dp),
	}
}

// up rounds n up to a multiple of m.
func up(n, m int) int { return (n + m - 1) / m * m }

// BlockRows is how many queries, at most, that see up to keys keys are computed
// together.
func BlockRows(keys int) int {
	return MR() * max(1, min(headStrips, headScores/(MR()*up(max(1, keys), NR()))))
}

// Reset begins a head of n keys.
func (h *Head) Reset(dim, n int, scale float32) {
	nr := NR()
	h.dim, h.scale, h.n, h.deep = dim, scale, n, up(n, 4)
	if up(n, nr)*dim > len(h.keys) || up(dim, nr)*h.deep > len(h.vals) || MR()*up(n, nr) > len(h.scores) {
		panic(fmt.Sprintf("gemm: a head of %d for %d keys is beyond the size it was made for", dim, n))
	}
	if n%nr != 0 {
		clear(h.keys[n/nr*nr*dim:][:nr*dim])
	}
	for d := 0; d < dim; d += nr {
		clear(h.vals[d*h.deep+n*nr:][:(h.deep-n)*nr])
	}
}

// Add packs keys [at, at+n) of the head, rows of k and v that are ldk and ldv
// apart.
func (h *Head) Add(at, n int, k []float32, ldk int, v []float32, ldv int) {
	nr := NR()
	for r := 0; r < n; {
		off := (at + r) % nr
		rows := min(nr-off, n-r)
		transpose(h.keys[(at+r-off)*h.dim+off:], k[r*ldk:], nr, ldk, rows, h.dim)
		r += rows
	}
	for d := 0; d < h.dim; d += nr {
		copyPanel(h.vals[d*h.deep+at*nr:], v[d:], ldv, n, min(nr, h.dim-d))
	}
}

// Queries computes out rows of up to BlockRows queries q. visible says which of
// the keys query i sees; lo to hi is the span that any of them sees. adjust,
// where not nil, changes the scaled scores of the keys that query i sees; drop,
// where not nil, changes their weights after the softmax.
func (h *Head) Queries(out []float32, ldo int, q []float32, ldq, rows, lo, hi int, visible func(i int) (int, int), adjust, drop func(i int, scores []float32)) {
	tier := isa.Vector()
	mr, nr := shapes[tier].mr, shapes[tier].nr
	lo = lo / nr * nr
	cols, depth := up(hi-lo, nr), up(hi-lo, 4)
	dp, d4 := up(h.dim, nr), up(h.dim, 4)
	if cols == 0 {
		clear(h.sums[:rows])
		clear(h.tops[:rows])
		clear(h.out[:rows*dp])
	}
	h.task = Task{A: q, LDA: ldq}
	scaled := adjust != nil || h.scale < leastScale // before the others are hidden
	if h.unit = h.scale; scaled {
		h.unit = 1
	}
	strips := (rows + mr - 1) / mr
	base, extra := rows/strips, rows%strips
	// Strips of a row more, then the others.
	for r, high, n := 0, base+1, extra; r < rows && cols > 0; high, n = base, strips-extra {
		if n == 0 {
			continue
		}
		a, scores, probs := h.q[r*d4:], h.scores[r*cols:], h.probs[r*cols:]
		for i := range n {
			packA(tier, a[i*high*d4:], &h.task, r+i*high, high, 0, h.dim)
		}
		multiply(tier, a, h.keys[lo*h.dim:], scores, h.dim, d4, cols, high, n, nr*h.dim, cols/nr)
		for i := range n * high {
			from, to := visible(r + i)
			from, to = max(0, from-lo), max(0, to-lo)
			row := scores[i*cols : (i+1)*cols]
			if scaled {
				vec.Scale(row[from:to], row[from:to], h.scale)
			}
			if adjust != nil {
				adjust(r+i, row[from:to])
			}
			hide(row[:from])
			hide(row[to:])
		}
		softmax(tier, probs, scores, cols, high, n, h.unit, h.sums[r:], h.tops[r:])
		for i := 0; drop != nil && i < n*high; i++ {
			from, to := visible(r + i)
			from, to = max(0, from-lo), max(0, to-lo)
			row := scores[i*cols+from : i*cols+to]
			packed := probs[i/high*high*cols+i%high*4:]
			for j := range row {
				row[j] = packed[(from+j)/4*high*4+(from+j)%4]
			}
			drop(r+i, row)
			for j := range row {
				packed[(from+j)/4*high*4+(from+j)%4] = row[j]
			}
		}
		multiply(tier, probs, h.vals[lo*nr:], h.out[r*dp:], depth, cols, dp, high, n, nr*h.deep, dp/nr)
		r += n * high
	}
	if divideFast(out, ldo, h.out, dp, h.dim, rows, h.sums) {
		return
	}
	for i := range rows {
		s := h.sums[i]
		if s != 0 {
			s = 1 / s
		}
		vec.Scale(out[i*ldo:][:h.dim], h.out[i*dp:][:h.dim], s)
	}
}

// LogSum is the logarithm of the sum of e^score of query i of the last block.
func (h *Head) LogSum(i int) float32 {
	return h.tops[i]*h.unit + float32(math.Log(float64(h.sums[i])))
}

// hide makes scores of keys that a query does not see.
func hide(scores []float32) {
	inf := float32(math.Inf(-1))
	for i := range scores {
		scores[i] = inf
	}
}

// multiply is c = a b for strips of h rows, deep values of K apart, of which k
// count, over panels of b.
func multiply(tier isa.Tier, a, b, c []float32, k, deep, ldc, h, strips, nextB, panels int) {
	nr := shapes[tier].nr
	_, _ = a[strips*h*deep-1], b[(panels-1)*nextB+k*nr-1]
	if (strips == 1 || up(k, 4) == deep) && strips*h*k*nr*panels <= callMACs {
		tiles(tier, a, b, c, nil, k, ldc, h, strips, false, nextB, panels)
		return
	}
	most := max(1, callMACs/(h*kc*nr))
	for i := range strips {
		for k0 := 0; k0 < k; k0 += kc {
			for p := 0; p < panels; p += most {
				tiles(tier, a[i*h*deep+k0*h:], b[p*nextB+k0*nr:], c[i*h*ldc+p*nr:], nil, min(kc, k-k0), ldc, h, 1, k0 > 0, nextB, min(most, panels-p))
			}
		}
	}
}

// softmax makes strips of rows of n scores unnormalised probabilities, packed,
// with the sum and the largest score of each row beside them.
func softmax(tier isa.Tier, dst, src []float32, n, h, strips int, scale float32, sums, tops []float32) {
	if softmaxFast(tier, dst, src, n, h, strips, scale, sums, tops) {
		return
	}
	for i := range strips * h {
		row := src[i*n : (i+1)*n]
		tops[i] = max(vec.Max(row), -math.MaxFloat32)
		vec.Scale(row, row, scale)
		sums[i] = vec.Exp(row, row, max(tops[i]*scale, -math.MaxFloat32))
	}
	t := Task{A: src, LDA: n}
	for i := range strips {
		packA(tier, dst[i*h*n:], &t, i*h, h, 0, n)
	}
}

package i16

import "unsafe"

// maxGroups bounds the groups of a block of K: the part of a panel that a
// block multiplies with, 1 KiB a group, stays in L1 while strips pass.
const maxGroups = 20

// depth is the groups of a block of K; the last one may have fewer. It is even,
// because kernels decode 64 values of long blocks together.
func depth(groups int) int {
	blocks := (groups + maxGroups - 1) / maxGroups
	return ((groups+blocks-1)/blocks + 1) &^ 1
}

// quantize leaves rows of A in the scratch, unless they are there already.
func (s *Scratch) quantize(t *Task, f kernelFamily, m, rows int) {
	a, mr, kp := t.A[m*t.LDA:], rowsOf(f), padK(t.K)
	if t.Epoch != 0 && s.of == &a[0] && s.epoch == t.Epoch && s.m == rows && s.k == t.K && s.mr == mr {
		return
	}
	groups := kp / Group
	most := depth(groups)
	q := quantizer{rows: 1, lds: t.LDA, stride: mr, limit: limitX}
	for r := 0; r < rows; r += q.rows {
		x := a[r*t.LDA:]
		if t.K != kp {
			clear(s.row[copy(s.row[:kp], x[:t.K]):kp])
			x = s.row[:kp]
		} else {
			q.rows = min(mr, rows-r) // a strip
		}
		for g := 0; g < groups; g += most {
			q.groups = min(most, groups-g)
			q.codes(f, s.a[(mc*g+r*q.groups)*Group:], x[g*Group:], s.scales[mc*g+r/mr*q.groups*mr+r%mr:])
		}
	}
	for r := rows; r%mr != 0; r++ { // rows that only fill up a strip
		for g := 0; g < groups; g += most {
			d := min(most, groups-g)
			clear(s.a[(mc*g+r*d)*Group:][:d*Group])
			for i := range d {
				s.scales[mc*g+(r/mr*d+i)*mr+r%mr] = 0
			}
		}
	}
	s.of, s.epoch, s.m, s.k, s.mr = &a[0], t.Epoch, rows, t.K, mr
}

// dotArgs are the operands of the assembly kernels, in its order.
type dotArgs struct {
	a       *int16
	strideA int // bytes, as all distances
	w       *int16
	wScale  *float32
	xScale  *float32
	c       *float32
	strideC int
	init    *float32
	strideI int // 0: one row for all
	groups  int
	strips  int // counted down
	sums    *float32
	ahead   unsafe.Pointer // what is read after this panel
	step    int            // of it, asked for with each group
	//lint:ignore U1000 kept by assembly
	began int // of init; an integer, because a pointer would end up behind the last row
	act   Act
}

// callMACs bounds what one assembly call does, so that it ends soon when the
// garbage collector wants to stop everyone.
const callMACs = 2 << 20

// block is a part of a product: rows [m,m+rows) of A, which are quantized,
// times groups [g0,g0+groups) of K, columns [n0,n0+cols).
type block struct {
	m, rows    int
	n0, cols   int
	g0, groups int
	act        Act // of the last block of K
}

// multiply makes the columns of panel p of the quantized rows [m,m+rows), a
// block of K after the other, while next is fetched.
func (s *Scratch) multiply(t *Task, f kernelFamily, p int, next []byte, m, rows int) {
	k := block{m: m, rows: rows, n0: p * NR, cols: min(NR, t.N-p*NR)}
	clear(s.init)
	if t.Bias != nil {
		copy(s.init[:k.cols], t.Bias[k.n0:])
	}
	groups := padK(t.K) / Group
	most := depth(groups)
	for ; k.g0 < groups; k.g0 += most {
		if k.groups = min(most, groups-k.g0); k.g0+k.groups == groups {
			k.act = t.Act
		}
		s.strips(t, f, t.W.Panel(p, k.g0, k.groups, s), next, k)
		next = nil // it has been asked for
	}
}

// strips multiplies a block; it adds to C from the second block of K on.
func (s *Scratch) strips(t *Task, f kernelFamily, p Panel, next []byte, k block) {
	mr := rowsOf(f)
	most := max(1, callMACs/(k.groups*Group*NR*mr))
	step := 64 * min(2, 1+len(next)/(64*k.groups*((k.rows+mr-1)/mr)))
	for r := 0; r < k.rows; {
		n, h := min(most, (k.rows-r)/mr), min(mr, k.rows-r)
		out := t.C[(k.m+r)*t.LDC+k.n0:]
		c, ldc := out, t.LDC
		edge := n == 0 || k.cols < NR
		if edge {
			n, c, ldc = 1, s.c, NR
		}
		init, ldi := s.init, 0
		if k.g0 > 0 {
			if init, ldi = c, ldc; edge {
				for i := range h {
					copy(c[i*NR:][:k.cols], out[i*t.LDC:])
				}
			}
		}
		if f == generic {
			s.dotGeneric(p, k, r, n*mr, c, ldc, init, ldi)
		} else {
			s.args = dotArgs{
				a: &s.a[(mc*k.g0+r*k.groups)*Group], strideA: k.groups * Group * 2,
				w: &p.codes[0], wScale: &p.scales[0], xScale: &s.scales[mc*k.g0+r*k.groups],
				c: &c[0], strideC: ldc * 4, init: &init[0], strideI: ldi * 4, groups: k.groups, strips: n, sums: &s.sums[0], act: k.act,
			}
			if at := r / mr * k.groups * step; at < len(next) {
				s.args.ahead, s.args.step = unsafe.Pointer(&next[at]), step
			}
			dot(f, &s.args)
		}
		if edge {
			for i := range h {
				copy(out[i*t.LDC:][:k.cols], c[i*NR:])
			}
		}
		r += n * mr
	}
}

// dotGeneric is the twin in plain Go, of rows [r,r+rows) of the block.
func (s *Scratch) dotGeneric(p Panel, k block, r, rows int, c []float32, ldc int, init []float32, ldi int) {
	mr := rowsOf(generic)
	scales := s.scales[mc*k.g0:] // [strips][groups][mr]
	for i := range rows {
		a := s.a[(mc*k.g0+(r+i)*k.groups)*Group:]
		row := c[i*ldc:][:NR]
		copy(row, init[i*ldi:])
		for g := range k.groups {
			x := a[g*Group:][:Group]
			xs := scales[((r+i)/mr*k.groups+g)*mr+(r+i)%mr]
			for n := range row {
				var sum int32
				for j, v := range x {
					sum += int32(v) * int32(p.codes[(g*Group+j)/2*2*NR+2*n+j%2])
				}
				row[n] += float32(float32(sum)*xs) * p.scales[g*NR+n]
			}
		}
		k.act.generic(row)
	}
}

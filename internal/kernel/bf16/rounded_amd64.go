package bf16

import "unsafe"

// Kernels that round what they made, by activation.

//go:noescape
func tileOutPlain(t *tileArgs)

//go:noescape
func tileOutGelu(t *tileArgs)

//go:noescape
func tileOutGeluTanh(t *tileArgs)

//go:noescape
func tileOutSilu(t *tileArgs)

//go:noescape
func tileGLUGelu(t *tileArgs)

//go:noescape
func tileGLUGeluTanh(t *tileArgs)

//go:noescape
func tileGLUSilu(t *tileArgs)

//go:noescape
func rowsOutPlain(t *tileArgs, rows int)

//go:noescape
func rowsOutGelu(t *tileArgs, rows int)

//go:noescape
func rowsOutGeluTanh(t *tileArgs, rows int)

//go:noescape
func rowsOutSilu(t *tileArgs, rows int)

//go:noescape
func rowsGLUGelu(t *tileArgs, rows int)

//go:noescape
func rowsGLUGeluTanh(t *tileArgs, rows int)

//go:noescape
func rowsGLUSilu(t *tileArgs, rows int)

// The tables by activation: one product, and act of one times another.
var (
	tileOut = [numActs]func(*tileArgs){tileOutPlain, tileOutGelu, tileOutGeluTanh, tileOutSilu}
	tileGLU = [numActs]func(*tileArgs){nil, tileGLUGelu, tileGLUGeluTanh, tileGLUSilu}
	rowsOut = [numActs]func(*tileArgs, int){rowsOutPlain, rowsOutGelu, rowsOutGeluTanh, rowsOutSilu}
	rowsGLU = [numActs]func(*tileArgs, int){nil, rowsGLUGelu, rowsGLUGeluTanh, rowsGLUSilu}
)

// roundedTiles finishes rows m.. of panels [p0,p1), which lie one behind the
// other in b, and b2 where there is a second operand: whole blocks on the tiles,
// and what is left over through a buffer.
func roundedTiles(t *RoundedTask, x, b, b2 []uint16, m, rows, p0, p1 int, s *Scratch) {
	kp := padK(t.K)
	steps, blocks, size := kp/kStep, rows/MR, kp*NR
	kernel, finish, halves := tileOut[t.Act], rowsOut[t.Act], 1
	if t.B2 != nil {
		// A panel of each product is one tile of columns of both, twice.
		kernel, finish, halves = tileGLU[t.Act], rowsGLU[t.Act], 2
	}
	// job is one of rows from m+r on, panel p and a half of both operands; high
	// is how many rows its blocks have.
	job := func(r, p, h, blocks, high int) (j walkJob) {
		at := (p - p0) * size
		j = walkJob{a: &x[r*kp], c: unsafe.Pointer(&t.Out[(m+r)*t.N+p*NR*high+16*h]), steps: steps, blocks: blocks}
		if t.B2 == nil {
			j.b, j.b2 = &b[at], &b[at+512]
			if t.Bias != nil {
				j.init, j.init2 = &t.Bias[p*NR], &t.Bias[p*NR+16]
			}
			return j
		}
		j.b, j.b2 = &b[at+512*h], &b2[at+512*h]
		if t.Bias != nil || t.Bias2 != nil {
			j.init, j.init2 = bias(t.Bias, p*NR+16*h), bias(t.Bias2, p*NR+16*h)
		}
		return j
	}
	a := &s.args
	*a = tileArgs{cfg: &configs[MR], strideA: kStep * 2, tiles: &s.blocks[0], job: &s.job}
	w := walker{tileArgs: a, jobs: s.jobs[:0], kernel: kernel}
	// Down the rows: what is finished meanwhile leaves less of L1 to A than a
	// block needs that stays.
	a.nextA, a.nextC = MR*kp*2, MR*t.N*2
	for p := p0; p < p1 && blocks > 0; p++ {
		for h := range halves {
			w.addJob(job(0, p, h, blocks, MR))
		}
	}
	w.flush()
	n, far := rows%MR, 0
	if _, ok := t.B.(*Packed); ok {
		far = NR
	}
	for p := p0; p < p1 && n > 0; p += tailPanels {
		for h := range halves {
			j := job(blocks*MR, p, h, min(p1-p, tailPanels), n)
			s.rest = tileArgs{cfg: &configs[n], a: j.a, b: j.b, b2: j.b2, c: &s.blocks[0], init: j.init, init2: j.init2, strideA: kStep * 2, strideC: NR * 4,
				steps: steps, stepA: n * kStep * 2, blocks: j.blocks, nextB: size * 2, nextC: MR * NR * 4, nextInit: NR * 4, job: &s.job, lines: far}
			tileAlong(&s.rest, n)
			for i := range j.blocks {
				a.tiles, a.out = &s.blocks[i*MR*NR], &t.Out[(m+blocks*MR)*t.N+(p+i)*NR*n+16*h]
				finish(a, n)
			}
		}
	}
}

// bias is that of the columns from n on, or one of nothing.
func bias(b []float32, n int) *float32 {
	if b == nil {
		return &zeros[0]
	}
	return &b[n]
}

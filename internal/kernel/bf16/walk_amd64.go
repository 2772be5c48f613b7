package bf16

import "unsafe"

// Packed panels lie one behind the other, so one call takes many of them.

//go:noescape
func walkDown(t *tileArgs)

//go:noescape
func walkUnpack(t *tileArgs)

//go:noescape
func walkAlong(t *tileArgs)

// maxSteps bounds one call, in products of 32 x 32 x 32: 20 us at full speed,
// and well under 100 us on a core that is shared.
const maxSteps = 768

// nearBytes is how much of A and B together stays in L2, so that all panels can
// pass by once for each block of rows.
const nearBytes = 1300 << 10

// More than maxLines that are asked for in a step hold up the tiles' own loads;
// fewLines do not.
const maxLines, fewLines = 8, 4

func bytesOn[T any](p *T, n int) *T { return (*T)(unsafe.Add(unsafe.Pointer(p), n)) }

// walker collects jobs and does them.
type walker struct {
	*tileArgs
	jobs   []walkJob
	todo   int // steps of the jobs
	kernel func(*tileArgs)
}

func (w *walker) addJob(j walkJob) {
	if len(w.jobs) == cap(w.jobs) || w.todo+j.steps*j.blocks > maxSteps {
		w.flush()
	}
	w.jobs = append(w.jobs, j)
	w.todo += j.steps * j.blocks
}

func (w *walker) flush() {
	if len(w.jobs) == 0 {
		return
	}
	w.list, w.count = &w.jobs[0], len(w.jobs)
	w.kernel(w.tileArgs)
	w.ahead += uintptr(w.todo * w.lines * 64)
	w.jobs, w.todo = w.jobs[:0], 0
}

// packedTiles multiplies rounded rows with packed panels [p0,p1), all of them
// whole, which lie one behind the other in b.
func packedTiles(t *Task, b, x []uint16, m, rows, p0, p1 int, s *Scratch) {
	kp := padK(t.K)
	steps, blocks, size := kp/kStep, rows/MR, kp*NR
	a := &s.args
	*a = tileArgs{cfg: &configs[MR], strideA: kStep * 2, strideC: t.LDC * 4, quota: quota(steps)}
	switch {
	case blocks == 0 || p0 == p1:
	case 2*kp*(rows+(p1-p0)*NR) <= nearBytes:
		w := walker{tileArgs: a, jobs: s.jobs[:0], kernel: walkAlong}
		a.nextB, a.nextC, a.nextInit = size*2, NR*4, NR*4
		for r := range blocks {
			for p := p0; p < p1; {
				n := min(p1-p, max(1, maxSteps/steps))
				w.addJob(t.walk(x, b[(p-p0)*size:], m, r*MR, p, 0, steps, n))
				p += n
			}
		}
		w.flush()
	default:
		w := walker{tileArgs: a, jobs: s.jobs[:0], kernel: walkDown}
		// The next panel is asked for, which is no panel after the last one.
		a.ahead, a.lines = uintptr(unsafe.Pointer(&b[0]))+uintptr(size*2), (NR+blocks-1)/blocks
		if a.lines > maxLines {
			a.lines = fewLines
		}
		for p := p0; p < p1; p++ {
			w.down(t, x, b[(p-p0)*size:], m, p, steps, blocks)
		}
		w.flush()
	}
	for p := p0; p < p1 && rows%MR > 0; {
		n := min(p1-p, max(1, maxSteps/steps))
		t.last(x, b[(p-p0)*size:], m, rows, p, n, NR, s)
		p += n
	}
}

// partTiles multiplies rows in the scratch with whole panels [p0,p1), of which b has
// the part of K that t is of; they lie size values apart.
func partTiles(t *Task, b []uint16, size, rows, p0, p1 int, s *Scratch) {
	steps, blocks := padK(t.K)/kStep, rows/MR
	for p := p0; p < p1; p++ {
		panel := b[p*size:]
		if blocks > 0 {
			a := &s.args
			*a = tileArgs{cfg: &configs[MR], strideA: kStep * 2, strideC: t.LDC * 4}
			if p+1 < p1 {
				a.ahead, a.lines = uintptr(unsafe.Pointer(&panel[0]))+uintptr(size*2), min(fewLines, (NR+blocks-1)/blocks)
			}
			w := walker{tileArgs: a, jobs: s.jobs[:0], kernel: walkDown}
			w.down(t, s.a, panel, 0, p, steps, blocks)
			w.flush()
		}
		if rows%MR > 0 {
			t.last(s.a, panel, 0, rows, p, 1, NR, s)
		}
	}
}

// builtTiles multiplies rounded rows with panel p, which is whole and was built,
// and unpacks the next one meanwhile.
func builtTiles(t *Task, b, x []uint16, m, rows, p int, s *Scratch) {
	steps, blocks := padK(t.K)/kStep, rows/MR
	if blocks > 0 {
		a := &s.args
		*a = tileArgs{cfg: &configs[MR], strideA: kStep * 2, strideC: t.LDC * 4, job: &s.job}
		// A panel has two units for each step: four blocks, with a part behind
		// each product, unpack it.
		if blocks < 4 {
			a.twice = 1
		}
		w := walker{tileArgs: a, jobs: s.jobs[:0], kernel: walkUnpack}
		for r := 0; r < blocks; r += maxBlocks {
			w.down(t, x[r*MR*steps*kStep:], b, m+r*MR, p, steps, min(blocks-r, maxBlocks))
		}
		w.flush()
	}
	if rows%MR > 0 {
		t.last(x, b, m, rows, p, 1, 0, s)
	}
}

// down adds blocks of rows from m on and panel p. A panel beyond L1 goes in
// parts; C starts from what it was, but for the first.
func (w *walker) down(t *Task, x, b []uint16, m, p, steps, blocks int) {
	parts := (steps + kc - 1) / kc
	w.nextA, w.nextC, w.quota = MR*steps*kStep*2, MR*w.strideC, quota(steps/parts)
	for i := range parts {
		w.addJob(t.walk(x, b, m, 0, p, steps*i/parts, steps*(i+1)/parts, blocks))
	}
}

// walk is the job of blocks of rows from m+r on, of which x has those from m on,
// panel p, which b begins with, and steps [k0,k1).
func (t *Task) walk(x, b []uint16, m, r, p, k0, k1, blocks int) walkJob {
	c := &t.C[(m+r)*t.LDC+p*NR]
	j := walkJob{a: &x[r*padK(t.K)+k0*MR*kStep], b: &b[k0*1024], c: unsafe.Pointer(c), steps: k1 - k0, blocks: blocks}
	switch {
	case k0 > 0 || t.Accumulate:
		j.init, j.strideInit = c, t.LDC*4
	case t.Bias != nil:
		j.init = &t.Bias[p*NR]
	}
	return j
}

// last multiplies the rows behind the last whole block with panels from p on,
// which come from afar where lines is not zero.
func (t *Task) last(x, b []uint16, m, rows, p, panels, lines int, s *Scratch) {
	n, steps := rows%MR, padK(t.K)/kStep
	j := t.walk(x, b, m, rows-n, p, 0, steps, panels)
	a := &s.args
	*a = tileArgs{cfg: &configs[n], a: j.a, b: j.b, b2: bytesOn(j.b, 1024), c: (*float32)(j.c), init: j.init, strideA: kStep * 2, strideC: t.LDC * 4, strideInit: j.strideInit,
		steps: steps, stepA: n * kStep * 2, blocks: panels, nextB: steps * 2048, nextC: NR * 4, nextInit: NR * 4, job: &s.job, lines: lines}
	if j.init != nil {
		a.init2 = bytesOn(j.init, 64)
	}
	tileAlong(a, n)
}

// quota is how many rows of C are asked for in each of steps.
func quota(steps int) int { return max(1, (MR+steps/2)/steps) }

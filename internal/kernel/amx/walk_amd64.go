package amx

import "unsafe"

// Packed panels lie one behind the other, so one call takes many of them.

//go:noescape
func walkDown(t *tileArgs)

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

func (w *walker) add(j walkJob) {
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
// whole.
func packedTiles(t *Task, b *Packed, x []uint16, m, rows, p0, p1 int, s *Scratch) {
	kp := padK(t.K)
	steps, blocks, size := kp/kStep, rows/MR, kp*NR
	a := &s.args
	*a = tileArgs{cfg: &configs[MR], strideA: kStep * 2, strideC: t.LDC * 4, quota: quota(steps)}
	// job is one of rows from m+r on, panel p and steps [k0,k1).
	job := func(r, p, k0, k1, blocks int) (j walkJob) {
		c := &t.C[(m+r)*t.LDC+p*NR]
		j = walkJob{a: &x[r*kp+k0*MR*kStep], b: &b.Data[p*size+k0*1024], c: unsafe.Pointer(c), steps: k1 - k0, blocks: blocks}
		switch {
		case k0 > 0 || t.Accumulate:
			j.init, j.strideInit = c, t.LDC*4
		case t.Bias != nil:
			j.init = &t.Bias[p*NR]
		}
		return j
	}
	switch {
	case blocks == 0 || p0 == p1:
	case 2*kp*(rows+(p1-p0)*NR) <= nearBytes:
		w := walker{tileArgs: a, jobs: s.jobs[:0], kernel: walkAlong}
		a.nextB, a.nextC, a.nextInit = size*2, NR*4, NR*4
		for r := range blocks {
			for p := p0; p < p1; {
				n := min(p1-p, max(1, maxSteps/steps))
				w.add(job(r*MR, p, 0, steps, n))
				p += n
			}
		}
		w.flush()
	default:
		w := walker{tileArgs: a, jobs: s.jobs[:0], kernel: walkDown}
		a.nextA, a.nextC = MR*kp*2, MR*a.strideC
		// The next panel is asked for, which is no panel after the last one.
		a.ahead, a.lines = uintptr(unsafe.Pointer(&b.Data[p0*size]))+uintptr(size*2), (NR+blocks-1)/blocks
		if a.lines > maxLines {
			a.lines = fewLines
		}
		// A panel beyond L1 goes in parts; C starts from what it was, but for
		// the first.
		parts := (steps + kc - 1) / kc
		a.quota = quota(steps / parts)
		for p := p0; p < p1; p++ {
			for i := range parts {
				w.add(job(0, p, steps*i/parts, steps*(i+1)/parts, blocks))
			}
		}
		w.flush()
	}
	// What is behind the last whole block.
	n := rows % MR
	for p := p0; p < p1 && n > 0; {
		j := job(blocks*MR, p, 0, steps, min(p1-p, max(1, maxSteps/steps)))
		*a = tileArgs{cfg: &configs[n], a: j.a, b: j.b, b2: bytesOn(j.b, 1024), c: (*float32)(j.c), init: j.init, strideA: kStep * 2, strideC: t.LDC * 4, strideInit: j.strideInit,
			steps: steps, stepA: n * kStep * 2, blocks: j.blocks, nextB: size * 2, nextC: NR * 4, nextInit: NR * 4, job: &idle, lines: NR}
		if j.init != nil {
			a.init2 = bytesOn(j.init, 64)
		}
		tileAlong(a, n)
		p += j.blocks
	}
}

// quota is how many rows of C are asked for in each of steps.
func quota(steps int) int { return max(1, (MR+steps/2)/steps) }

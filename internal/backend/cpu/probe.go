package cpu

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
	"weak"

	"hotpath/internal/kernel/ceiling"
	"hotpath/profile"
)

// prober samples the ceilings of the machine between two runs. It takes one
// sample at a time; the recorder chooses the prober.
type prober struct {
	bursts *ceiling.Bursts
	kinds  []profile.Probe
	far    int // where the next read of the weights begins
	rates  []float64

	// Of a sample of several workers.
	kind    int
	lanes   int32
	arrived atomic.Int32
	work    func(lane int)
	parts   [][]byte // [lane] of the weights
}

// probers makes one a backend, when it is first wanted.
type probers struct {
	once sync.Once
	p    *prober
}

func (b *Backend) prober() *prober {
	b.probers.once.Do(func() {
		p := &prober{bursts: ceiling.NewBursts(b.workers), rates: make([]float64, b.workers), parts: make([][]byte, b.workers)}
		for _, k := range p.bursts.Kinds() {
			p.kinds = append(p.kinds, profile.Probe{Class: k.Class, Level: k.Level, UpTo: k.UpTo})
		}
		p.work = p.together
		b.probers.p = p
	})
	return b.probers.p
}

// free gives the memory of samples back.
func (p *probers) free() {
	if p.p != nil {
		p.p.bursts.Free()
	}
}

// ended is a context that has ended: it gets the team only if the team is free.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Probe samples one ceiling with the workers of this exec, if the recorder wants a
// sample. No run of this exec may be in flight.
func (e *exec) Probe(rec *profile.Recorder) {
	p := e.be.prober()
	if kind, due := rec.TakeProbe(len(p.kinds)); due {
		e.sample(rec, p, kind)
	}
}

// restTries bounds the samples of a ceiling at the end of a recording: those that lose their
// processor do not count.
const restTries = 10

// ProbeRest takes the samples that a short recording lacks.
func (e *exec) ProbeRest(rec *profile.Recorder) {
	p := e.be.prober()
	for range restTries { // in turn, because all share the time
		for kind, probe := range p.kinds {
			if rec.LacksProbe(probe) {
				e.sample(rec, p, kind)
			}
		}
	}
}

// sample takes one sample of a ceiling with the workers of this exec.
func (e *exec) sample(rec *profile.Recorder, p *prober, kind int) {
	var clock profile.LaneClock
	began := clock.In()
	p.bursts.Prepare()
	began += without(&clock) // what other programs took is not the sample's
	ready := profile.Now()
	n := e.lanes()
	p.kind, p.lanes = kind, int32(n)
	clear(p.rates)
	for lane := range n {
		p.parts[lane] = p.weights(&e.be.packed)
	}
	p.arrived.Store(0)
	if n == 1 {
		p.burst(0)
		off := without(&clock)
		began, ready = began+off, ready+off
	} else if e.be.team.join(ended, n, p.work) != nil {
		clear(p.rates)
	}
	clear(p.parts)
	sum, lanes := 0.0, 0
	for _, r := range p.rates[:n] {
		if r > 0 {
			sum, lanes = sum+r, lanes+1
		}
	}
	rec.SetMemory(profile.CeilingSamples, p.bursts.Bytes())
	rate := 0.0
	if lanes > 0 {
		rate = sum / float64(lanes)
	}
	rec.Probed(p.kinds[kind], rate, began, ready)
}

// without is the time without a processor since the last call.
func without(c *profile.LaneClock) int64 {
	off, _ := c.Lost()
	return max(0, off)
}

// meeting is the maximum time that a worker waits for the others before its
// burst, in nanoseconds. Workers should measure at the same time, because they
// share the memory bandwidth. A worker without a processor is not waited for.
const meeting = 20_000

func (p *prober) together(lane int) {
	p.arrived.Add(1)
	for start := profile.Now(); p.arrived.Load() < p.lanes; pause() {
		if profile.Now()-start > meeting {
			break
		}
	}
	p.burst(lane)
}

// burst makes the burst of one lane. It has no rate if the lane lost its processor.
func (p *prober) burst(lane int) {
	var clock profile.LaneClock
	clock.In()
	rate := p.bursts.Rate(p.kind, lane, p.parts[lane])
	if _, lost := clock.Lost(); !lost {
		p.rates[lane] = rate
	}
}

// leastWeights is how many reads the weights must have room for: smaller ones stay in
// caches.
const leastWeights = 64

// weights is a part of the packed weights, a different one each time; nil if the
// weights fit in caches.
func (p *prober) weights(r *resident) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	total := 0
	for _, s := range r.every {
		total += s.bytes / ceiling.FarBytes
	}
	if total < leastWeights {
		return nil
	}
	at := p.far % total
	p.far += 7 // no neighbour of the last: the processor fetches ahead
	for _, s := range r.every {
		n := s.bytes / ceiling.FarBytes
		if at >= n {
			at -= n
			continue
		}
		if mem := s.at.Value(); mem != nil {
			return unsafe.Slice(mem, s.bytes)[at*ceiling.FarBytes:][:ceiling.FarBytes]
		}
		return nil // its last session is gone
	}
	return nil
}

// ReadWeights is the rate in bytes/s at which threads read the packed weights for about d,
// behind so many reads of all of them; 0 if there are none. Weights that stay in the file
// are not among them. Weights that are freed meanwhile stay until it returns. Reads of other memory may be faster or slower: that of a virtual
// machine may lie nearer to its cores or farther away.
func (b *Backend) ReadWeights(ctx context.Context, threads, times int, d time.Duration) float64 {
	return ceiling.SteadyRead(ctx, b.packed.live(), threads, times, d)
}

// live is all memory that was handed out and is in use.
func (r *resident) live() (all [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.every {
		if mem := s.at.Value(); mem != nil {
			all = append(all, unsafe.Slice(mem, s.bytes))
		}
	}
	return all
}

// slab is memory of weights that may be gone.
type slab struct {
	at    weak.Pointer[byte]
	bytes int
}

func newSlab(mem []byte, bytes int) slab { return slab{weak.Make(unsafe.SliceData(mem)), bytes} }

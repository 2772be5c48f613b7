package engine

import (
	"context"
	"fmt"
	"sync/atomic"

	"hotpath/internal/graph"
	"hotpath/internal/sample"
)

// drawsShared is the number of logits per step from which workers share the
// sampling: about ten microseconds of greedy sampling.
const drawsShared = 1 << 16

// draws samples the tokens of one step: one token per stream that has logits. The
// token does not depend on the worker that samples it.
type draws struct {
	streams []*Stream
	logits  func(row int) []float32
	next    atomic.Int64     // the stream, or the range of logits, that no worker has taken
	scratch []sample.Scratch // one per worker
	work    func(worker int) // made once: a step allocates nothing
	scan    func(worker int) // the same for the logits of the only stream
	row     []float32        // of the only stream
	peaks   []sample.Peak    // of its ranges
}

func newDraws(workers int, logits func(row int) []float32) *draws {
	d := &draws{scratch: make([]sample.Scratch, workers), logits: logits}
	d.work = func(worker int) {
		for {
			i := int(d.next.Add(1)) - 1
			if i >= len(d.streams) {
				return
			}
			d.streams[i].draw(d.logits, &d.scratch[worker])
		}
	}
	d.scan = func(int) {
		for {
			i := int(d.next.Add(1)) - 1
			if i >= len(d.peaks) {
				return
			}
			d.peaks[i] = sample.Scan(d.row, i*sample.ScanGrain, min((i+1)*sample.ScanGrain, len(d.row)))
		}
	}
	return d
}

// atOnce is a context that has ended. A request for workers with it fails if
// they are busy.
var atOnce = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// drawAll samples for all streams, on as many workers as took part in the run of
// the step (active; 0: all). It does not wait for workers that are busy with
// other calls; the caller then samples alone. Workers share the logits of a single
// stream.
func (d *draws) drawAll(active int, side func(ctx context.Context, n int, f func(worker int)) error) {
	d.next.Store(0)
	n := len(d.scratch)
	if active > 0 {
		n = min(n, active)
	}
	if len(d.streams) == 1 {
		if n == 1 {
			side = nil
		}
		d.streams[0].drawShared(d, n, side)
		return
	}
	n = min(n, len(d.streams))
	if n > 1 && side != nil && len(d.streams)*len(d.logits(0)) >= drawsShared && side(atOnce, n, d.work) == nil {
		return
	}
	d.work(0)
}

// draw picks the stream's next token. A panic is an error of this stream, since
// no caller recovers on a worker.
func (s *Stream) draw(logits func(row int) []float32, w *sample.Scratch) {
	s.drawn.err = nil
	defer Guard(&s.drawn.err)
	row := logits(s.row)
	s.sampler.Penalize(row, s.tokens)
	s.drawn.id, s.drawn.err = s.sampler.Sample(row, w)
}

// drawShared is draw where up to n workers may look for the largest of many logits; side
// may be nil.
func (s *Stream) drawShared(d *draws, n int, side func(ctx context.Context, n int, f func(worker int)) error) {
	s.drawn.err = nil
	defer Guard(&s.drawn.err)
	row := d.logits(s.row)
	s.sampler.Penalize(row, s.tokens)
	if side == nil || len(row) < drawsShared {
		s.drawn.id, s.drawn.err = s.sampler.Sample(row, &d.scratch[0])
		return
	}
	ranges := (len(row) + sample.ScanGrain - 1) / sample.ScanGrain
	if len(d.peaks) != ranges {
		d.peaks = make([]sample.Peak, ranges)
	}
	d.row = row
	if side(atOnce, min(n, ranges), d.scan) != nil {
		d.scan(0)
	}
	d.row = nil
	peak := d.peaks[0]
	for _, p := range d.peaks[1:] {
		peak = peak.Then(p)
	}
	s.drawn.id, s.drawn.err = s.sampler.SampleBelow(peak, row, &d.scratch[0])
}

// collect reads the tokens that a device has sampled.
func (d *draws) collect(ids []int32) {
	for _, s := range d.streams {
		s.drawn.id, s.drawn.err = ids[s.row], nil
		if s.drawn.id < 0 {
			s.drawn.err = fmt.Errorf("%w: no token can be sampled: a logit is NaN or +Inf, or all are -Inf", sample.ErrLogits)
		}
	}
}

// asks writes the sampling parameters of the stream's next token for the device.
// The host's random numbers make the token the same as if the host sampled it.
func (s *Stream) asks(w *worker) {
	p, how := s.sampler.Params(), w.Sampling[s.row*graph.SampleLen:]
	how[graph.SampleTemperature], how[graph.SampleTopK] = p.Temperature, float32(min(p.TopK, 1<<24))
	how[graph.SampleTopP], how[graph.SampleMinP] = p.TopP, p.MinP
	var random uint64
	if !p.Greedy() {
		random = s.sampler.Random()
	}
	graph.PutRandom(w.Random[2*s.row:], random)
}

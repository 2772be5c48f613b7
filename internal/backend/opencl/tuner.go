package opencl

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"hotpath/internal/atomicfile"
	"hotpath/internal/tensor"
)

// Shape is a product of many rows, as the tuner knows it.
type Shape struct {
	Rows, Cols, Inner int
	Type              tensor.DType // of the weights
}

func (s Shape) String() string { return fmt.Sprintf("%dx%dx%d %s", s.Rows, s.Cols, s.Inner, s.Type) }

// Timing is what a tile took for a shape.
type Timing struct {
	Tile        string
	Nanoseconds int64
}

// tuner chooses tiles by measurement, once per shape: winners are kept in a file
// per device, driver and kernels. Each shape takes some milliseconds, and a time in
// all: then shapes get the usual tile.
type tuner struct {
	mu    sync.Mutex
	file  string // "": none
	known map[string]string
	spent time.Duration
}

const (
	// tuneTime is the most that a process spends on measuring, beside compiling.
	tuneTime = 5 * time.Second
	// tuneRows are the most rows per unit of the device that are measured: more keep
	// all units busy in the same way. leastTuned are measured on small devices too.
	tuneRows   = 256
	leastTuned = 1024
	// tuneRuns are timed after one that is not.
	tuneRuns = 3
	// maxTuned bounds the file that is read.
	maxTuned = 1 << 20
)

// newTuner reads the winners of a device. A file that cannot be read is made anew.
func newTuner(folder string, d description, half bool) *tuner {
	t := &tuner{known: map[string]string{}}
	if folder == "" {
		return t
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %d %d %v %v\n", d.Name, d.Driver, d.Version, d.Units, d.Local, tiles, half)
	for _, c := range tiles {
		io.WriteString(h, c.code(tensor.F32, false, false).source())
	}
	t.file = filepath.Join(folder, fmt.Sprintf("opencl-tiles-%x.json", h.Sum(nil)[:8]))
	f, err := os.Open(t.file)
	if err != nil {
		return t
	}
	defer f.Close()
	known := map[string]string{}
	if json.NewDecoder(io.LimitReader(f, maxTuned)).Decode(&known) == nil {
		t.known = known
	}
	return t
}

// tuned is the shape that is measured for s.
func (s Shape) tuned(d description) Shape {
	s.Rows = min(s.Rows, max(leastTuned, tuneRows*d.Units))
	return s
}

// settled is the tile for a shape, if it is chosen without a measurement.
func (t *tuner) settled(s Shape, d description) (tile, bool) {
	if c, ok := named(t.known[s.String()], d); ok {
		return c, true
	}
	return usual(d, s.Rows), t.spent > tuneTime
}

// expected is the tile for a shape, where it is known before the plan is bound.
func (t *tuner) expected(s Shape, d description) (tile, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.settled(s.tuned(d), d)
}

// choose gives the tile for a shape: the known one, or the fastest of those that
// are measured now.
func (t *tuner) choose(s Shape, d description, measure func(Shape) ([]Timing, time.Duration, error)) (tile, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s = s.tuned(d)
	if c, ok := t.settled(s, d); ok {
		return c, nil
	}
	timings, took, err := measure(s)
	t.spent += took
	if err != nil || len(timings) == 0 {
		return usual(d, s.Rows), err
	}
	best := slices.MinFunc(timings, func(a, b Timing) int { return int(a.Nanoseconds - b.Nanoseconds) })
	t.known[s.String()] = best.Tile
	t.store()
	c, _ := named(best.Tile, d)
	return c, nil
}

// store writes the winners. That they cannot be kept is no reason to fail.
func (t *tuner) store() {
	if t.file == "" {
		return
	}
	data, err := json.MarshalIndent(t.known, "", " ")
	if err == nil && os.MkdirAll(filepath.Dir(t.file), 0o777) == nil {
		_ = atomicfile.WriteFile(t.file, data)
	}
}

// named finds a tile that a device has room for.
func named(name string, d description) (tile, bool) {
	i := slices.IndexFunc(tiles, func(t tile) bool { return t.String() == name })
	if i < 0 || !tiles[i].fits(d) {
		return tile{}, false
	}
	return tiles[i], true
}

// mostOnCPU is the number of results per work item of the tiles that are measured on
// CPUs: they have too few registers for more, and take seconds to compile it.
const mostOnCPU = 32

// candidates are the tiles that are worth measuring for a shape.
func (b *Backend) candidates(s Shape) (out []tile) {
	for _, t := range tiles {
		if t.fits(b.about) && t.suits(s) && !(b.about.CPU && t.EM*t.EN > mostOnCPU) {
			out = append(out, t)
		}
	}
	return out
}

// measure times every tile that the device has room for, with given weights. The time
// that it spends leaves out compiling, which is done in parallel.
func (b *Backend) measure(s Shape, weights address) (out []Timing, spent time.Duration, err error) {
	var codes []code
	for _, t := range b.candidates(s) {
		codes = append(codes, t.code(s.Type, false, b.half()))
	}
	if err := b.prepare(codes); err != nil {
		return nil, 0, err
	}
	began := time.Now()
	out, err = b.timings(s, weights)
	return out, time.Since(began), err
}

func (b *Backend) timings(s Shape, weights address) (out []Timing, err error) {
	var blocks []address
	for _, bytes := range []int64{12, 4 * int64(s.Rows) * int64(s.Inner), 4 * int64(s.Rows) * int64(s.Cols)} {
		a, err := b.pool.Take(bytes, "tiles")
		if err != nil {
			return nil, err
		}
		defer b.pool.Give(a)
		blocks = append(blocks, a)
	}
	if err := b.fill(blocks[1], 4*int64(s.Rows)*int64(s.Inner)); err != nil { // numbers of any kind would do, but not all are as fast
		return nil, err
	}
	best := int64(math.MaxInt64)
	for _, t := range slices.Backward(b.candidates(s)) { // small ones, which are mostly slow, last
		took, err := b.time(t, s, best, blocks[0], blocks[2], blocks[1], weights)
		if errors.Is(err, errGroup) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("tile %s: %w", t, err)
		}
		best = min(best, took)
		out = append(out, Timing{t.String(), took})
	}
	return out, nil
}

// time is the least time of some launches of a product.
func (b *Backend) time(t tile, s Shape, best int64, sizes, y, x, w address) (int64, error) {
	k := newBinder(b, b.newExec(), y)
	k.many(t, s.Type, tensor.Fixed(s.Rows), s.Cols, s.Inner, sizes, y, x, w, 0, -1)
	return b.timedAgainst(k, best)
}

// timed is the least time of some launches of the one kernel of a binder, in
// nanoseconds of the device's clock. The kernel is dropped.
func (b *Backend) timed(k *binder) (int64, error) { return b.timedAgainst(k, math.MaxInt64/2) }

// timedAgainst is timed, but ends early where the kernel takes twice as long as
// another.
func (b *Backend) timedAgainst(k *binder, other int64) (best int64, err error) {
	defer func() {
		for _, l := range k.exec.launches {
			err = firstOf(err, b.drv.drop(l.kernel))
		}
	}()
	if k.Failed != nil {
		return 0, k.Failed
	}
	l := k.exec.launches[0]
	for run := range 1 + tuneRuns {
		e, err := l.start(b.drv, tensor.Bind{}, order{notice: timed})
		if err != nil {
			return 0, err
		}
		err = b.drv.wait(e)
		begin, end, untimed := b.drv.times(e)
		if err := firstOf(err, untimed, b.drv.forget(e)); err != nil {
			return 0, err
		}
		if took := max(end-begin, 1); run > 0 && (best == 0 || took < best) {
			best = took
		}
		if best/2 > other {
			break
		}
	}
	return best, nil
}

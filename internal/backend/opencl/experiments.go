package opencl

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"hotpath/internal/backend/device"
	"hotpath/internal/tensor"
)

// Work is something that studies repeat on a device.
type Work struct {
	Bytes int64        // that travel per run, both directions
	Run   func() error // once, to its end
	be    *Backend
	exec  *exec
}

// Close gives back what the work holds.
func (w *Work) Close() error { return w.exec.Close() }

func (b *Backend) newWork() *Work { return &Work{be: b, exec: b.newExec()} }

// pinned gives host memory, once per work.
func (w *Work) pinned(bytes int64) ([]byte, error) {
	host, at, err := w.be.pinned(bytes, "a study")
	w.exec.pinned = at
	return host, err
}

// launch runs the launches of the work, each to its end.
func (w *Work) launch() error {
	for i := range w.exec.launches {
		if err := w.be.finish(w.exec.launches[i].start(w.be.drv, tensor.Bind{}, order{notice: ended})); err != nil {
			return err
		}
	}
	return nil
}

// binder makes launches for the work.
func (w *Work) binder() *binder { return newBinder(w.be, w.exec, 1) }

// About is the device in words.
func (b *Backend) About() string { return b.about.String() }

// Units is the number of compute units.
func (b *Backend) Units() int { return b.about.Units }

// Enqueued is what all runs of a device enqueued.
type Enqueued struct {
	Runs, Launches int64
	Enqueuing      time.Duration // the host's time
}

// Enqueued counts since the device was opened.
func (b *Backend) Enqueued() Enqueued {
	return Enqueued{b.counts.runs.Load(), b.counts.launches.Load(), time.Duration(b.counts.enqueuing.Load())}
}

// Tiles names the tiles that the device has room for.
func (b *Backend) Tiles() (out []string) {
	for _, t := range tiles {
		if t.fits(b.about) {
			out = append(out, t.String())
		}
	}
	return out
}

// Tune chooses the tile of a product as the first run of a model does, and tells how long
// it measured.
func (b *Backend) Tune(s Shape) (name string, took time.Duration, err error) {
	bytes := int64(s.Cols) * int64(s.Type.RowBytes(s.Inner))
	w, err := b.pool.Take(bytes, "a product")
	if err != nil {
		return "", 0, err
	}
	defer b.pool.Give(w)
	if err := b.fill(w, bytes); err != nil {
		return "", 0, err
	}
	chosen, err := b.tuner.choose(s, b.about, func(s Shape) (out []Timing, _ time.Duration, err error) {
		out, took, err = b.measure(s, w)
		return out, took, err
	})
	return chosen.String(), took, err
}

// Product is a product of zeros in a tile.
func (b *Backend) Product(s Shape, name string) (*Work, error) {
	t, ok := named(name, b.about)
	if !ok {
		return nil, fmt.Errorf("%w: no tile %q on %s", ErrDevice, name, b.about.Name)
	}
	w := b.newWork()
	at := make([]address, 4)
	for i, bytes := range []int64{12, 4 * int64(s.Rows) * int64(s.Cols), 4 * int64(s.Rows) * int64(s.Inner), int64(s.Cols) * int64(s.Type.RowBytes(s.Inner))} {
		var err error
		if at[i], err = w.exec.kept.Take(bytes, "a product"); err == nil {
			err = b.fill(at[i], bytes)
		}
		if err != nil {
			return nil, firstOf(err, w.Close())
		}
	}
	k := w.binder()
	k.many(t, s.Type, tensor.Fixed(s.Rows), s.Cols, s.Inner, at[0], at[1], at[2], at[3], 0, -1)
	if k.Failed != nil {
		return nil, firstOf(k.Failed, w.Close())
	}
	w.Run = w.launch
	return w, nil
}

// Copies sends parts of some bytes to the device and gets one back. With blocking
// each is waited for, otherwise only the last.
func (b *Backend) Copies(parts int, bytes int64, blocking bool) (*Work, error) {
	w := b.newWork()
	host, err := w.pinned(int64(parts) * bytes)
	if err != nil {
		return nil, firstOf(err, w.Close())
	}
	at, err := w.exec.kept.Take(int64(parts)*bytes, "copies")
	if err != nil {
		return nil, firstOf(err, w.Close())
	}
	buf, offset := b.slabs.at(at)
	w.Bytes = int64(parts+1) * bytes
	w.Run = func() error {
		for i := range int64(parts) {
			e, err := b.drv.write(buf, offset+i*bytes, host[i*bytes:(i+1)*bytes], order{notice: ended})
			if err == nil && blocking {
				err = b.drv.wait(e)
			}
			if err = firstOf(err, b.drv.forget(e)); err != nil {
				return err
			}
		}
		e, err := b.drv.read(host[:bytes], buf, offset, order{notice: ended})
		return b.finish(e, err)
	}
	return w, nil
}

// Lookup brings the rows of a table for some tokens into the device's memory: ids
// travel and the device looks them up, or the host does and rows travel.
func (b *Backend) Lookup(tokens, dim, vocab int, onHost bool) (*Work, error) {
	w := b.newWork()
	rows := int64(4 * tokens * dim)
	travel := int64(4 * tokens)
	if onHost {
		travel = rows
	}
	host, err := w.pinned(travel)
	if err != nil {
		return nil, firstOf(err, w.Close())
	}
	at := make([]address, 3)
	for i, bytes := range []int64{rows, int64(4 * vocab * dim), 4 * int64(tokens)} {
		if at[i], err = w.exec.kept.Take(bytes, "a lookup"); err != nil {
			return nil, firstOf(err, w.Close())
		}
	}
	w.Bytes = travel
	to := at[2]
	var table []float32
	if onHost {
		to, table = at[0], slices.Repeat([]float32{1}, vocab*dim) // pages that nobody wrote are all the same one
	} else {
		if err := b.fill(at[1], 4*int64(vocab)*int64(dim)); err != nil {
			return nil, firstOf(err, w.Close())
		}
		k := w.binder()
		k.launch("k_embed", k.spread(tensor.Fixed(tokens), dim), itemsOf, at[2], tensor.Fixed(tokens), dim, at[0], at[1], tensor.F32, at[2], float32(1))
		if k.Failed != nil {
			return nil, firstOf(k.Failed, w.Close())
		}
	}
	buf, offset := b.slabs.at(to)
	w.Run = func() error {
		for i := range tokens {
			id := i * 7919 % vocab
			if onHost {
				copy(host[4*dim*i:4*dim*(i+1)], device.Bytes(table[id*dim:(id+1)*dim]))
			} else {
				binary.LittleEndian.PutUint32(host[4*i:], uint32(id))
			}
		}
		e, err := b.drv.write(buf, offset, host, order{notice: ended})
		if err != nil {
			return err
		}
		if onHost {
			return b.finish(e, nil)
		}
		return firstOf(b.drv.forget(e), w.launch())
	}
	return w, nil
}

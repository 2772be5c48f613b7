package plan

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// Session is a program with memory of its own: one run at a time.
type Session struct {
	prog  *Program
	mem   Memory
	execs []Exec // one a bucket

	handles  [][]profile.PlanHandle // [phase][bucket] while a recorder is attached
	phase    int                    // of the next run
	costs    [][]*costing           // of handles
	rec      *profile.Recorder      // of handles
	recorded bool                   // some run was
	labels   ProfileLabels

	least    int // what AtLeast asked for
	end      end // what Partial or Forward asked for
	running  int // bucket in flight, -1 when idle
	run      *profile.Run
	runPhase int
	paused   bool
	shares   []profile.Share // of the next run
	bind     tensor.Bind
	ran      [2]int64 // start and end of the last run, where it was recorded
}

// NewSession allocates arenas, packs weights that are not packed yet, loads
// trainable state and binds every bucket. Where ctx ends first, what was packed
// stays in the set.
func NewSession(ctx context.Context, p *Program, ws *WeightSet, o BindOptions) (*Session, error) {
	s := &Session{prog: p, running: -1}
	if err := s.open(ctx, ws, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Session) open(ctx context.Context, ws *WeightSet, o BindOptions) error {
	var err error
	o.Program = s.prog.Name
	_, end := profile.Scope(ctx, "pack weights")
	s.mem.Weights, err = ws.bind(ctx, s.prog)
	if end(); err != nil {
		return err
	}
	_, end = profile.Scope(ctx, "map arenas")
	defer func() { end() }()
	for c := Activations; c < NumClasses; c++ {
		var bytes int64
		for _, pl := range s.prog.Plans {
			bytes = max(bytes, pl.ArenaBytes[c])
		}
		if s.mem.Arenas[c], err = s.prog.Backend.Arena(c, bytes); err != nil {
			return fmt.Errorf("plan: %s: arena of %d bytes for %s: %w", s.prog.Name, bytes, c, err)
		}
		if a, ok := s.mem.Arenas[c].(WholeArena); ok && s.prog.commits() {
			a.Whole()
		}
	}
	if err := s.loadState(ctx, ws); err != nil {
		return err
	}
	end()
	_, end = profile.Scope(ctx, "bind kernels")
	for _, pl := range s.prog.Plans {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e, err := s.prog.Backend.Bind(pl, &s.mem, o)
		if err != nil {
			return fmt.Errorf("plan: bind %s: %w", s.prog.Name, err)
		}
		s.execs = append(s.execs, e)
	}
	return nil
}

// loadState initialises trainable leaves from the file, as F32.
func (s *Session) loadState(ctx context.Context, ws *WeightSet) error {
	for _, n := range s.prog.Graph.Nodes {
		if n.Leaf == nil || n.Leaf.Kind != graph.StateLeaf || n.Leaf.Key == "" || n.Leaf.Fresh {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		w, err := ws.load(n.Out[0], s.prog.Graph.Max)
		if err != nil {
			return err
		}
		f := s.State(n.Out[0])
		if f == nil {
			f = make([]float32, n.Out[0].Shape.Len(s.prog.Graph.Max))
		}
		if err := tensor.Dequantize(f, w.DType, w.Data); err != nil {
			return fmt.Errorf("weight %s: %w", n.Leaf.Key, err)
		}
		if err := s.WriteState(n.Out[0], f); err != nil {
			return err
		}
		w.Drop()
	}
	return nil
}

// State is where a state leaf lies, nil where the host cannot reach it. It may be
// read while no run is in flight; WriteState changes it, with its other formats.
func (s *Session) State(v *graph.Value) []float32 {
	host := s.mem.Arenas[State].Host()
	if host == nil {
		return nil
	}
	return asF32(host[s.prog.Plans[0].Place(v).Offset:])[:v.Shape.Len(s.prog.Graph.Max)]
}

// Program is what the session runs.
func (s *Session) Program() *Program { return s.prog }

// MemoryBytes is the size of each arena the session holds.
func (s *Session) MemoryBytes() [NumClasses]int64 {
	var b [NumClasses]int64
	for _, pl := range s.prog.Plans {
		for c := range b {
			b[c] = max(b[c], pl.ArenaBytes[c])
		}
	}
	return b
}

func (s *Session) io(v *graph.Value) []byte {
	p := s.prog.Plans[0].Place(buffer(v))
	if p.Class != IO {
		panic("plan: " + v.String() + " is neither an input nor an output")
	}
	return s.mem.Arenas[IO].Host()[p.Offset : p.Offset+p.Bytes]
}

// I32 is the host memory of an int32 input, at its largest size.
func (s *Session) I32(v *graph.Value) []int32 { return asI32(s.io(v)) }

// F32 is the host memory of a float32 input or output, at its largest size.
func (s *Session) F32(v *graph.Value) []float32 { return asF32(s.io(v)) }

// ReadState copies a state leaf to dst.
func (s *Session) ReadState(v *graph.Value, dst []float32) error {
	return s.mem.Arenas[State].Read(s.prog.Plans[0].Place(v).Offset, bytesOf(dst))
}

// ReadForm copies a state leaf in one of its formats to dst.
func (s *Session) ReadForm(v *graph.Value, f *Format, dst []byte) error {
	pl, ok := s.prog.Plans[0].Form(v, f)
	if !ok {
		return fmt.Errorf("plan: %s is not held as %s", v, f)
	}
	return s.mem.Arenas[State].Read(pl.Offset, dst)
}

// WriteState replaces a state leaf, in all formats in which it is held.
func (s *Session) WriteState(v *graph.Value, src []float32) error {
	p := s.prog.Plans[0]
	for _, f := range p.Forms[v.ID] {
		data, host := bytesOf(src), s.mem.Arenas[State].Host()
		switch {
		case f.Format != nil && host != nil:
			f.Format.Encode(host[f.Place.Offset:][:f.Place.Bytes], src, v.Shape.NumRows(p.Max), v.Shape.RowLen())
			continue
		case f.Format != nil:
			data = make([]byte, f.Place.Bytes)
			f.Format.Encode(data, src, v.Shape.NumRows(p.Max), v.Shape.RowLen())
		case host != nil && unsafe.Pointer(&host[f.Place.Offset]) == unsafe.Pointer(unsafe.SliceData(data)):
			continue // it is there already
		}
		if err := s.mem.Arenas[State].Write(f.Place.Offset, data); err != nil {
			return err
		}
	}
	return nil
}

// Class is the bucket that a run of so many tokens gets, or that AtLeast gives
// it. Runs of one class take the same kernels for values of one row per token.
func (s *Session) Class(tokens int) int {
	k, err := s.prog.bucket(tensor.Bind{}, tokens)
	if err != nil {
		panic(err) // the last bucket takes all
	}
	return k
}

// AtLeast asks for the bucket of at least so many tokens for the next run, whose
// own tokens may be fewer.
func (s *Session) AtLeast(tokens int) { s.least = tokens }

// Partial asks the next run to end before the first node that commits. The
// program must have been compiled with such plans.
func (s *Session) Partial() { s.end = partial }

// Forward asks the next run to end with the value that the program was compiled
// with for that (CompileOptions.Forward).
func (s *Session) Forward() { s.end = forward }

// Enqueue starts a run with the inputs that are in the IO arena.
func (s *Session) Enqueue(ctx context.Context, b tensor.Bind) error {
	if s.running >= 0 {
		return errors.New("plan: a run is in flight already")
	}
	s.bind, s.run, s.ran = b, nil, [2]int64{}
	k, err := s.prog.bucket(b, s.least)
	end := s.end
	s.least, s.end = 0, whole
	if err != nil {
		return err
	}
	if end != whole {
		if s.prog.ends[end] == 0 {
			return fmt.Errorf("plan: %s: a run that ends early of a program without such plans", s.prog.Name)
		}
		k += s.prog.ends[end]
	}
	if s.handles != nil && !s.paused {
		s.run, s.runPhase = s.handles[s.phase][k].Acquire(), s.phase
		s.run.Tokens, s.run.Sequences, s.run.Rows = b.T, b.S, b.R
		if s.run.Shares = append(s.run.Shares, s.shares...); len(s.shares) == 1 {
			s.run.Request = s.shares[0].Request
		}
		s.shares = s.shares[:0]
		s.run.InScope(ctx)
		s.run.Start = profile.Now()
	}
	if err := s.execs[k].Enqueue(ctx, b, s.run); err != nil {
		s.abandon(k)
		return err
	}
	s.running = k
	return nil
}

// Wait ends the run that Enqueue started; outputs can be read then.
func (s *Session) Wait() error {
	k := s.running
	if k < 0 {
		return errors.New("plan: no run is in flight")
	}
	s.running = -1
	if err := s.execs[k].Wait(); err != nil {
		s.abandon(k)
		return err
	}
	if s.run != nil {
		s.run.End = profile.Now()
		s.ran = [2]int64{s.run.Start, s.run.End} // Release may give the run to somebody else
		c := s.costs[s.runPhase][k]
		s.run.Costing, s.run.Inputs = c, c.take(s.bind, s.run.Inputs)
		s.recorded = true
		err := s.handles[s.runPhase][k].Release(s.run)
		if p, ok := s.execs[k].(Prober); ok {
			p.Probe(s.rec, s.ran[1])
		}
		return err
	}
	return nil
}

// Ran is from when to when the last run was on the clock; 0 where it was not
// recorded or did not end well.
func (s *Session) Ran() (start, end int64) { return s.ran[0], s.ran[1] }

// Run is Enqueue and Wait.
func (s *Session) Run(ctx context.Context, b tensor.Bind) error {
	if err := s.Enqueue(ctx, b); err != nil {
		return err
	}
	return s.Wait()
}

func (s *Session) abandon(bucket int) {
	if s.run != nil {
		s.handles[s.runPhase][bucket].Discard(s.run)
		s.run = nil
	}
}

// Close waits for a run in flight, then frees the arenas.
func (s *Session) Close() error {
	var errs []error
	if s.running >= 0 {
		errs = append(errs, s.Wait())
	}
	if s.recorded {
		s.rec.LookAtMemory()
	}
	for _, e := range s.execs {
		if p, ok := e.(Prober); ok && s.recorded {
			p.ProbeRest(s.rec)
		}
		errs = append(errs, e.Close())
	}
	s.execs = nil
	for c, a := range s.mem.Arenas {
		if a != nil {
			s.rec.Disown(a.Host())
			errs = append(errs, a.Free())
			s.mem.Arenas[c] = nil
		}
	}
	return errors.Join(errs...)
}

func asF32(b []byte) []float32 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}

func asI32(b []byte) []int32 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*int32)(unsafe.Pointer(&b[0])), len(b)/4)
}

func bytesOf(f []float32) []byte {
	if len(f) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&f[0])), len(f)*4)
}

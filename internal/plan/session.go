package plan

import (
	"context"
	"errors"
	"fmt"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// Session is a program with memory of its own. Its runs are computed one after
// the other. On an asynchronous device (Caps.Async) it can have two slots of
// inputs and outputs, so that two runs are in flight: the host fills one slot
// while the device computes from the other. Methods without a slot argument use
// the first slot.
type Session struct {
	// One cache line: what each run looks at.

	prog *Program

	// Of the next run, of whatever slot.
	least  int // what AtLeast asked for
	phase  int
	shares []profile.Share
	end    end // what Partial or Forward asked for

	paused   bool
	recorded bool    // some run was
	counter  Counter // of rec, if the backend counts its memory

	backend Caps // of the program's: making them takes a while
	ws      *WeightSet
	weights *boundWeights
	mem     Memory // but for IO, which slots have
	host    *hostSide
	state   *stateArena
	slots   []*Slot

	rec    *profile.Recorder // nil: none is attached
	look   func() profile.DeviceMemory
	owned  [][]byte // memory that the recorder knows as this session's
	labels ProfileLabels
}

// NewSession allocates arenas, packs weights that are not packed yet, loads
// trainable state and binds every bucket. If ctx ends first, the weights packed
// so far stay in the set.
func NewSession(ctx context.Context, p *Program, ws *WeightSet, o BindOptions) (*Session, error) {
	return newSession(ctx, &Session{prog: p, ws: ws}, o)
}

// Share opens a session of another program on the same weights and the same
// state: a KV cache that both read and write, for instance. The state of both
// programs must be laid out alike. Runs of the two must not write the same rows at
// the same time. The memory is freed with the last of the sessions.
func (s *Session) Share(ctx context.Context, p *Program, o BindOptions) (*Session, error) {
	if err := sameState(s.prog, p); err != nil {
		return nil, err
	}
	s.state.refs.Add(1)
	return newSession(ctx, &Session{prog: p, ws: s.ws, state: s.state}, o)
}

func newSession(ctx context.Context, s *Session, o BindOptions) (*Session, error) {
	if err := s.open(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Session) open(ctx context.Context, o BindOptions) error {
	var err error
	o.Program, s.backend = s.prog.Name, s.prog.Backend.Caps()
	_, end := profile.Scope(ctx, "pack weights")
	s.weights, err = s.ws.bind(ctx, s.prog)
	if end(); err != nil {
		return err
	}
	s.mem.Weights = s.weights.packed
	_, end = profile.Scope(ctx, "map arenas")
	defer func() { end() }()
	bytes := s.MemoryBytes()
	for c := Activations; c < NumClasses; c++ {
		if c == IO || c == State && s.state != nil {
			continue
		}
		if s.mem.Arenas[c], err = s.arena(c, bytes[c]); err != nil {
			return err
		}
	}
	if s.state == nil {
		s.state = newStateArena(s.mem.Arenas[State])
		if err := s.loadState(ctx); err != nil {
			return err
		}
	}
	s.mem.Arenas[State] = s.state.arena
	slots := max(1, o.Slots)
	if !s.backend.Async || s.prog.OnHost() { // steps of the host are between those of one run
		slots = 1
	}
	end()
	_, end = profile.Scope(ctx, "bind kernels")
	for range slots {
		sl := &Slot{sess: s, mem: s.mem, running: -1}
		s.slots = append(s.slots, sl)
		if sl.mem.Arenas[IO], err = s.arena(IO, bytes[IO]); err != nil {
			return err
		}
		if s.prog.OnHost() {
			s.host = newHostSide(s.prog, &sl.mem, s.weights.host)
		}
		for _, pl := range s.prog.Plans {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			e, err := bindPlan(s.prog.Backend, pl, &sl.mem, s.host, o)
			if err != nil {
				return fmt.Errorf("plan: bind %s: %w", s.prog.Name, err)
			}
			sl.execs = append(sl.execs, e)
			if j, ok := e.(Joinable); ok && o.Helpers > 0 {
				sl.joins = append(sl.joins, j)
			}
		}
	}
	return nil
}

func (s *Session) arena(c Class, bytes int64) (Arena, error) {
	a, err := s.prog.Backend.Arena(c, bytes)
	if err != nil {
		return nil, fmt.Errorf("plan: %s: arena of %d bytes for %s: %w", s.prog.Name, bytes, c, err)
	}
	if w, ok := a.(WholeArena); ok && s.prog.commits() {
		w.Whole()
	}
	return a, nil
}

// Program is the program of the session.
func (s *Session) Program() *Program { return s.prog }

// MemoryBytes is the size of each arena of the session; IO is the size of one
// slot.
func (s *Session) MemoryBytes() [NumClasses]int64 {
	return s.prog.MemoryBytes()
}

// Slots is the number of runs that can be in flight.
func (s *Session) Slots() int { return len(s.slots) }

// Slot is one of the session's slots.
func (s *Session) Slot(i int) *Slot { return s.slots[i] }

// I32 is the host memory of an int32 input or output, at its largest size.
func (s *Session) I32(v *graph.Value) []int32 { return s.slots[0].I32(v) }

// F32 is the host memory of a float32 input or output, at its largest size.
func (s *Session) F32(v *graph.Value) []float32 { return s.slots[0].F32(v) }

// Class is the bucket of a run with a number of tokens, or of a run with that
// argument to AtLeast. Runs of one class use the same kernels for values with one
// row per token.
func (s *Session) Class(tokens int) int {
	k, err := s.prog.bucket(tensor.Bind{}, tokens)
	if err != nil {
		panic(err) // the last bucket takes all
	}
	return k
}

// AtLeast makes the next run use the bucket for at least this number of tokens,
// even if it has fewer.
func (s *Session) AtLeast(tokens int) { s.least = tokens }

// Partial makes the next run end before the first node that commits. The program
// must have been compiled with CompileOptions.Partial.
func (s *Session) Partial() { s.end = partial }

// Forward makes the next run end with the value CompileOptions.Forward of the
// program.
func (s *Session) Forward() { s.end = forward }

// Run computes a batch with the inputs that are in the IO arena, and waits for it.
// Whoever wants to go on meanwhile takes a Slot.
func (s *Session) Run(ctx context.Context, b tensor.Bind) error { return s.slots[0].Run(ctx, b) }

// Active is the number of workers of the last run; 0 if the backend does not
// report it.
func (s *Session) Active() int {
	sl := s.slots[0]
	if e, ok := sl.execs[sl.last].(Limited); ok {
		return e.Active()
	}
	return 0
}

// Close waits for runs in flight, then frees the arenas and lets go of the
// weights.
func (s *Session) Close() error {
	var errs []error
	for _, sl := range s.slots {
		errs = append(errs, sl.settle())
	}
	if s.recorded {
		s.rec.LookAtMemory()
	}
	s.disown()
	for _, sl := range s.slots {
		errs = append(errs, sl.close())
	}
	s.slots = nil
	if s.state != nil {
		s.mem.Arenas[State] = nil
		errs = append(errs, s.state.release())
		s.state = nil
	}
	for c, a := range s.mem.Arenas {
		if a != nil {
			errs = append(errs, a.Free())
			s.mem.Arenas[c] = nil
		}
	}
	if s.weights != nil {
		errs = append(errs, s.ws.release(s.prog, s.weights.keys, true))
		s.weights = nil
		s.ownWeights()
	}
	return errors.Join(errs...)
}

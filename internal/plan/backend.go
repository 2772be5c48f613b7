package plan

import (
	"context"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
	"hotpath/profile"
)

// Backend runs plans. It has few methods and none per op: a backend knows its
// kernels, the planner knows none.
type Backend interface {
	Caps() Caps
	// Supports reports whether the backend computes a node. It is asked while a
	// program is compiled, before any weight is packed. Nodes that a pattern
	// fuses are asked about one by one, too.
	Supports(n *graph.Node) bool
	// Patterns are the fusions that the backend has kernels for, the larger
	// ones first.
	Patterns() []Pattern
	// Rules is the backend's lowering table, the best rule first. An invariant
	// program uses one rule per op for every number of rows.
	Rules(invariant bool) []Rule
	// Pack binds one weight in the format that lowering chose, nil for the
	// file's rows. w.Data stays mapped until Close. Weights are packed in parallel:
	// Pack must be safe for concurrent calls.
	Pack(w Weight, f *Format) (Packed, error)
	// Arena gives zeroed memory of a class. IO arenas are host memory.
	Arena(c Class, bytes int64) (Arena, error)
	// Bind prepares a plan for running in the given memory.
	Bind(p *Plan, m *Memory, o BindOptions) (Exec, error)
	Close() error
}

// Caps are the capabilities of a backend.
type Caps struct {
	Name    string // cpu, ref, null, opencl:0
	Workers int    // threads of a fine run
	// Coarse runs f on up to n workers at the same time, f(0) on the caller. If
	// ctx ends before the workers are free, it runs nothing. In f, workers take
	// work from a common list. Therefore a worker that has not started when f(0)
	// returns is not called. nil: the backend has no coarse mode.
	Coarse func(ctx context.Context, n int, f func(worker int)) error
	// NoReuse gives every activation memory of its own, to measure the benefit of
	// reuse.
	NoReuse bool
	// OwnScratch reports whether steps of a kind have a workspace per worker. The
	// plan lays out no shared scratch for such steps, because shared scratch
	// needs barriers. nil: no kind has one.
	OwnScratch func(kind string) bool
	// Merges lists the steps that absorb their neighbours if they compute few
	// rows.
	Merges []Merge
	// Buckets are the maximum row counts of a program's smaller plans. A backend
	// ends a bucket at the row count at which formats or kernels change, or at
	// which a smaller plan saves enough memory.
	Buckets []int
	// StoredAs is the type in which the backend stores a weight; nil: the file's.
	StoredAs func(v *graph.Value, readers []*graph.Node) tensor.DType
	// Chunk is the number of rows of logits that a training step computes at a
	// time (Step.Chunk), for rows of rowBytes bytes; nil: all rows, and steps
	// have no chunks.
	Chunk func(rowBytes int64) int
	// Async reports that Enqueue returns before the work is done. A session can
	// then have two slots of inputs and outputs, so that the host prepares a run
	// while the device computes the previous one. The backend computes the runs
	// of a session in the order in which they were enqueued.
	Async bool
	// Runs are the sizes of runs on this backend unless the caller asks for others.
	// Zero: those that suit a CPU.
	Runs RunSizes
	// Largest reports that every run of a plan computes as its largest run does: a
	// plan has the rules for its largest number of rows alone.
	Largest bool
	// Host runs nodes that the backend does not support on the host, by their
	// reference implementations. Without it a program with such a node is
	// refused.
	Host bool
}

// RunSizes are the largest runs that an engine composes.
type RunSizes struct {
	Tokens int // of any run
	Texts  int // of a run that embeds or ranks
	Scored int // rows of logits of a run that scores
}

// Weight is a tensor of the file on its way into a backend.
type Weight struct {
	Value *graph.Value
	DType tensor.DType
	Data  []byte // rows as the file has them
	// Drop tells the source that Data was copied and is not wanted any more.
	Drop func()
}

// Packed is a backend's own form of a weight.
type Packed interface{ Bytes() int64 }

// Freer is a Packed whose memory is not managed by the garbage collector. Free is
// called once, after the last session that reads the weight has closed.
type Freer interface{ Free() error }

// Arena is one class of memory.
type Arena interface {
	// Host is the memory itself if the host can access it, else nil. It may be
	// written only while no run is in flight.
	Host() []byte
	Read(offset int64, dst []byte) error
	Write(offset int64, src []byte) error
	Free() error
}

// WholeArena is an arena that can commit all of its memory at once, for a program
// that touches all of it in every run, such as training. A KV cache is touched
// little by little, so committing all of it would waste memory.
type WholeArena interface{ Whole() }

// Memory is the memory of a session, in which an Exec runs.
type Memory struct {
	Arenas  [NumClasses]Arena
	Weights []Packed // by Value.ID, nil for others
}

// BindOptions choose how a plan runs.
type BindOptions struct {
	// Serial binds for one worker, the caller: the unit of coarse mode.
	Serial bool
	// Helpers is how many other workers may join a run of a serial session (Slot.Join).
	Helpers int
	// Workers limits the workers of a fine run; 0 means all.
	Workers int
	// Fixed makes all workers take part in every run, for measurements. Otherwise
	// a run uses fewer workers if the machine is busy.
	Fixed bool
	// Slots is how many runs the session may have in flight; 0 means 1. Only an
	// asynchronous device gives two.
	Slots int
	// Program is the name of the program, which the session fills in.
	Program string
}

// Exec is a plan bound to memory.
type Exec interface {
	// Describe fills the backend's part of the profile's plan: kernels, lanes.
	Describe(p *profile.Plan)
	// Enqueue starts a run; the IO arena must not be written until Wait. run
	// may be nil. After Enqueue an asynchronous device uses lanes and costs of run
	// only: the session tells it its sizes meanwhile. Cancelling ctx ends the run at the
	// next step. After an error nothing runs, and Wait is not called.
	Enqueue(ctx context.Context, bind tensor.Bind, run *profile.Run) error
	// Wait returns when the run has ended and its outputs can be read.
	Wait() error
	Close() error
}

// Limited is an Exec that may run with fewer workers than there are.
type Limited interface {
	// Active is the number of workers that took part in the last run.
	Active() int
}

// Joinable is an Exec of a serial session whose run other workers may join.
type Joinable interface {
	// Join computes shares of the run that is under way, until it ends. It returns
	// at once if there is none that the caller can join.
	Join()
	// Left is the part of the run that each of its workers has before it, 0 to 1; 0 if
	// the caller could not join it.
	Left() float64
}

// Prober is an Exec that can sample the machine's ceilings with its workers. No
// run may be in flight.
type Prober interface {
	// Probe samples a ceiling, if the recorder wants a sample.
	Probe(rec *profile.Recorder)
	// ProbeRest takes the samples that a short recording lacks.
	ProbeRest(rec *profile.Recorder)
}

// Source gives the weights of a model by canonical key; package model
// implements it.
type Source interface {
	Weight(key string) (weights.Tensor, error)
	// Drop reports that a backend has copied t and that its pages are no longer
	// needed.
	Drop(t weights.Tensor)
}

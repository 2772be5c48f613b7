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
	// Patterns are the fusions that the backend has kernels for, the larger
	// ones first.
	Patterns() []Pattern
	// Rules are the ways in which the backend computes, the best first. An
	// invariant program has one way per op for every number of rows.
	Rules(invariant bool) []Rule
	// Pack binds one weight in the format that lowering chose, nil for the
	// file's rows. data stays mapped until Close.
	Pack(w Weight, f *Format) (Packed, error)
	// Arena gives zeroed memory of a class. IO arenas are host memory.
	Arena(c Class, bytes int64) (Arena, error)
	// Bind prepares a plan for running in the given memory.
	Bind(p *Plan, m *Memory, o BindOptions) (Exec, error)
	Close() error
}

// Caps is what a backend can do.
type Caps struct {
	Name    string // cpu, ref, null, opencl:0
	Workers int    // threads of a fine run
	// Coarse runs f on up to n workers side by side, f(0) on the caller, or on
	// none if ctx ends before the workers are free. A worker that has not begun
	// when f(0) returns is not called: f takes its work from a common list. nil
	// where the backend has no use for whole batches side by side.
	Coarse func(ctx context.Context, n int, f func(worker int)) error
	// NoReuse asks for plans whose activations share no memory: what sharing is
	// worth is measured against it.
	NoReuse bool
	// OwnScratch says which kinds of steps bring their own workspace, so that
	// the plan lays out none that they would wait for each other about; nil:
	// none do.
	OwnScratch func(kind string) bool
	// Merges are the steps that take in their neighbours where they compute a
	// single row.
	Merges []Merge
	// Buckets are the row counts at which smaller plans of a program end: where
	// the formats of values change, and where less memory is worth a plan.
	Buckets []int
	// StoredAs is the type that the backend holds a weight in; nil: the file's.
	StoredAs func(v *graph.Value, readers []*graph.Node) tensor.DType
	// Async says that Enqueue returns before the work is done.
	Async bool
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

// Arena is one class of memory.
type Arena interface {
	// Host is the memory itself where the host can reach it, else nil. It may
	// be touched only while no run is in flight.
	Host() []byte
	Read(offset int64, dst []byte) error
	Write(offset int64, src []byte) error
	Free() error
}

// WholeArena is an arena that can prepare for a program that touches all of it in
// every run, as training does. Caches of keys and values are touched little by
// little, so that memory for all of them would be wasted.
type WholeArena interface{ Whole() }

// Memory is what a session owns and an Exec runs in.
type Memory struct {
	Arenas  [NumClasses]Arena
	Weights []Packed // by Value.ID, nil for others
}

// BindOptions choose how a plan runs.
type BindOptions struct {
	// Serial binds for one worker, the caller: the unit of coarse mode.
	Serial bool
	// Workers limits the workers of a fine run; 0 means all.
	Workers int
	// Fixed has all workers take part in every run, for measurements. Otherwise
	// fewer may, where the machine is busy.
	Fixed bool
	// Program is the name of the program, which the session fills in.
	Program string
}

// Exec is a plan bound to memory.
type Exec interface {
	// Describe fills the backend's part of the profile's plan: kernels, lanes.
	Describe(p *profile.Plan)
	// Enqueue starts a run; the IO arena must not be touched until Wait. run
	// may be nil. Cancelling ctx ends the run at the next step.
	Enqueue(ctx context.Context, bind tensor.Bind, run *profile.Run) error
	// Wait returns when the run has ended and its outputs can be read.
	Wait() error
	Close() error
}

// Prober is an exec that can sample what the machine gives its workers. No run may be
// in flight.
type Prober interface {
	// Probe takes a sample between two runs, where the recorder wants one.
	Probe(rec *profile.Recorder, now int64)
	// ProbeRest takes the samples that a short recording lacks.
	ProbeRest(rec *profile.Recorder)
}

// Source gives the weights of a model by canonical key; package model
// implements it.
type Source interface {
	Weight(key string) (weights.Tensor, error)
	// Drop says that a backend has copied t and that its pages are not wanted
	// any more.
	Drop(t weights.Tensor)
}

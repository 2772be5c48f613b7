package train

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// Estimate is what a run will take, without running.
type Estimate struct {
	Model      string
	Arch       string
	Parameters int64 // that are trained
	Documents  int
	Tokens     int64 // to predict in an epoch
	Pieces     int   // that they are cut into
	Batch      tensor.Bind
	Epochs     float64          // of the whole run
	Memory     map[string]int64 // bytes by class of arena
	FLOPs      int64            // of a step with a full batch
	// StepTime and Time are of a step and of the whole run, estimated from the
	// machine's ceilings; 0 where they are unknown.
	StepTime, Time time.Duration
	Steps          int // of the run
}

// Plan reads model and data and compiles the training graph, but allocates
// none of its memory and writes nothing but the cache of large data's tokens. c is what the machine can do; its zero
// value leaves times out.
func Plan(ctx context.Context, cfg Config, be plan.Backend, c profile.Ceilings) (e *Estimate, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t := &Trainer{cfg: cfg}
	defer func() { err = errors.Join(err, t.Close()) }()
	m, err := t.openData(ctx, cfg.Model)
	if err != nil {
		return nil, err
	}
	prog, ports, parts, err := compile(m, be, t.task(), t.data.run)
	if err != nil {
		return nil, err
	}
	pl, stats := prog.Plans[0], t.data.source.Stats()
	e = &Estimate{
		Model: m.Config().Name, Arch: m.Config().Arch, Documents: stats.Documents,
		Pieces: stats.Examples, Tokens: stats.Tokens - int64(stats.Sequences), Batch: pl.Max, Memory: map[string]int64{},
	}
	for _, p := range parts.Params {
		e.Parameters += int64(p.Value.Shape.Len(tensor.Bind{}))
	}
	e.Epochs = float64(cfg.Steps) * float64(pl.Max.T) / float64(e.Tokens)
	for c := plan.Weights; c < plan.NumClasses; c++ {
		e.Memory[c.String()] = pl.ArenaBytes[c]
	}
	e.Steps = t.cfg.Steps
	runs := (t.cfg.BatchTokens + pl.Max.T - 1) / pl.Max.T
	if !t.data.split {
		runs = 1
	}
	roof := 0.0
	eachCost(pl, ports, t.cfg.SeqLen, func(_ *graph.Node, class string, cost graph.Cost) {
		e.FLOPs += int64(runs) * cost.FLOPs
		if c.FLOPs > 0 {
			roof += float64(runs) * float64(cost.FLOPs) / max(c.FLOPs, c.Class[class])
		}
	})
	if c.Bytes > 0 { // the optimizer walks through memory, most others through caches
		roof += float64(2*e.Memory[plan.State.String()]) / c.Bytes
	}
	e.StepTime = time.Duration(roof / usualShare * 1e9)
	e.Time = e.StepTime * time.Duration(e.Steps)
	return e, nil
}

// usualShare is the share of the machine's ceilings that training steps reach:
// 0.2 of small models, 0.5 of large ones.
const usualShare = 0.35

// flops is the cost of a run with a full batch of sequences of seqLen, without what
// is recomputed.
func flops(pl *plan.Plan, ports *model.Ports, seqLen int) (sum int64) {
	eachCost(pl, ports, seqLen, func(n *graph.Node, _ string, c graph.Cost) {
		if n.Stage != graph.StageRecompute {
			sum += c.FLOPs
		}
	})
	return sum
}

// eachCost gives f every node, its compute class and its cost in a run with a full
// batch of sequences of seqLen.
func eachCost(pl *plan.Plan, ports *model.Ports, seqLen int, f func(n *graph.Node, class string, c graph.Cost)) {
	starts, targets := []int32{0}, make([]int32, pl.Max.R)
	for at := 0; at < pl.Max.T; {
		at = min(at+seqLen, pl.Max.T)
		starts = append(starts, int32(at))
	}
	b := tensor.Bind{T: pl.Max.T, S: len(starts) - 1, R: pl.Max.R}
	sized := func(v *graph.Value) graph.Tensor {
		if v == nil {
			return graph.Tensor{}
		}
		t := graph.Tensor{DType: v.DType, Rows: v.Shape.NumRows(b), Cols: v.Shape.RowLen()}
		switch v {
		case ports.QStart:
			t.I32 = starts
		case ports.Targets:
			t.I32 = targets
		}
		return t
	}
	for i := range pl.Steps {
		for k, n := range pl.Steps[i].Nodes {
			call := graph.Call{Node: n, Bind: b}
			for _, v := range n.In {
				call.In = append(call.In, sized(v))
			}
			for _, v := range n.Out {
				call.Out = append(call.Out, sized(v))
			}
			f(n, pl.Steps[i].Class(k), n.Op.Cost(&call))
		}
	}
}

// flops is what a token of a full batch of sequences of seqLen costs.
func (r *runner) flops(seqLen int) float64 {
	pl := r.sess.Program().Plans[0]
	return float64(flops(pl, r.ports, seqLen)) / float64(pl.Max.T)
}

// TotalMemory is the bytes of all classes.
func (e *Estimate) TotalMemory() (sum int64) {
	for _, n := range e.Memory {
		sum += n
	}
	return sum
}

// String is a table for people.
func (e *Estimate) String() string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-22s%s\n", name, fmt.Sprintf(format, args...))
	}
	row("model", "%s (%s)", e.Model, e.Arch)
	row("parameters", "%d", e.Parameters)
	row("data", "%d documents, %d tokens to predict in %d pieces", e.Documents, e.Tokens, e.Pieces)
	row("batch", "at most %d tokens in %d sequences", e.Batch.T, e.Batch.S)
	row("epochs", "%.2f", e.Epochs)
	for c := plan.Weights; c < plan.NumClasses; c++ {
		switch n := float64(e.Memory[c.String()]); {
		case n >= 1<<20:
			row("memory, "+c.String(), "%.1f MiB", n/(1<<20))
		case n > 0:
			row("memory, "+c.String(), "%.1f KiB", n/(1<<10))
		}
	}
	row("memory, in all", "%.1f MiB", float64(e.TotalMemory())/(1<<20))
	row("FLOPs per step", "%.3g", float64(e.FLOPs))
	row("FLOPs per token", "%.3g", float64(e.FLOPs)/float64(max(e.Batch.T, 1)))
	if e.Time > 0 {
		row("time, estimated", "%s per step, %s for %d steps", e.StepTime.Round(10*time.Microsecond), e.Time.Round(time.Second), e.Steps)
	}
	return b.String()
}

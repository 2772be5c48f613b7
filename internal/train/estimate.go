package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// Estimate is what a run will take, without running.
type Estimate struct {
	Model      string
	Arch       string
	Parameters int64 // that are trained
	Documents  int
	Tokens     int64            // to predict in an epoch
	Pieces     int              // that they are cut into
	Batch      tensor.Bind      // most of a run
	Runs       int              // of a step with a full batch
	Epochs     float64          // of the whole run
	Memory     map[string]int64 // bytes by class of arena, and by owner of what is beside the training program
	FLOPs      int64            // of a step with a full batch
	// StepTime is the median of Measured steps that were made; both are 0 where
	// Unmeasured says why there were none. Time is that of the whole run at
	// this rate, without evaluations, samples and checkpoints.
	StepTime, Time time.Duration
	Measured       int
	Unmeasured     string
	Steps          int // of the run
}

const (
	measuredSteps = 4               // at most, after one that is not counted
	measuredTime  = 3 * time.Second // after which no further step begins
)

// Plan reads model and data, compiles the training graph and makes a few steps
// in memory, unless there is too little of it. It writes nothing but the cache of
// large data's tokens.
func Plan(ctx context.Context, cfg Config, o Options) (e *Estimate, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := outside(cfg.Out, cfg.Data, cfg.Validation.Data); err != nil {
		return nil, err
	}
	t := &Trainer{cfg: cfg, opts: o}
	defer func() { err = errors.Join(err, t.Close()) }()
	m, err := t.openData(ctx, cfg.Model)
	if err != nil {
		return nil, err
	}
	program, memory, err := t.compile(ctx, m)
	if err != nil {
		return nil, err
	}
	pl, stats := program.prog.Plans[0], t.data.source.Stats()
	e = &Estimate{
		Model: m.Config().Name, Arch: m.Config().Arch, Documents: stats.Documents,
		Pieces: stats.Examples, Tokens: stats.Tokens - int64(stats.Sequences), Batch: pl.Max, Memory: memory,
	}
	for _, p := range program.parts.Params {
		e.Parameters += int64(p.Value.Shape.Len(tensor.Bind{}))
	}
	e.Steps = t.cfg.Steps
	e.Runs = 1
	if t.data.split {
		e.Runs = (t.cfg.BatchTokens + pl.Max.T - 1) / pl.Max.T
	}
	e.Epochs = float64(cfg.Steps) * float64(e.Runs*pl.Max.T) / float64(e.Tokens)
	e.FLOPs = int64(e.Runs) * flops(pl, program.ports, t.cfg.SeqLen)
	if need := e.TotalMemory(); o.Memory > 0 && need > o.Memory {
		e.Unmeasured = tooMuch(need, o.Memory)
		return e, nil
	}
	if err := t.measure(ctx, program, e); err != nil {
		return nil, err
	}
	return e, nil
}

// measure makes some steps and keeps nothing of them.
func (t *Trainer) measure(ctx context.Context, program *compiled, e *Estimate) (err error) {
	if t.runner, err = program.open(ctx, t.opts); err != nil {
		return err
	}
	if err := t.start(program.model); err != nil {
		return err
	}
	var times []time.Duration
	for begin := time.Now(); len(times) <= measuredSteps && (len(times) < 2 || time.Since(begin) < measuredTime); {
		s, at := Step{Step: len(times) + 1}, time.Now()
		if err := t.runs(ctx, &s, t.cfg.hyper(t.cfg.rate(s.Step))); err != nil {
			return err
		}
		times = append(times, time.Since(at))
	}
	times = times[1:] // the first one touches memory for the first time
	slices.Sort(times)
	e.Measured, e.StepTime = len(times), times[len(times)/2]
	if at := t.data.at; at.Epoch > 0 || at.Next > 0 { // steps may end before they have batch_tokens
		e.Epochs = float64(e.Steps) / float64(len(times)+1) * (float64(at.Epoch) + float64(at.Next)/float64(t.data.n))
	}
	e.Time = e.StepTime * time.Duration(e.Steps)
	return nil
}

// flops is the cost of a run with a full batch of sequences of seqLen, without what
// is recomputed.
func flops(pl *plan.Plan, ports *model.Ports, seqLen int) (sum int64) {
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
		if pl.Steps[i].Chunk.Index > 0 {
			continue // the first chunk stands for all rows
		}
		for _, n := range pl.Steps[i].Nodes {
			call := graph.Call{Node: n, Bind: b}
			for _, v := range n.In {
				call.In = append(call.In, sized(v))
			}
			for _, v := range n.Out {
				call.Out = append(call.Out, sized(v))
			}
			if n.Stage != graph.StageRecompute {
				sum += n.Op.Cost(&call).FLOPs
			}
		}
	}
	return sum
}

// flops is what a token of a full batch of sequences of seqLen costs.
func (r *runner) flops(seqLen int) float64 {
	pl := r.sess.Program().Plans[0]
	return float64(flops(pl, r.ports, seqLen)) / float64(pl.Max.T)
}

// TotalMemory is the bytes of all owners.
func (e *Estimate) TotalMemory() int64 { return demand(e.Memory).total() }

// String is a table for people.
func (e *Estimate) String() string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-24s%s\n", name, fmt.Sprintf(format, args...))
	}
	row("model", "%s (%s)", e.Model, e.Arch)
	row("parameters", "%d", e.Parameters)
	row("data", "%d documents, %d tokens in %d examples", e.Documents, e.Tokens, e.Pieces)
	row("batch", "at most %d tokens in %d sequences", e.Batch.T, e.Batch.S)
	if e.Runs > 1 {
		row("runs per step", "%d, each with such a batch", e.Runs)
	}
	row("epochs", "%.2f", e.Epochs)
	for _, owner := range demand(e.Memory).owners() {
		switch n := float64(e.Memory[owner]); {
		case n >= 1<<20:
			row("memory, "+owner, "%.1f MiB", n/(1<<20))
		case n > 0:
			row("memory, "+owner, "%.1f KiB", n/(1<<10))
		}
	}
	row("memory, in all", "%.1f MiB", float64(e.TotalMemory())/(1<<20))
	row("FLOPs per step", "%.3g", float64(e.FLOPs))
	row("FLOPs per token", "%.3g", float64(e.FLOPs)/float64(max(e.Runs*e.Batch.T, 1)))
	if e.Measured == 0 {
		row("time", "unknown: %s", e.Unmeasured)
		return b.String()
	}
	row("time per step", "%s, the median of %d steps that were made", e.StepTime.Round(10*time.Microsecond), e.Measured)
	row("time of the run", "%s for %d steps, without evaluations, samples and checkpoints", e.Time.Round(time.Second), e.Steps)
	return b.String()
}

package train

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	Tokens     int64 // to predict in an epoch
	Pieces     int   // that they are cut into
	Batch      tensor.Bind
	Epochs     float64          // of the whole run
	Memory     map[string]int64 // bytes by class of arena
	FLOPs      int64            // of a step with a full batch
}

// Plan reads model and data and compiles the training graph, but allocates
// none of its memory and writes nothing but the cache of large data's tokens.
func Plan(ctx context.Context, cfg Config, be plan.Backend) (e *Estimate, err error) {
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
	e.FLOPs = flops(pl, ports, t.cfg.SeqLen)
	return e, nil
}

// flops is the cost of a run with a full batch of sequences of seqLen.
func flops(pl *plan.Plan, ports *model.Ports, seqLen int) int64 {
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
	var sum int64
	for i := range pl.Steps {
		for _, n := range pl.Steps[i].Nodes {
			call := graph.Call{Node: n, Bind: b}
			for _, v := range n.In {
				call.In = append(call.In, sized(v))
			}
			for _, v := range n.Out {
				call.Out = append(call.Out, sized(v))
			}
			sum += n.Op.Cost(&call).FLOPs
		}
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
	row("FLOPs a step", "%.3g", float64(e.FLOPs))
	return b.String()
}

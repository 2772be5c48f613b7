package cpu

import (
	"context"
	"fmt"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"sync/atomic"

	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// labelling says whether sessions that are bound from now on label their steps.
var labelling atomic.Bool

// LabelSteps makes steps visible to Go's own profiles, for sessions that are
// bound from now on: samples have the labels program, plan, op, step and layer,
// and execution traces have one region per step. It costs some tens of
// nanoseconds per share of a step, so it is off by default.
func LabelSteps(on bool) { labelling.Store(on) }

// labelKernel sets the goroutine's labels around each share.
type labelKernel struct {
	kernel
	labels context.Context
	region string
}

func newLabelKernel(k kernel, program string, p *plan.Plan, s *plan.Step) *labelKernel {
	layer := "none"
	if n := s.Root().Layer; n >= 0 {
		layer = strconv.Itoa(n)
	}
	return &labelKernel{k, pprof.WithLabels(context.Background(), pprof.Labels("program", program,
		"plan", fmt.Sprintf("T<=%d", p.Max.T), "op", s.Kind, "step", s.Name, "layer", layer)), s.Name}
}

func (l *labelKernel) runShare(w *worker, b tensor.Bind, i, n int) {
	pprof.SetGoroutineLabels(l.labels)
	if trace.IsEnabled() {
		r := trace.StartRegion(l.labels, l.region)
		l.kernel.runShare(w, b, i, n)
		r.End()
	} else {
		l.kernel.runShare(w, b, i, n)
	}
	pprof.SetGoroutineLabels(context.Background())
}

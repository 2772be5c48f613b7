package calib

import (
	"context"
	"errors"
	"time"

	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// PoolUse is what runs of a small program take from a device's pool.
type PoolUse struct {
	Warm plan.MemoryCounts // after one run of each size
	End  plan.MemoryCounts // after Runs more
	Runs int
}

// poolTime is for how long a slow device repeats the runs.
const poolTime = 2 * time.Second

// MeasurePool runs a small program on a device whose memory is counted, with all sizes of
// runs.
func MeasurePool(ctx context.Context, be plan.Backend) (u PoolUse, err error) {
	counter, ok := be.(plan.Counter)
	if !ok {
		return u, errors.New("the device does not count its memory")
	}
	p := &programs{ctx: ctx, be: be}
	defer func() { err = errors.Join(err, p.close()) }()
	const most, turns = 128, 16
	began := time.Now()
	s := p.session(block(most, layers, tensor.F32), blockWeights(be, tensor.F32), plan.BindOptions{})
	pass := func() {
		for rows := 1; rows <= most && p.err == nil && ctx.Err() == nil; rows *= 2 {
			p.timeRun(s, rows)
			u.Runs++
		}
	}
	if p.err != nil {
		return u, nil // close tells
	}
	pass()
	u.Runs, u.Warm = 0, counter.MemoryCounts()
	for i := 0; i < turns && (i == 0 || time.Since(began) < poolTime); i++ {
		pass()
	}
	u.End = counter.MemoryCounts()
	return u, context.Cause(ctx)
}

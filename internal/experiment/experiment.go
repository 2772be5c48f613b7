// Package experiment is the design of experiments on a machine whose speed changes
// while it is measured: what is compared takes turns (Place, Design), whole rounds
// are resampled for intervals (Rounds, Mean), and a control, the baseline measured
// twice, shows the noise (Trial.Void).
//
// Package study runs trials, bench and peerbench take turns and intervals from
// here. It imports only package stats. Errors are those of the work, with the arm's
// name, and ErrNoTime.
package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"hotpath/internal/stats"
)

// Arm is one of the alternatives that do the same work.
type Arm struct {
	Name string
	// Run does the work once.
	Run func(ctx context.Context) error
	// Enter prepares what is not measured, such as a tier or a delay; leave undoes
	// it. nil: nothing to prepare.
	Enter func() (leave func())
}

// Design is the plan of an experiment.
type Design struct {
	// Least and Most bound the number of blocks. Between them Budget decides.
	Least, Most int
	Budget      time.Duration
	// Slice is the least time of one measurement: the work is repeated until then.
	Slice time.Duration
	Seed  uint64
	// Limit is the most time that the experiment may take. If it cannot finish
	// within it, it does not begin. 0: no limit.
	Limit time.Duration
}

// ErrNoTime reports an experiment that would take longer than its Limit.
var ErrNoTime = errors.New("not enough time")

// Fewest is the least number of blocks of an experiment.
const Fewest = 2

// Trial has the measurements of an experiment. Arm 0 is the baseline. Control is
// the baseline measured a second time: a difference between the two is noise.
type Trial struct {
	Names   []string    `json:"arms"`
	Seconds [][]float64 `json:"seconds"` // [arm][2*block], of one run of the work
	Control []float64   `json:"control"` // [2*block]
	Blocks  int         `json:"blocks"`
}

// Measure runs the arms in blocks. A block runs all arms in a random order and then
// in reverse (A B C, C B A), so that a drift of the machine's speed affects all
// arms alike. control is a second instance of arm 0; the zero Arm means arm 0
// itself.
func (d Design) Measure(ctx context.Context, arms []Arm, control Arm) (*Trial, error) {
	if control.Run == nil {
		control = arms[0]
	}
	all := append(slices.Clone(arms), control)
	reps := make([]int, len(all))
	start := time.Now()
	var round time.Duration // of one measurement of each
	for i, a := range all {
		took, err := d.warm(ctx, a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
		reps[i] = 1
		if d.Slice > 0 {
			reps[i] = max(1, int(math.Ceil(float64(d.Slice)/float64(max(took, time.Microsecond)))))
		}
		round += took * time.Duration(reps[i])
		if expected := 2 * Fewest * round / time.Duration(i+1) * time.Duration(len(all)); d.Limit > 0 && expected+time.Since(start) > d.Limit {
			return nil, fmt.Errorf("%w: it needs about %.1f s, but %.1f s are left", ErrNoTime, expected.Seconds(), d.Limit.Seconds())
		}
	}
	if d.Limit > 0 && 2*time.Duration(d.Least)*round > d.Limit {
		d.Least = Fewest
	}
	t := &Trial{Seconds: make([][]float64, len(arms))}
	for _, a := range arms {
		t.Names = append(t.Names, a.Name)
	}
	rng := rand.New(rand.NewPCG(d.Seed, 11))
	runtime.GC()
	for ; t.Blocks < d.Least || t.Blocks < d.Most && time.Since(start) < d.Budget; t.Blocks++ {
		order := rng.Perm(len(all))
		back := slices.Clone(order)
		slices.Reverse(back)
		for _, i := range append(order, back...) {
			took, err := timed(ctx, all[i], reps[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", all[i].Name, err)
			}
			if i == len(arms) {
				t.Control = append(t.Control, took)
			} else {
				t.Seconds[i] = append(t.Seconds[i], took)
			}
		}
	}
	return t, nil
}

// warm runs an arm until caches, tables and programs are ready, and returns the
// time of a run.
func (d Design) warm(ctx context.Context, a Arm) (time.Duration, error) {
	var best float64
	for i := range 3 {
		s, err := timed(ctx, a, 1)
		if err != nil {
			return 0, err
		}
		if i == 0 || s < best {
			best = s
		}
		if d.Slice == 0 || s > 0.1 {
			break // no time to warm up, or a run long enough to be warm by itself
		}
	}
	return time.Duration(best * 1e9), nil
}

// timed is the mean time of n runs in seconds.
func timed(ctx context.Context, a Arm, n int) (float64, error) {
	if a.Enter != nil {
		defer a.Enter()()
	}
	start := time.Now()
	for range n {
		if err := a.Run(ctx); err != nil {
			return 0, err
		}
	}
	return max(time.Since(start).Seconds(), 1e-9) / float64(n), ctx.Err()
}

// Ratio is the log-ratio of an arm's time to the baseline's: below 0 if the arm is
// faster. Each block gives one value.
func (t *Trial) Ratio(arm int) Estimate { return logRatio(t.Seconds[arm], t.Seconds[0]) }

// Noise is the log-ratio of the baseline's second instance to the baseline.
func (t *Trial) Noise() Estimate { return logRatio(t.Control, t.Seconds[0]) }

// Between is the log-ratio of two arms' times.
func (t *Trial) Between(arm, base int) Estimate { return logRatio(t.Seconds[arm], t.Seconds[base]) }

// Void reports whether the control excludes zero. Then the trial shows nothing.
func (t *Trial) Void() bool { return t.Noise().ExcludesZero() }

// Judge says what the trial shows about an arm.
func (t *Trial) Judge(arm int) Verdict { return Judge(t.Ratio(arm), t.Noise()) }

// Median is the time of one run of an arm in seconds.
func (t *Trial) Median(arm int) float64 { return stats.Median(t.Seconds[arm]) }

// Time is the time of one run of an arm with its interval over blocks. It is
// computed from the baseline's time and the arm's ratio: on a machine with two
// speeds the medians of two arms may be of different speeds, and would contradict
// the ratio beside them.
func (t *Trial) Time(arm int) Estimate {
	e, shift := Mean(paired(t.Seconds[arm], nil)), 0.0
	if arm > 0 {
		shift = center(paired(t.Seconds[0], nil)) + t.Ratio(arm).Mid - e.Mid
	}
	return e.Map(func(v float64) float64 { return math.Exp(v + shift) })
}

func logRatio(a, b []float64) Estimate { return Mean(paired(a, b)) }

// paired is log(a/b) per block, of the sums of both directions, in which a steady
// drift cancels. b may be nil.
func paired(a, b []float64) []float64 {
	out := make([]float64, len(a)/2)
	for i := range out {
		out[i] = math.Log((a[2*i] + a[2*i+1]) / 2)
		if b != nil {
			out[i] -= math.Log((b[2*i] + b[2*i+1]) / 2)
		}
	}
	return out
}

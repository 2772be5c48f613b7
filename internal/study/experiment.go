package study

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

// Arm is one way of doing the same work.
type Arm struct {
	Name string
	// Run does the work once.
	Run func(ctx context.Context) error
	// Enter makes ready what is not part of the measurement, such as a tier or
	// a delay; leave undoes it. nil means that there is nothing.
	Enter func() (leave func())
}

// Design says how an experiment is made.
type Design struct {
	// Blocks that are measured at least and at most. Between them they go on
	// while Budget lasts.
	Least, Most int
	Budget      time.Duration
	// Slice is how long one measurement takes at least: the work is repeated
	// until then.
	Slice time.Duration
	Seed  uint64
	// Limit is the time that there is at most; an experiment that cannot be
	// finished within it is not begun. 0 is no limit.
	Limit time.Duration
}

// errNoTime reports an experiment that would take longer than its Limit.
var errNoTime = errors.New("no time for it")

// fewest is the number of blocks below which nothing is an experiment.
const fewest = 2

// designs of a full study and of one that only has to be seen to work.
var (
	fullDesign  = Design{Least: 4, Most: 40, Budget: 4 * time.Second, Slice: 5 * time.Millisecond}
	quickDesign = Design{Least: 2, Most: 2, Slice: 0}
)

// Trial is what an experiment measured. Arm 0 is the baseline that the others
// are compared with; Control is the baseline again, under another name: what
// differs between the two is noise.
type Trial struct {
	Names   []string    `json:"arms"`
	Seconds [][]float64 `json:"seconds"` // [arm][2*block], of one run of the work
	Control []float64   `json:"control"` // [2*block]
	Blocks  int         `json:"blocks"`
}

// Measure runs the arms in blocks. A block goes through all of them in a random
// order and then back (A B C, C B A), so that a machine that gets slower or
// faster in the meantime does so for all of them alike. control is a second
// instance of arm 0; the zero Arm runs arm 0 itself.
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
		if expected := 2 * fewest * round / time.Duration(i+1) * time.Duration(len(all)); d.Limit > 0 && expected+time.Since(start) > d.Limit {
			return nil, fmt.Errorf("%w: about %.1f s, of %.1f s that are left", errNoTime, expected.Seconds(), d.Limit.Seconds())
		}
	}
	if d.Limit > 0 && 2*time.Duration(d.Least)*round > d.Limit {
		d.Least = fewest
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

// warm runs an arm until caches, tables and programs are there, and returns how
// long it takes then.
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
			break // in a hurry, or long enough to be warm in itself
		}
	}
	return time.Duration(best * 1e9), nil
}

// timed is the time in seconds of one of n runs.
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

// Ratio is the log-ratio of an arm's time to the baseline's: below 0 where the
// arm is faster. Each block gives one value.
func (t *Trial) Ratio(arm int) Estimate { return logRatio(t.Seconds[arm], t.Seconds[0]) }

// Noise is the log-ratio of the baseline's second instance to the baseline.
func (t *Trial) Noise() Estimate { return logRatio(t.Control, t.Seconds[0]) }

// Between is the log-ratio of two arms' times.
func (t *Trial) Between(arm, base int) Estimate { return logRatio(t.Seconds[arm], t.Seconds[base]) }

// Void reports a control that excludes zero: then the trial shows nothing.
func (t *Trial) Void() bool { return t.Noise().ExcludesZero() }

// voided says that a trial shows nothing, and why.
func (t *Trial) voided() string {
	return fmt.Sprintf("void: its control, the same against itself, differs by %s. Leave the machine alone meanwhile, or give it more --time", change(t.Noise()))
}

// Judge says what the trial shows about an arm.
func (t *Trial) Judge(arm int) Verdict { return judge(t.Ratio(arm), t.Noise()) }

// Median is the time of one run of an arm in seconds.
func (t *Trial) Median(arm int) float64 { return stats.Median(t.Seconds[arm]) }

// Time is the time of one run of an arm with its interval, over blocks. It
// follows from the baseline's and the arm's ratio to it: on a machine of two
// speeds the middles of two arms may be of different ones, and a table of them
// would contradict the ratios beside it.
func (t *Trial) Time(arm int) Estimate {
	e, shift := estimate(paired(t.Seconds[arm], nil)), 0.0
	if arm > 0 {
		shift = center(paired(t.Seconds[0], nil)) + t.Ratio(arm).Mid - e.Mid
	}
	return e.Map(func(v float64) float64 { return math.Exp(v + shift) })
}

func logRatio(a, b []float64) Estimate { return estimate(paired(a, b)) }

// paired is log(a/b) of each block: of the sums of the way there and the way
// back, in which a steady drift cancels. b may be nil.
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

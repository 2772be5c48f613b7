package calib

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"hotpath/internal/graph"
	"hotpath/internal/plan"
	"hotpath/internal/stats"
	"hotpath/internal/tensor"
)

// The measured model is some layers of an encoder of this size. A run takes some
// milliseconds on a fast machine and still ends on a slow one. Attention is a third
// of its time, as in a small model. Its weights do not fit into a core's own cache:
// if they did, fine would profit from its halves and coarse would not.
const (
	dim, ffn, heads, layers = 384, 1536, 12, 2

	elements = layers * (4*dim*dim + 2*dim*ffn) // of the weights
	text     = 32                               // tokens of a text
	mostRows = 256                              // of one worker
	fewRows  = 16
	chain    = 48 // steps of the program that counts barriers
	// budget is the time for rounds of measurements. Preparing them takes another
	// tenth of a second. A round takes some milliseconds, or a fifth of a second
	// with the plain Go kernels; at least one round is made.
	budget = 500 * time.Millisecond
	// long is the time of a run on one worker from which more rows are not needed.
	long = 6 * time.Millisecond
)

// ErrBusy reports that other programs used the processors, so that the measurement
// is worthless.
var ErrBusy = errors.New("the machine is busy: its cores did not work at the same time")

// held is the largest ratio of elapsed time to processor time of an undisturbed run.
const held = 1.5

// Meter runs the programs that are timed. Its functions give seconds; tests
// put their own in.
type Meter struct {
	Workers, Cores int
	Fork           func() float64
	// Chain runs a chain of steps on one worker and on all.
	Chain func(all bool) float64
	Steps int // of Chain, that have a barrier
	// Block runs rows on one worker, with weights from panels or from the file's
	// blocks.
	Block func(rows int, stored bool) float64
	// Fine shares the rows of all cores step by step; Coarse gives each core its
	// own rows. Both take the rows per core.
	Fine, Coarse func(rows int) float64
	FLOPs        float64 // of a row of a block
	Elements     float64 // of a block's weights
	FineBarriers int     // of a run of Fine
	// Used is the processor time of the process so far; nil if the system does not
	// tell.
	Used func() float64
}

// Measure times the backend's workers in well under a second. Machines are shared
// and noisy, and noise only adds time. So each figure is the lower fifth of many
// short turns, and all figures take turns, so that a slow moment affects all of
// them. ErrBusy comes with the figures that were measured.
func Measure(ctx context.Context, be plan.Backend, cores int) (c Costs, err error) {
	m, closer, err := newMeter(ctx, be, cores)
	if err != nil {
		return c, fmt.Errorf("calibration: %w", err)
	}
	defer func() { err = errors.Join(err, closer()) }()
	return m.measure(ctx, time.Now)
}

// measure repeats rounds until the budget is spent. now is time.Now.
func (m *Meter) measure(ctx context.Context, now func() time.Time) (Costs, error) {
	start := now()
	c := Costs{Workers: m.Workers, Cores: max(1, min(m.Workers, m.Cores)), Fine: 1, Coarse: 1, Measured: true}
	m.Block(fewRows, false) // meets cold memory
	rows := fewRows
	for rows < mostRows && m.Block(rows, false) < long.Seconds()/2 {
		rows *= 2
	}
	var fork, all, alone, one, used, few, stored, storedFew, fine, coarse samples
	for len(one) == 0 || ctx.Err() == nil && now().Sub(start) < budget {
		if m.Used != nil {
			used.addSample(-m.Used())
		}
		one.addSample(m.Block(rows, false))
		stored.addSample(m.Block(rows, true))
		if rows > fewRows {
			few.addSample(m.Block(fewRows, false))
			storedFew.addSample(m.Block(fewRows, true))
		}
		if m.Used != nil { // by what one worker did
			used[len(used)-1] += m.Used()
		}
		if c.Workers == 1 {
			continue
		}
		fork.addSample(m.Fork())
		all.addSample(m.Chain(true))
		alone.addSample(m.Chain(false))
		coarse.addSample(m.Coarse(rows))
		fine.addSample(m.Fine(rows))
	}
	if ctx.Err() != nil { // which ended runs early
		return c, context.Cause(ctx)
	}
	// The time of a run is a + b rows: two lengths give both. The time per row does
	// not depend on where weights come from.
	t, n := one.low(), float64(rows)
	b := t / n
	if rows > fewRows {
		b = min(b, max(b/2, (t-few.low())/(n-fewRows)))
	}
	c.FLOP = b / m.FLOPs
	c.Packed = max(0, t-b*n) / m.Elements
	c.Stored = max(c.Packed, (stored.low()-b*n)/m.Elements)
	if rows > fewRows {
		c.Stored = max(c.Packed, min(c.Stored, (storedFew.low()-b*fewRows)/m.Elements))
	}
	// If other programs use all cores, all slow down alike, and no check below would
	// notice.
	if m.Used != nil && t+stored.low()+few.low()+storedFew.low() > held*used.low() {
		return c, ErrBusy
	}
	if c.Workers == 1 {
		return c, c.check()
	}
	cores := float64(c.Cores)
	c.Fork = fork.low()
	c.Barrier = max(0, all.low()-alone.low()/cores) / float64(m.Steps)
	// Speedups: all cores' rows in the time of coarse, and in that of fine without
	// its barriers, which Costs has separately.
	c.Coarse = bounded(cores*t/coarse.low(), cores)
	// Only workers that wait for a processor take so long at a barrier.
	if c.Fork > slowest || c.Barrier > slowest {
		return c, ErrBusy
	}
	shared := fine.low()
	shared = max(shared/2, shared-c.Fork-float64(m.FineBarriers)*c.Barrier)
	c.Fine = bounded(cores*t/shared, cores)
	if err := c.check(); err != nil {
		return c, err
	}
	// Steps of some microseconds suffer most. If every second chain takes several
	// times as long as a good one, workers waited for a processor. The same holds if
	// sharing long steps is slower than not sharing them, which shows even on slow
	// machines with a single round.
	waited := c.Workers <= c.Cores && (all.at(0.5) > 3*all.low() || c.Fine < 1)
	if cores > 1 && (waited || c.Coarse < 1.1) {
		return c, ErrBusy
	}
	return c, nil
}

// bounded limits a speedup to the number of cores.
func bounded(v, cores float64) float64 { return max(0.1, min(v, cores)) }

type samples []float64

func (s *samples) addSample(v float64) { *s = append(*s, v) }

// low is the lower fifth: the time without disturbance.
func (s samples) low() float64 { return s.at(0.2) }

func (s samples) at(quantile float64) float64 {
	return stats.Quantile(slices.Sorted(slices.Values(s)), quantile)
}

// programs are the programs that a Meter runs on a backend.
type programs struct {
	ctx      context.Context // of what is made and run
	be       plan.Backend
	sessions []*plan.Session
	err      error
}

func newMeter(ctx context.Context, be plan.Backend, cores int) (*Meter, func() error, error) {
	p := &programs{ctx: ctx, be: be}
	m := &Meter{Workers: max(1, be.Caps().Workers), Cores: cores, FLOPs: 2 * elements, Elements: elements, Used: processorTime}
	cores = max(1, min(m.Workers, cores))
	packed, storedSet := blockWeights(be, tensor.F32), blockWeights(be, tensor.Q8_0)
	// Rows of all cores in one run; the rows of one worker use the same program.
	fine := p.session(block(mostRows*cores, layers, tensor.F32), packed, plan.BindOptions{Fixed: true})
	stored := p.session(block(mostRows, layers, tensor.Q8_0), storedSet, plan.BindOptions{Serial: true})
	one := make([]*plan.Session, cores)
	for i := range one {
		one[i] = p.session(block(mostRows, layers, tensor.F32), packed, plan.BindOptions{Serial: true})
	}
	steps := p.session(barriers(m.Workers), nil, plan.BindOptions{Fixed: true})
	alone := p.session(barriers(m.Workers), nil, plan.BindOptions{Serial: true})
	if p.err != nil {
		return nil, nil, errors.Join(p.err, p.close())
	}
	m.Steps, m.FineBarriers = countBarriers(steps), countBarriers(fine)
	team := be.Caps().Coarse
	if team == nil {
		m.Workers = 1
	}
	var came atomic.Int32
	meet := func(int) { // or the caller would not wait for who has not begun
		for came.Add(1); int(came.Load()) < m.Workers && ctx.Err() == nil; {
			runtime.Gosched()
		}
	}
	m.Fork = func() float64 {
		time.Sleep(200 * time.Microsecond) // as between calls: the team sleeps
		came.Store(0)
		return timed(func() { p.keep(team(ctx, m.Workers, meet)) })
	}
	m.Chain = func(all bool) float64 {
		s := alone
		if all {
			s = steps
		}
		return p.timeRun(s, 2*m.Workers)
	}
	m.Block = func(rows int, fromFile bool) float64 {
		if fromFile {
			return p.timeRun(stored, rows)
		}
		return p.timeRun(one[0], rows)
	}
	m.Fine = func(rows int) float64 { return p.timeRun(fine, rows*cores) }
	errs := make([]error, cores)
	m.Coarse = func(rows int) float64 {
		var next atomic.Int32 // of one run per core
		t := timed(func() {
			p.keep(team(ctx, cores, func(i int) {
				for int(next.Add(1)) <= cores && errs[i] == nil {
					errs[i] = one[i].Run(ctx, texts(one[i], rows))
				}
			}))
		})
		p.keep(errors.Join(errs...))
		return t
	}
	return m, p.close, nil
}

func timed(f func()) float64 {
	start := time.Now()
	f()
	return time.Since(start).Seconds()
}

// timeRun times a run.
func (p *programs) timeRun(s *plan.Session, rows int) float64 {
	return timed(func() { p.keep(s.Run(p.ctx, texts(s, rows))) })
}

// texts cuts the rows of a session's input into texts, if the program has
// attention.
func texts(s *plan.Session, rows int) tensor.Bind {
	v := s.Program().Graph.Input("starts")
	if v == nil {
		return tensor.Bind{T: rows, S: 1, R: 1}
	}
	b := tensor.Bind{T: rows, S: (rows + text - 1) / text, R: 1}
	for i, starts := 0, s.I32(v); i <= b.S; i++ {
		starts[i] = int32(min(i*text, rows))
	}
	return b
}

// keep keeps the first error of runs. measure reports the end of the context.
func (p *programs) keep(err error) {
	if p.err == nil && p.ctx.Err() == nil {
		p.err = err
	}
}

// session binds a program whose input x is random.
func (p *programs) session(g *graph.Graph, ws *plan.WeightSet, o plan.BindOptions) *plan.Session {
	s := p.bind(g, ws, o)
	if s == nil {
		return nil
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i, x := 0, s.F32(g.Input("x")); i < len(x); i++ {
		x[i] = r.Float32() - 0.5
	}
	return s
}

// bind binds a program.
func (p *programs) bind(g *graph.Graph, ws *plan.WeightSet, o plan.BindOptions) *plan.Session {
	if p.err != nil {
		return nil
	}
	if ws == nil {
		ws = plan.NewWeightSet(p.be, random{})
	}
	var prog *plan.Program
	if prog, p.err = plan.Compile("calibration", g, p.be, plan.Buckets(p.be, g.Max), plan.CompileOptions{}); p.err != nil {
		return nil
	}
	var s *plan.Session
	if s, p.err = plan.NewSession(p.ctx, prog, ws, o); p.err != nil {
		return nil
	}
	p.sessions = append(p.sessions, s)
	return s
}

func (p *programs) close() error {
	errs := []error{p.err}
	for _, s := range p.sessions {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

func countBarriers(s *plan.Session) int {
	n := 0
	plans := s.Program().Plans
	for _, step := range plans[len(plans)-1].Steps {
		if step.Barrier {
			n++
		}
	}
	return max(1, n)
}

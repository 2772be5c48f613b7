package calib

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"hotpath/internal/backend/cpu"
	"hotpath/internal/backend/ref"
)

// machine is a made-up one: what a Meter of it measures is known.
type machine struct {
	costs Costs
	clock time.Time
	noise func() float64 // of each turn, 1 or more
}

func (m *machine) now() time.Time { return m.clock }

// meter makes a run take what the figures say, and the clock go on by it.
func (m *machine) meter() *Meter {
	c := m.costs
	const flops, elements, fineBarriers = 4e6, 2e6, 5
	spend := func(s float64) float64 {
		s *= m.noise()
		m.clock = m.clock.Add(time.Duration(s * float64(time.Second)))
		return s
	}
	block := func(rows int, weight float64) float64 { return elements*weight + float64(rows)*flops*c.FLOP }
	return &Meter{Workers: c.Workers, Cores: c.Cores, Steps: 40, FLOPs: flops, Elements: elements, FineBarriers: fineBarriers,
		Fork: func() float64 { return spend(c.Fork) },
		Chain: func(all bool) float64 {
			if all {
				return spend(1e-4/float64(c.Cores) + 40*c.Barrier)
			}
			return spend(1e-4)
		},
		Block: func(rows int, stored bool) float64 {
			if stored {
				return spend(block(rows, c.Stored))
			}
			return spend(block(rows, c.Packed))
		},
		Fine: func(rows int) float64 {
			return spend(c.Fork + fineBarriers*c.Barrier + float64(c.Cores)*block(rows, c.Packed)/c.Fine)
		},
		Coarse: func(rows int) float64 { return spend(float64(c.Cores) * block(rows, c.Packed) / c.Coarse) },
	}
}

func near(got, want float64) bool { return math.Abs(got-want) <= 0.1*want }

// TestMeasureFindsTheFigures, also where most turns are disturbed.
func TestMeasureFindsTheFigures(t *testing.T) {
	want := Costs{Workers: 4, Cores: 4, Fork: 2e-5, Barrier: 2e-6, FLOP: 1 / 100e9, Packed: 0.1e-9, Stored: 0.4e-9, Fine: 3, Coarse: 3.5, Measured: true}
	r := rand.New(rand.NewPCG(5, 6))
	for name, noise := range map[string]func() float64{
		"quiet": func() float64 { return 1 },
		"noisy": func() float64 { return 1 + 4*max(0, r.Float64()-0.4) },
	} {
		m := &machine{costs: want, noise: noise}
		got, err := m.meter().measure(context.Background(), m.now)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range bounds {
			b := &bounds[i]
			if g, w := b.of(&got), b.of(&want); !near(g, w) {
				t.Errorf("%s: %s is %g, expected %g", name, b.name, g, w)
			}
		}
		if got.Workers != 4 || got.Cores != 4 || !got.Measured {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestMeasureEnds: machines of any speed are measured within a second of their
// own clock, and one that is busy says so.
func TestMeasureEnds(t *testing.T) {
	for _, flops := range []float64{0.5e9, 10e9, 1e12} {
		m := &machine{costs: Default(2, 2), noise: func() float64 { return 1 }}
		m.costs.FLOP = 1 / flops
		c, err := m.meter().measure(context.Background(), m.now)
		if spent := m.clock.Sub(time.Time{}); err != nil || spent > time.Second || !near(c.FLOP, 1/flops) {
			t.Errorf("%g FLOP/s: measured %g in %v, %v", flops, 1/c.FLOP, spent, err)
		}
	}
	busy := &machine{costs: Default(4, 4), noise: func() float64 { return 1 }}
	busy.costs.Coarse, busy.costs.Fine = 1, 0.9
	if _, err := busy.meter().measure(context.Background(), busy.now); !errors.Is(err, ErrBusy) {
		t.Errorf("a busy machine: %v", err)
	}
	late := &machine{costs: Default(2, 2), noise: func() float64 { return 1 }}
	late.costs.FLOP, late.costs.Fine = 1/0.5e9, 0.3 // so slow that there is one round, in which one core came late
	if _, err := late.meter().measure(context.Background(), late.now); !errors.Is(err, ErrBusy) {
		t.Errorf("a slow machine, one of whose cores was taken away: %v", err)
	}
	turn := 0
	taken := &machine{costs: Default(4, 4), noise: func() float64 { turn++; return 1 + float64(turn/20%3*8) }}
	if _, err := taken.meter().measure(context.Background(), taken.now); !errors.Is(err, ErrBusy) {
		t.Errorf("a machine whose cores are taken away most of the time: %v", err)
	}
	// More workers than cores, which sleep for long before they meet.
	asleep := &machine{costs: Default(128, 2), noise: func() float64 { return 1 }}
	asleep.costs.Barrier = 2 * slowest
	if _, err := asleep.meter().measure(context.Background(), asleep.now); !errors.Is(err, ErrBusy) {
		t.Errorf("a machine whose workers do not get to meet: %v", err)
	}
	// All cores of a machine are taken alike: only the processor time tells.
	for _, workers := range []int{1, 4} {
		for _, part := range []float64{1, 0.9, 0.4, 0.001} {
			m := &machine{costs: Default(workers, workers), noise: func() float64 { return 1 }}
			meter := m.meter()
			meter.Used = func() float64 { return part * m.clock.Sub(time.Time{}).Seconds() }
			if _, err := meter.measure(context.Background(), m.now); errors.Is(err, ErrBusy) != (part < 0.5) {
				t.Errorf("%d workers with %g of their processors: %v", workers, part, err)
			}
		}
	}
	// And where it is taken during a single run of a single round.
	once := &machine{costs: Default(2, 2), noise: func() float64 { return 1 }}
	once.costs.FLOP = 1 / 0.5e9
	meter, away := once.meter(), 0.0
	meter.Used = func() float64 { return once.clock.Sub(time.Time{}).Seconds() - away }
	block := meter.Block
	meter.Block = func(rows int, stored bool) float64 {
		s := block(rows, stored)
		if stored {
			s, away = s+30, away+30
			once.clock = once.clock.Add(30 * time.Second)
		}
		return s
	}
	if c, err := meter.measure(context.Background(), once.now); !errors.Is(err, ErrBusy) {
		t.Errorf("a machine that was taken while weights were decoded: %+v, %v", c, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := busy.meter().measure(ctx, busy.now); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestMeasureEndsInItsLastRound: runs that the context cut short are no figures,
// also where there was no time for a further round anyway.
func TestMeasureEndsInItsLastRound(t *testing.T) {
	m := &machine{costs: Costs{Workers: 4, Cores: 4, Fork: 2e-5, Barrier: 2e-6, FLOP: 1 / 100e9, Packed: 0.1e-9, Stored: 0.4e-9, Fine: 3, Coarse: 3.5}, noise: func() float64 { return 1 }}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	meter := m.meter()
	fine := meter.Fine
	meter.Fine = func(rows int) float64 {
		cancel(cause)
		m.clock = m.clock.Add(budget)
		return fine(rows) / 10
	}
	if c, err := meter.measure(ctx, m.now); !errors.Is(err, cause) {
		t.Errorf("%+v, %v, expected the cause of the context's end", c, err)
	}
}

// TestMeasureRuns the programs themselves, on as many workers as there may be
// and on a backend without a team. What they take is the machine's affair.
func TestMeasureRuns(t *testing.T) {
	for _, workers := range []int{1, 2, 128} {
		be, err := cpu.New(cpu.Options{Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		c, err := Measure(context.Background(), be, 2)
		busy := errors.Is(err, ErrBusy)
		if err = quietly(err); err != nil || c.Workers != workers || c.Cores != min(workers, 2) || !busy && c.check() != nil {
			t.Errorf("%d workers: %+v, %v", workers, c, err)
		}
		if err := be.Close(); err != nil {
			t.Error(err)
		}
	}
	if c, err := Measure(context.Background(), ref.New(), 2); quietly(err) != nil || c.Workers != 1 {
		t.Errorf("reference: %+v, %v", c, err)
	}
}

// quietly is err unless the machine was busy and nothing else went wrong: no run
// failed.
func quietly(err error) error {
	if errors.Is(err, ErrBusy) && err.Error() == ErrBusy.Error() {
		return nil
	}
	return err
}

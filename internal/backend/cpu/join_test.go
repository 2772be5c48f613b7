package cpu

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// serialEmbedder is a serial session of the embedder, with its ports.
func serialEmbedder(t *testing.T, precision Precision, b tensor.Bind, helpers int) (*plan.Session, *exec, *model.Model, *model.Ports) {
	t.Helper()
	m := OpenModel(t, filepath.Join("..", "..", "builtin", "hotpath-embedder.gguf"))
	g, ports, err := m.BuildEmbed(b, model.EmbedOptions{Pooling: m.Config().Pooling, Normalize: true})
	if err != nil {
		t.Fatal(err)
	}
	be, err := New(Options{Workers: 4, Precision: precision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { be.Close() })
	w := &watched{Backend: be}
	p, err := plan.Compile("p", g, w, []tensor.Bind{b}, plan.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan.NewSession(t.Context(), p, plan.NewWeightSet(w, m), plan.BindOptions{Serial: true, Helpers: helpers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, w.execs[0], m, ports
}

// waitFor lets others run until it holds.
func waitFor(held func() bool) {
	for !held() {
		runtime.Gosched()
	}
}

// TestHelpersKeepBits: a run that helpers join in the middle, all or some of them, gives
// the bits of a run alone, and its steps are cut for those that are there.
func TestHelpersKeepBits(t *testing.T) {
	b := tensor.Bind{T: 120, S: 1, R: 1}
	for _, precision := range []Precision{F32, BF16, Auto} {
		s, _, m, ports := serialEmbedder(t, precision, b, 0)
		run := func(s *plan.Session, ports *model.Ports, i int) []float32 {
			fillRun(t, s, ports, m, b, i)
			if err := s.Run(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			return slices.Clone(s.F32(ports.Embedding))
		}
		var want [4][]float32
		for i := range want {
			want[i] = run(s, ports, i)
		}
		s, e, _, ports := serialEmbedder(t, precision, b, 3)
		for i := range 4 * len(want) {
			helpers, from := i%4, i%(len(e.groups)-2)
			shares := 0
			var group sync.WaitGroup
			e.between = func(lane, step int) {
				if lane > 0 || step != e.groups[from] {
					return
				}
				if e.Left() <= 0 {
					t.Error("nothing is left of a run that is under way")
				}
				for range helpers {
					group.Go(e.Join)
				}
				waitFor(func() bool { return e.present() == 1+helpers })
			}
			got := run(s, ports, i%len(want))
			group.Wait()
			for _, c := range e.flights[0].cuts[e.groups[from+1]:] {
				shares += int(c.shares) - 1
			}
			if !slices.Equal(got, want[i%len(want)]) {
				t.Errorf("%s: %d helpers from group %d on change the bits", precision, helpers, from)
			}
			if (shares > 0) != (helpers > 0) && from == 0 {
				t.Errorf("%s: %d helpers, but steps have %d shares more than one", precision, helpers, shares)
			}
			if e.Left() != 0 || e.present() != 1 || e.flights[0].job.inside.Load() != 0 {
				t.Errorf("%s: after the run %g is left, %d workers are there", precision, e.Left(), e.present())
			}
		}
		if len(e.flights) > flightsReady {
			t.Errorf("%d flights", len(e.flights))
		}
	}
}

// TestHelpersComeAndGo: helpers that join at any time, between runs too, change no bit of
// many short runs, nor do they keep a run from being cancelled.
func TestHelpersComeAndGo(t *testing.T) {
	b := tensor.Bind{T: 40, S: 1, R: 1}
	s, e, m, ports := serialEmbedder(t, Auto, b, 3)
	fillRun(t, s, ports, m, b, 1)
	if err := s.Run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	want := slices.Clone(s.F32(ports.Embedding))
	var stop atomic.Bool
	var cancelAt atomic.Pointer[func(step int)] // late helpers of the run before see it too
	e.between = func(_, step int) {
		if f := cancelAt.Load(); f != nil {
			(*f)(step)
		}
	}
	var group sync.WaitGroup
	for range 4 { // one more than there are seats
		group.Go(func() {
			for !stop.Load() {
				if s.Slot(0).Left() > 0 {
					s.Slot(0).Join()
				}
				runtime.Gosched()
			}
		})
	}
	for i := range 60 {
		ctx, cancel := context.WithCancel(t.Context())
		cancelAt.Store(nil)
		if i%5 == 4 {
			f := func(step int) {
				if step == i%len(e.kernels) {
					cancel()
				}
			}
			cancelAt.Store(&f)
		}
		fillRun(t, s, ports, m, b, 1)
		switch err := s.Run(ctx, b); {
		case err != nil && (i%5 != 4 || !errors.Is(err, context.Canceled)):
			t.Fatal(err)
		case err == nil && !slices.Equal(s.F32(ports.Embedding), want):
			t.Fatalf("run %d has other bits", i)
		}
		cancel()
	}
	stop.Store(true)
	group.Wait()
	if e.present() != 1 || e.Left() != 0 {
		t.Errorf("%d workers are in no run", e.present())
	}
}

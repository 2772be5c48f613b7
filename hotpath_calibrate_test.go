package hotpath

import (
	"context"
	"errors"
	"slices"
	"testing"

	"hotpath/internal/calib"
	"hotpath/internal/testmodels"
)

// TestCalibrationDecides: a model decides by what is kept for this machine when
// it is opened, unless it is told not to.
func TestCalibrationDecides(t *testing.T) {
	t.Setenv("HOTPATH_CACHE", t.TempDir())
	t.Setenv(calib.Env, "")
	dir, err := calib.Dir()
	if err != nil {
		t.Fatal(err)
	}
	// Barriers that cost nothing, and texts that must not be shared out.
	key := calib.KeyOf(2)
	c := calib.Default(2, key.Parallel())
	c.Fork, c.Barrier, c.FLOP, c.Coarse, c.Measured = 0, 0, 1e-7, 0.1, true
	if err := calib.Store(dir, key, c); err != nil {
		t.Fatal(err)
	}
	texts := slices.Repeat([]string{"rain in the hills", "boats"}, 32)
	runs := func(o Options) (fine, coarse bool) {
		o.Threads = 2
		m := open(t, testmodels.Dir(t, "bert"), o)
		if _, err := m.Embed(context.Background(), texts, EmbedOptions{}); err != nil {
			t.Fatal(err)
		}
		s := m.eng.Stats()
		return s.FineRuns > 0, s.CoarseRuns > 0
	}
	if fine, coarse := runs(Options{}); !fine || coarse {
		t.Errorf("kept figures: fine %t, coarse %t", fine, coarse)
	}
	if fine, coarse := runs(Options{Parallel: "coarse"}); fine || !coarse {
		t.Errorf("coarse on demand: fine %t, coarse %t", fine, coarse)
	}
	c.Coarse, c.Fine, c.Barrier = 1, 0.1, 0.01 // now the other way round
	if err := calib.Store(dir, key, c); err != nil {
		t.Fatal(err)
	}
	if fine, coarse := runs(Options{}); fine || !coarse {
		t.Errorf("other figures: fine %t, coarse %t", fine, coarse)
	}
	m := open(t, testmodels.Dir(t, "bert"), Options{Threads: 2, NoCalibration: true})
	if got := m.eng.Options().Costs; got != nil {
		t.Errorf("without calibration: %+v", got)
	}
}

func TestCalibrate(t *testing.T) {
	t.Setenv("HOTPATH_CACHE", t.TempDir())
	t.Setenv(calib.Env, "")
	if s, err := Calibrate(context.Background(), 2); err != nil || s == "" {
		t.Errorf("%q, %v", s, err)
	}
	if _, err := Calibrate(context.Background(), -1); !errors.Is(err, ErrInput) {
		t.Errorf("-1 threads: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Calibrate(ctx, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	t.Setenv(calib.Env, calib.Off)
	if s, err := Calibrate(context.Background(), 2); err != nil || s != calib.FromDefault+" ("+calib.Env+" is off)" {
		t.Errorf("off: %q, %v", s, err)
	}
}

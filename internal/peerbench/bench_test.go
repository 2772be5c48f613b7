package main

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"hotpath/internal/testmodels"
)

func measureFakes(t *testing.T, work Work, limit float64, hows ...string) *Result {
	t.Helper()
	g := Group{
		Name: "g", Title: "T", Lead: "lead", Works: []Work{work}, Inputs: inputs{Model: testmodels.Dir(t, "bert")},
		Reference: fakeRunner("reference", "", 0),
		Runners:   []Runner{fakeRunner("lead", "", limit)},
	}
	for _, how := range hows {
		g.Runners = append(g.Runners, fakeRunner(how, how, limit))
	}
	got, err := bench{rounds: 3}.measure(context.Background(), g)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func rowOf(t *testing.T, g *Result, runner string) *Row {
	t.Helper()
	for _, r := range g.Rows {
		if r.Runner == runner {
			return r
		}
	}
	t.Fatalf("no row of %s", runner)
	return nil
}

func TestMeasure(t *testing.T) {
	for _, c := range []struct {
		work  Work
		limit float64
	}{{embed(2, 8, 2), 0.99}, {prefill(8, 2), worstLead}, {decode(2), worstLead}} {
		t.Run(c.work.Name, func(t *testing.T) {
			g := measureFakes(t, c.work, c.limit, "slow", "wrong", "silent", "dies")
			lead, slow := rowOf(t, g, "lead"), rowOf(t, g, "slow")
			if len(lead.Samples) != 3 || math.Abs(lead.Median-1000) > 1e-6 || lead.Agreement == "" {
				t.Errorf("lead: %+v, expected 3 samples of 1000 tok/s that agree", lead)
			}
			if slow.Ratio == nil || math.Abs(slow.Ratio.Value-2) > 1e-9 || slow.Ratio.Of != "lead" || slow.Ratio.Over != "slow" {
				t.Errorf("slow: ratio %+v, expected that lead is 2 times as fast", slow.Ratio)
			}
			for runner, want := range map[string]string{"wrong": "wrong: ", "silent": "model.bin: no such file", "dies": "out of memory"} {
				r := rowOf(t, g, runner)
				if len(r.Samples) > 0 || r.Ratio != nil || !strings.Contains(r.Problem, want) {
					t.Errorf("%s: %+v, expected no samples because of %q", runner, r, want)
				}
			}
			if err := g.failure(); err == nil || !strings.Contains(err.Error(), "wrong: ") {
				t.Errorf("failure is %v, expected the wrong answers", err)
			}
		})
	}
}

// TestIdleWorkersAreWatched: what a worker uses while another works is counted,
// and in a group each has its share. How soon one that spins has used so much is
// the machine's affair.
func TestIdleWorkersAreWatched(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the system does not tell what a process uses")
	}
	var ws []*worker
	for range 2 {
		w, err := start(t.Context(), fakeRunner("spins", "spins", 0), "")
		if err != nil {
			t.Fatal(err)
		}
		defer w.close()
		ws = append(ws, w)
	}
	const used = 30 * time.Millisecond
	idle, busy := ws[0], ws[1]
	done := watch(ws, busy)
	for began := idle.cpu(); idle.cpu() < began+used; time.Sleep(time.Millisecond) {
	}
	done()
	if idle.idle < used || idle.watched <= 0 || busy.idle != 0 || busy.watched != 0 {
		t.Errorf("one that spins used %v in %v, and who works %v in %v", idle.idle, idle.watched, busy.idle, busy.watched)
	}
	got := measureFakes(t, embed(1, 4, 1), 0.99, "slow", "silent")
	if len(got.Idle) != 2 || got.Idle[0].Runner != "lead" || got.Idle[1].Runner != "slow" {
		t.Errorf("idle shares %+v, expected those of lead and slow", got.Idle)
	}
}

func TestCancelEndsMeasure(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	began := time.Now()
	_, err := bench{rounds: 1000}.measure(ctx, Group{Name: "g", Works: []Work{embed(1, 4, 1)}, Inputs: inputs{Model: testmodels.Dir(t, "bert")}, Runners: []Runner{fakeRunner("a", "", 0)}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after %v, expected %v", err, time.Since(began), context.Canceled)
	}
}

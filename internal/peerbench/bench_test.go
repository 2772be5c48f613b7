package main

import (
	"context"
	"errors"
	"math"
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

func TestIdleWorkersAreWatched(t *testing.T) {
	// "spins" is watched while the other one takes its time.
	g := Group{
		Name: "g", Lead: "lead", Works: []Work{embed(1, 4, 1)}, Inputs: inputs{Model: testmodels.Dir(t, "bert")},
		Runners: []Runner{fakeRunner("lead", "spins", 0), fakeRunner("other", "spins", 0)},
	}
	// On a machine that has no time for them they cannot spin: it looks again.
	var got *Result
	for range 10 {
		var err error
		if got, err = (bench{rounds: 4}).measure(context.Background(), g); err != nil {
			t.Fatal(err)
		}
		if len(got.restless()) == 2 {
			return
		}
	}
	t.Errorf("idle shares %+v, expected both above %v", got.Idle, idleLimit)
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

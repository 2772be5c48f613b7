package train

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// A step whose update breaks the weights has a finite loss: nothing but its
// checkpoint would show it.
func TestBrokenWeightsAreNotSaved(t *testing.T) {
	for name, change := range map[string]func(c *Config){
		"rate":  func(c *Config) { c.LR = 3e38 },
		"decay": func(c *Config) { c.LR, c.WeightDecay = 1e30, 1e30 },
	} {
		t.Run(name, func(t *testing.T) {
			be := cpuBackend(t, 1)
			sane := fixture(t, "llama")
			sane.Steps, sane.Warmup, sane.Schedule, sane.CheckpointEvery = 6, 0, "constant", 1
			var whole, parts losses
			_, err := Run(t.Context(), sane, Options{Backend: be, OnStep: whole.add})
			must(t, err)

			sane.Out, sane.Steps = t.TempDir(), 3
			_, err = Run(t.Context(), sane, Options{Backend: be, OnStep: parts.add})
			must(t, err)
			sane.Steps = 4
			wild := sane
			change(&wild)
			res, err := Run(t.Context(), wild, Options{Backend: be, Resume: "auto"})
			if !errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), "step 4: ") || !strings.Contains(err.Error(), "tensor \"") ||
				!strings.Contains(err.Error(), "the checkpoint of step 3 is finite") {
				t.Errorf("error %v, expected ErrDiverged, step 4, a tensor and the checkpoint of step 3", err)
			}
			if res != nil && res.Checkpoint != "" {
				t.Errorf("checkpoint %s of a model that is broken", res.Checkpoint)
			}
			steps, err := checkpoints(sane.Out)
			must(t, err)
			if !slices.Equal(steps, []int{2, 3}) {
				t.Errorf("checkpoints of steps %v, expected 2 and 3", steps)
			}
			if entries, _ := os.ReadDir(sane.Out); len(entries) != 5 { // with three logs
				t.Errorf("left behind: %v", entries)
			}
			// It goes on as if nothing had happened.
			sane.Steps = 6
			_, err = Run(t.Context(), sane, Options{Backend: be, Resume: "auto", OnStep: parts.add})
			must(t, err)
			for _, s := range [][]Step{whole, parts} {
				for i := range s {
					s[i].Steps = 0
				}
			}
			if !slices.Equal(whole, parts) {
				t.Errorf("steps of a whole run and of a resumed one differ:\n%v\n%v", whole, parts)
			}
		})
	}
}

// Without a checkpoint before it a run leaves none, and says so.
func TestDivergenceLeavesNoCheckpoint(t *testing.T) {
	c := fixture(t, "llama")
	c.LR, c.Warmup, c.Steps = 3e38, 0, 1
	res, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1)})
	if !errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), "after step 1: tensor ") || !strings.Contains(err.Error(), "no checkpoint") {
		t.Errorf("error %v", err)
	}
	if steps, _ := checkpoints(c.Out); len(steps) > 0 || res.Checkpoint != "" {
		t.Errorf("checkpoints of steps %v", steps)
	}
	// A cancelled run does not save what is broken either: the loss shows it
	// one step later.
	c.Out, c.Steps = t.TempDir(), 5
	stop := errors.New("enough")
	_, err = Run(t.Context(), c, Options{Backend: cpuBackend(t, 1), OnStep: func(Step) error { return stop }})
	if steps, _ := checkpoints(c.Out); !errors.Is(err, stop) || !errors.Is(err, ErrDiverged) || len(steps) > 0 {
		t.Errorf("error %v, checkpoints of steps %v", err, steps)
	}
}

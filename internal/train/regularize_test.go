package train

import (
	"context"
	"slices"
	"testing"
)

// Dropout gives the same bits at any number of workers and after a resume,
// others with another seed, and steps drop other elements.
func TestDropoutIsReproducible(t *testing.T) {
	c := fixture(t, "gpt2")
	c.Dropout, c.LabelSmoothing, c.MicroTokens = 0.3, 0.1, 48
	run := func(workers int, change func(c *Config)) losses {
		t.Helper()
		c := c
		c.Out = t.TempDir()
		if change != nil {
			change(&c)
		}
		var seen losses
		_, err := Run(context.Background(), c, Options{Backend: cpuBackend(t, workers), OnStep: seen.add})
		must(t, err)
		return seen
	}
	whole := run(1, nil)
	for _, workers := range []int{2, 4} {
		if got := run(workers, nil); !slices.Equal(got, whole) {
			t.Errorf("%d workers: %v\n1 worker: %v", workers, got, whole)
		}
	}
	if got := run(1, func(c *Config) { c.Dropout = 0 }); got[0].Loss == whole[0].Loss {
		t.Error("dropout changes nothing")
	}
	if got := run(1, func(c *Config) { c.LabelSmoothing = 0 }); got[0].Loss == whole[0].Loss {
		t.Error("label smoothing changes nothing")
	}
	// With a rate of nothing the weights stay, and equal batches differ by their
	// dropout only.
	tiny := func(c *Config) { c.LR, c.BatchTokens, c.SeqLen, c.MicroTokens, c.Warmup = 1e-30, 4096, 240, 0, 0 }
	if got := run(1, tiny); got[0].Loss == got[1].Loss {
		t.Errorf("steps 1 and 2 of the same batch have the same loss %g: they dropped the same elements", got[0].Loss)
	}
	c2 := c
	c2.Out, c2.Steps, c2.CheckpointEvery, c2.Warmup, c2.Schedule = t.TempDir(), 4, 4, 0, "constant"
	var parts losses
	_, err := Run(context.Background(), c2, Options{Backend: cpuBackend(t, 2), OnStep: parts.add})
	must(t, err)
	c2.Steps = 10
	_, err = Run(context.Background(), c2, Options{Backend: cpuBackend(t, 2), Resume: "auto", OnStep: parts.add})
	must(t, err)
	want := run(1, func(c *Config) { c.Warmup, c.Schedule = 0, "constant" })
	for i := range parts {
		parts[i].Steps, want[i].Steps = 0, 0
	}
	if !slices.Equal(parts, want) {
		t.Errorf("steps of a whole run and of a resumed one differ:\n%v\n%v", want, parts)
	}
}

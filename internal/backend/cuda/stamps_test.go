package cuda

import (
	"slices"
	"testing"

	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
)

// A profiled run replays the launches of any other run, recorded beside them: kernels
// that begin a step write the card's clock, and the lane of the stream has every step
// behind the one before it.
func TestProfiledRunsKeepTheirLaunches(t *testing.T) {
	f := newFake()
	be, s, err := session(t, f)
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	defer s.Close()
	lists := len(f.lists)
	run := func() {
		if err := s.Run(t.Context(), tensor.Bind{T: 3, S: 1, R: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if run(); len(f.stamped) > 0 {
		t.Errorf("kernels %v wrote stamps in a run without a profile", f.stamped)
	}
	rec := profile.NewRecorder(profile.Options{})
	if err := s.Attach(rec, plan.ProfileLabels{}); err != nil {
		t.Fatal(err)
	}
	const runs = 3
	for range runs {
		run()
	}
	if len(f.lists) != lists {
		t.Errorf("%d lists of launches, expected %d: a profile needs none of its own", len(f.lists), lists)
	}
	want := []string{"act", "inputs", "outputs"}
	var steps []string
	for _, p := range rec.Snapshot().Plans {
		for i, step := range p.Steps {
			if got := p.Stats[i]; !step.Host && got.Calls > 0 {
				steps = append(steps, step.Name)
				if got.Calls != runs || got.Self <= 0 {
					t.Errorf("step %s has %d calls of %d ns by the card's clock, expected %d calls", step.Name, got.Calls, got.Self, runs)
				}
			}
		}
	}
	slices.Sort(steps)
	if !slices.Equal(steps, want) || len(f.stamped) != len(want)-1 { // inputs learn whether to write by themselves
		t.Errorf("steps %v and stamps of %v, expected steps %v", steps, f.stamped, want)
	}
}

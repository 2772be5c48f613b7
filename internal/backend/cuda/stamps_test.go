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

// Halves of stamps become whole ones across the clock's 32nd bit, out of order by a
// little, and without a kernel in between.
func TestStampsAreCompleted(t *testing.T) {
	const ms = 1_000_000
	end := int64(7<<32 + 5*ms)
	want := []int64{end - 3900*ms, end - 9*ms, end - 5*ms - 1, end - 5*ms + 31, end - 5*ms, end - 5*ms, end - ms, end}
	begins := []int{1, 2, 3, 4, 4, 5} // the fourth of five steps has no kernel
	got := slices.Clone(want)
	for i := range got[:len(got)-1] {
		got[i] = int64(uint32(got[i])) | 3<<32
	}
	got[4] = 12345 // nobody wrote it
	wholeStamps(got, begins)
	if !slices.Equal(got, want) {
		t.Errorf("%d, expected %d", got, want)
	}
}

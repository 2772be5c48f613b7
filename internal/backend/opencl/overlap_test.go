package opencl

import (
	"context"
	"errors"
	"slices"
	"testing"

	"hotpath/internal/backend/device"
	"hotpath/internal/plan"
	"hotpath/profile"
)

// Copies of a run overlap with the kernels of the run before it, on the device and in
// the trace, and nothing waits between two runs.
func TestCopiesOverlapKernels(t *testing.T) {
	f := newFake()
	be, err := newBackend(Options{}, f)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sessionWith(t, be, plan.BindOptions{Slots: 2})
	if err != nil {
		t.Fatal(err)
	}
	rec := profile.NewRecorder(profile.Options{})
	if err := s.Attach(rec, plan.ProfileLabels{}); err != nil {
		t.Fatal(err)
	}
	f.ran, f.waits = nil, 0
	for i := range 2 {
		if err := s.Slot(i).Enqueue(context.Background(), three); err != nil {
			t.Fatal(err)
		}
	}
	if f.waits != 0 {
		t.Errorf("%d waits while two runs were enqueued, expected none", f.waits)
	}
	of := func(q queue) (out []command) {
		for _, c := range f.ran {
			if c.on == q {
				out = append(out, c)
			}
		}
		return out
	}
	launched, in, out := of(kernels), of(toDevice), of(fromDevice)
	if len(launched) != 2 || len(in) != 4 || len(out) != 2 {
		t.Fatalf("%d launches, %d copies to the device and %d from it, expected 2, 4 and 2", len(launched), len(in), len(out))
	}
	if in[2].begin >= launched[0].end {
		t.Errorf("inputs of the second run travel at %d, kernels of the first run end at %d", in[2].begin, launched[0].end)
	}
	if launched[0].begin < in[1].end || out[0].begin < launched[0].end {
		t.Errorf("inputs %v, kernels %v, outputs %v: a run is not in order", in, launched, out)
	}
	if out[0].begin >= launched[1].end {
		t.Errorf("outputs of the first run travel at %d, kernels of the second run end at %d", out[0].begin, launched[1].end)
	}
	for i := range 2 {
		if err := s.Slot(i).Wait(); err != nil {
			t.Fatal(err)
		}
	}
	traced(t, rec)
	if err := errors.Join(s.Close(), be.Close()); err != nil || len(f.events) != 0 {
		t.Errorf("%d events are left: %v", len(f.events), err)
	}
}

// traced holds the lanes of the trace to what the device did.
func traced(t *testing.T, rec *profile.Recorder) {
	t.Helper()
	snap := rec.Snapshot()
	for at, p := range snap.Plans {
		if p.Ledger.Runs == 0 {
			continue
		}
		var runs []profile.RawRun
		for _, r := range snap.Runs {
			if r.Plan == at {
				runs = append(runs, r)
			}
		}
		if want := []string{"host", "queue", "to device", "from device"}; !slices.Equal(p.Lanes, want) {
			t.Fatalf("lanes %v, expected %v", p.Lanes, want)
		}
		if len(runs) != 2 {
			t.Fatalf("%d runs in the trace, expected 2", len(runs))
		}
		n := len(p.Steps) - 4
		first, second := runs[0], runs[1]
		if in, kernel := second.Lanes[laneIn].Begin[n+device.StepIn], first.Lanes[laneQueue].End[0]; in == 0 || in >= kernel {
			t.Errorf("in the trace, inputs of the second run travel at %d, kernels of the first run end at %d", in, kernel)
		}
		for _, r := range runs {
			if in, out := r.Bytes[n+device.StepIn], r.Bytes[n+device.StepOut]; in != 3*8*4 || out != 3*4*4 {
				t.Errorf("%d bytes to the device and %d from it, expected %d and %d", in, out, 3*8*4, 3*4*4)
			}
		}
		for _, l := range p.ByLane {
			if l.Lane != "host" && l.Residual != 0 {
				t.Errorf("lane %s: %d ns are left over: %+v", l.Lane, l.Residual, l.Ledger)
			}
		}
		return
	}
	t.Error("no run is in the trace")
}

// A run that fails while another is in flight fails alone, and nothing is left of it.
func TestRunThatFailsBesideAnother(t *testing.T) {
	f := newFake()
	be, err := newBackend(Options{}, f)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sessionWith(t, be, plan.BindOptions{Slots: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		first, second := s.Slot(i%2), s.Slot(1-i%2)
		if err := errors.Join(first.Enqueue(context.Background(), three), second.Enqueue(context.Background(), three)); err != nil {
			t.Fatal(err)
		}
		f.failWait = failure("clWaitForEvents", -9999)
		if err := first.Wait(); !errors.Is(err, ErrDevice) {
			t.Errorf("%v, expected an error of the device", err)
		}
		if err := second.Wait(); err != nil {
			t.Errorf("the run beside it: %v", err)
		}
	}
	if err := errors.Join(s.Close(), be.Close()); err != nil || len(f.events) != 0 || len(f.buffers) != 0 {
		t.Errorf("%d events and %d buffers are left: %v", len(f.events), len(f.buffers), err)
	}
}

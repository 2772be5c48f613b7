package cuda

import (
	"math"
	"strings"
	"testing"

	"hotpath/internal/plan"
	"hotpath/internal/tensor"
	"hotpath/profile"
	"hotpath/profile/report"
)

// The ledger of profiled runs closes: on the lanes of host and card under 2 per cent of
// the time is left over. Launch and sync are steps of the host; inputs and outputs have
// the bytes that crossed. After the first runs the driver is not asked for memory.
func TestLedgerOfProfiledRuns(t *testing.T) {
	f := newFake()
	be, s, err := session(t, f)
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	defer s.Close()
	rec := profile.NewRecorder(profile.Options{})
	if err := s.Attach(rec, plan.ProfileLabels{}); err != nil {
		t.Fatal(err)
	}
	if err := rec.SetCeilings("cuda", profile.Ceilings{FLOPs: 1e12, Bytes: 1e12}); err != nil {
		t.Fatal(err)
	}
	const runs = 20
	var to, from int64
	for range runs {
		if err := s.Run(t.Context(), tensor.Bind{T: 3, S: 1, R: 1}); err != nil {
			t.Fatal(err)
		}
		to, from = to+f.carried[0], from+f.carried[1]
	}
	p := rec.Snapshot()
	seen := map[string]bool{}
	for i := range p.Plans {
		s := &p.Plans[i]
		if s.Ledger.Runs == 0 {
			continue
		}
		if len(s.ByLane) != 2 || s.HostLanes != 1 {
			t.Errorf("lanes %v with %d of the host, expected host and stream", s.Lanes, s.HostLanes)
		}
		for _, l := range s.ByLane {
			if share := math.Abs(l.ResidualPercent()); l.Runs != runs || !(share < 2) {
				t.Errorf("lane %s: %.2f per cent of its time in %d runs is left over: %+v", l.Lane, share, l.Runs, l.Ledger)
			}
		}
		for k := range s.Steps {
			step, st := &s.Steps[k], &s.Stats[k]
			if step.Op != profile.TransferOp {
				continue
			}
			seen[step.Name] = true
			want := map[string]int64{"inputs": to, "outputs": from}[step.Name]
			if host := step.Name == "launch" || step.Name == "sync"; step.Host != host || st.Calls != runs || st.Bytes != want || st.Lost != 0 {
				t.Errorf("step %s: host %t, %d calls, %d bytes, lost %d, expected host %t, %d calls and %d bytes", step.Name, step.Host, st.Calls, st.Bytes, st.Lost, host, runs, want)
			}
		}
	}
	if len(seen) != 4 || to == 0 || from == 0 {
		t.Errorf("steps %v carry %v bytes, expected inputs, outputs, launch and sync", seen, [2]int64{to, from})
	}
	if len(p.Devices) != 1 || p.Devices[0].Since != runs-1 || p.Devices[0].Allocations != int64(f.allocs) || p.Devices[0].ByClass["weights"] <= 0 {
		t.Errorf("%+v, expected %d allocations, none of them in the last %d runs", p.Devices, f.allocs, runs-1)
	}
	var text strings.Builder
	if err := report.Text(&text, p, report.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"bytes to device", "bytes from device", "launch us", "sync us", "DEVICE MEMORY"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report has no %q:\n%s", want, &text)
		}
	}
}

// Counts of the pool add up, and are 0 when everything was given back.
func TestMemoryCounts(t *testing.T) {
	f := newFake()
	be, s, err := session(t, f)
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	c := be.MemoryCounts()
	var sum int64
	for _, n := range c.ByClass {
		sum += n
	}
	if c.Allocations != f.allocs || c.Held != f.used || c.Used != sum || c.Used > c.Held || c.ByClass["weights"] <= 0 || c.ByClass["io"] <= 0 || c.ByClass["plans"] <= 0 {
		t.Errorf("%+v with %d bytes of the driver in %d allocations", c, f.used, f.allocs)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if c := be.MemoryCounts(); c.Used != 0 || len(c.ByClass) != 0 || c.Held != f.used || c.Allocations != f.allocs {
		t.Errorf("%+v after the session is closed, expected nothing in use", c)
	}
}

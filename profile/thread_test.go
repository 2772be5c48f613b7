package profile

import (
	"errors"
	"testing"
)

// fakeThread replaces the thread's clock until the test ends.
func fakeThread(t *testing.T) (id *int32, cpu *int64) {
	id, cpu = new(int32), new(int64)
	*id = 1 << 30 // no thread of this machine
	thread, threadID, threadTime := readThread, readThreadID, readThreadTime
	readThread, readThreadID, readThreadTime = func() uint64 { return uint64(*id) }, func() int32 { return *id }, func() int64 { return *cpu }
	lanes := counter.lanes.Swap(false)
	t.Cleanup(func() {
		readThread, readThreadID, readThreadTime = thread, threadID, threadTime
		counter.lanes.Store(lanes)
	})
	return id, cpu
}

// A lane's time is split by its thread's clock; parked time is nobody's, and time
// that begins on one thread and ends on another is not known.
func TestLaneClock(t *testing.T) {
	id, cpu := fakeThread(t)
	times := make([]LaneTime, 1)
	slots := &LaneSlots{Time: &times[0]}
	var c LaneClock
	c.In()
	began := c.wall
	c.wall -= 1000 // it ran for 1000 ns
	*cpu += 600
	left := Now()
	c.Out()
	most := Now() - c.wall
	*cpu += 5000 // the thread does something else while the lane is parked
	ran := c.off + 600
	if c.blind != 0 || ran < left-c.wall || ran > most || c.wall != began-1000 {
		t.Errorf("600 of %d to %d ns on a processor: off it %d, not known %d", left-c.wall, most, c.off, c.blind)
	}
	c.In()
	c.wall -= 1000
	*id++
	c.Out()
	if c.blind < 1000 || c.off != ran-600 {
		t.Errorf("on another thread: %d ns not known, %d without a processor, expected %d", c.blind, c.off, ran-600)
	}
	c.Leave(slots)
	if slots.Time.off.Load() != ran-600 || slots.Time.blind.Load() != c.blind {
		t.Errorf("the plan's lane has %d and %d", slots.Time.off.Load(), slots.Time.blind.Load())
	}
	*id = 0 // the system does not say
	var none LaneClock
	none.In()
	none.Leave(slots)
	if none.off+none.blind != 0 || slots.Time.off.Load() != ran-600 || slots.Time.blind.Load() != c.blind {
		t.Error("time of a lane whose thread is not known was counted")
	}
}

// Time without a processor is placed in the steps that lost it: those that are
// marked, or else those that took much longer than usual.
func TestOffCPUIsPlaced(t *testing.T) {
	const usual, lost = 10_000, 3_000_000
	for _, exact := range []bool{true, false} {
		rec := NewRecorder(Options{})
		h := mustPlan(t, rec, Plan{ID: "p", Lanes: []string{"a"}, Steps: []Step{{ID: 0, Name: "x"}, {ID: 1, Name: "y"}, {ID: 2, Name: "z"}}})
		for i := range 100 {
			r := h.Acquire()
			l := &r.Lanes[0]
			r.Start = 1 + int64(i)*10_000_000
			at := r.Start
			var c LaneClock
			l.Enter(at, &c)
			l.exact = exact
			for s := range l.Steps {
				took := int64(usual)
				switch {
				case i%10 == 9 && s == 1:
					took += lost
					l.Mark(s, lost)
					l.Time.off.Add(lost)
				case i%10 == 5 && s == 2: // a little longer, with its processor
					took += usual / 3
				}
				l.Steps[s].Arrive, l.Steps[s].Begin, l.Steps[s].End = at, at, at+took
				at += took
			}
			l.Done, r.End, r.Tokens = at, at, 1
			if err := h.Release(r); err != nil {
				t.Fatal(err)
			}
		}
		p := rec.Snapshot()
		if err := rec.Err(); err != nil {
			t.Fatal(err)
		}
		st, l := p.Plans[0].Stats, p.Plans[0].Ledger
		if st[0].OffCPU != 0 || st[2].OffCPU != 0 || st[1].OffCPU < 10*lost*99/100 || st[1].OffCPU > 10*lost {
			t.Errorf("exact %t: steps have %d, %d, %d ns without a processor, expected %d in the second", exact, st[0].OffCPU, st[1].OffCPU, st[2].OffCPU, 10*lost)
		}
		if l.OffCPU != 10*lost || l.OffCompute != st[1].OffCPU || p.Plans[0].ExactSwitches != exact {
			t.Errorf("exact %t: ledger %+v", exact, l)
		}
		samples := p.Samples(0).Steps
		for i := range 100 {
			want, marked := int64(usual), int64(usual)
			if i%10 == 9 {
				want += lost
			}
			if !exact {
				marked = want // a call that took long may be slow itself
			}
			if got := samples[1].OnCPU(i); samples[1].Compute[i] != want || got != marked {
				t.Errorf("exact %t: sample %d computed %d ns, %d on a processor, expected %d and %d", exact, i, samples[1].Compute[i], got, want, marked)
			}
		}
		if _, err := Read("p", encode(t, p)); err != nil {
			t.Error(err)
		}
	}
}

// A file may not claim less than nothing.
func TestOffCPUIsChecked(t *testing.T) {
	p := fixture(t)
	for name, spoil := range map[string]func(*Profile){
		"off_cpu_ns":     func(p *Profile) { p.Plans[0].Stats[0].OffCPU = -1 },
		"off_compute_ns": func(p *Profile) { p.Plans[0].Ledger.OffCompute = -1 },
		"blind_ns":       func(p *Profile) { p.Plans[0].ByLane[0].Blind = -1 },
		"processor":      func(p *Profile) { p.Processor = &ProcessorStats{User: -1} },
	} {
		bad := *p
		bad.Plans = append([]PlanStats(nil), p.Plans...)
		bad.Plans[0].Stats = append([]StepStats(nil), p.Plans[0].Stats...)
		bad.Plans[0].ByLane = append([]LaneLedger(nil), p.Plans[0].ByLane...)
		spoil(&bad)
		if _, err := Read("p", encode(t, &bad)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s below 0: %v", name, err)
		}
	}
}

package cpu

import (
	"testing"

	"hotpath/internal/tensor"
)

// fakeTimer is a machine on which each reading of a clock and each wait takes its time.
type fakeTimer struct {
	time                  int64
	nowTakes, lookTakes   int64
	inTakes, coldTakes    int64
	warmTakes, warm, cold int64 // time of a wait on tiles; how many of each kind
	off                   int64 // lost since the last look
}

func (f *fakeTimer) now() int64 {
	f.time += f.nowTakes
	return f.time - f.nowTakes
}

func (f *fakeTimer) in() { f.time += f.inTakes }

func (f *fakeTimer) look() (now, off int64) {
	f.time += f.lookTakes
	off, f.off = f.off, 0
	return f.time - f.lookTakes, off
}

func (f *fakeTimer) wait(warm bool) {
	if warm {
		f.warm++
		f.time += f.warmTakes
	} else {
		f.cold++
		f.time += f.coldTakes
	}
}

// lose takes the processor from the lane for some time.
func (f *fakeTimer) lose(ns int64) { f.time, f.off = f.time+ns, f.off+ns }

// workKernel is a kernel whose shares take work, and lose their processor for lost.
type workKernel struct {
	timer      *fakeTimer
	work, lost int64
}

func (workKernel) name() string               { return "work" }
func (workKernel) width(tensor.Bind, int) int { return 1 }
func (k workKernel) runShare(*worker, tensor.Bind, int, int) {
	k.timer.time += k.work
	k.timer.lose(k.lost)
}

// slowed returns a slowed kernel of one lane on a machine with slow clocks, and the
// machine.
func slowed(more float64, warm bool, work, lost int64) (*slowKernel, *fakeTimer) {
	f := &fakeTimer{nowTakes: 30, lookTakes: 40, inTakes: 700, coldTakes: 45, warmTakes: 110}
	k := workKernel{f, work, lost}
	return &slowKernel{kernel: k, more: more, every: 1, warm: warm, lanes: []slowLane{{timer: f}}}, f
}

// Slowed shares take as much longer together as was asked for: reading clocks, which takes
// a good part of a short share, is part of the wait. So is by how much a wait ends late.
// Time without a processor is not work, and is not slowed.
func TestDelayIsWhatItSays(t *testing.T) {
	const shares = 50
	for _, c := range []struct {
		more       float64
		rows       int
		warm       bool
		work, lost int64
	}{
		{0.3, 64, false, 4000, 0},
		{1, 64, false, 4000, 0},
		{0.3, 64, true, 4000, 0},
		{1, 64, true, 4000, 0},
		{1, 1, true, 4000, 0}, // a run of a few rows hardly uses tiles
		{1, 64, false, 4000, 9000},
		{5, 64, true, 900, 0},
	} {
		s, f := slowed(c.more, c.warm, c.work, c.lost)
		var w worker
		for range shares {
			s.runShare(&w, tensor.Bind{T: c.rows}, 0, 1)
		}
		want := shares * (c.work + c.lost + int64(c.more*float64(c.work)))
		// No clock sees what is left of a reading behind its moment: of the last one, and
		// of the one before the work, which is slowed with the work. The last wait ends late.
		unseen := f.lookTakes + int64((1+c.more)*float64(f.nowTakes))
		least, most := want, want+shares*unseen+f.warmTakes+f.lookTakes
		if f.time < least || f.time > most {
			t.Errorf("%+v: %d shares took %d ns, expected %d to %d", c, shares, f.time, least, most)
		}
		if warm := c.warm && c.rows > 1; warm != (f.warm > 0) || warm == (f.cold > 0) {
			t.Errorf("%+v: %d waits on tiles and %d others", c, f.warm, f.cold)
		}
	}
}

// A processor that is lost while a share waits makes the wait longer.
func TestDelayWaitsOnProcessor(t *testing.T) {
	s, f := slowed(1, false, 4000, 0)
	l := &losing{fakeTimer: f, at: 3, ns: 5000}
	s.lanes[0].timer = l
	var w worker
	s.runShare(&w, tensor.Bind{T: 64}, 0, 1)
	if want := int64(2*4000 + 5000); f.time < want || f.time > want+200 {
		t.Errorf("a share took %d ns, expected %d and at most 200 more", f.time, want)
	}
}

// losing loses its processor in one of its waits.
type losing struct {
	*fakeTimer
	at, ns int64
}

func (l *losing) wait(warm bool) {
	if l.at--; l.at == 0 {
		l.lose(l.ns)
	}
	l.fakeTimer.wait(warm)
}

// Clocks take longer than the wait of a step that is hardly slowed. What that adds up to
// does not cancel later delays.
func TestDelayForgetsDebt(t *testing.T) {
	s, _ := slowed(1e-6, false, 100, 0)
	var w worker
	for range 1000 {
		s.runShare(&w, tensor.Bind{}, 0, 1)
	}
	if debt := s.lanes[0].debt; debt < 1000 || debt > 3000 {
		t.Errorf("1000 shares of 100 ns leave a debt of %d ns, expected some microseconds", debt)
	}
}

package cpu

import (
	"hotpath/internal/kernel/ceiling"
	"hotpath/profile"
)

// timer tells a lane the time and lets some pass: of this machine, or of a test.
type timer interface {
	now() int64
	// in begins the time of which look reports the lost part.
	in()
	// look returns the time, and for how much of the time since the last look the lane
	// had no processor.
	look() (now, off int64)
	// wait waits for some 100 ns, on tiles if they are to be warm.
	wait(warm bool)
}

// laneTimer is the timer of this machine for one lane.
type laneTimer struct {
	clock profile.LaneClock
	_     [128]byte // two lanes never share a pair of cache lines
}

func (t *laneTimer) now() int64 { return profile.Now() }

func (t *laneTimer) in() { t.clock.In() }

func (t *laneTimer) look() (now, off int64) {
	now, kept := t.clock.Look()
	if kept {
		return now, 0
	}
	off, _ = t.clock.Lost()
	return profile.Now(), max(0, off)
}

func (t *laneTimer) wait(warm bool) {
	if warm {
		ceiling.WarmTiles()
	}
	pause()
}

package profile

import (
	"math"
	"sync"
	"testing"
	"time"
)

// TestNowKeepsTime: the calibrated counter agrees with the system's clock and
// never goes back, on any thread.
func TestNowKeepsTime(t *testing.T) {
	calibrate()
	if !counter.trusted.Load() {
		t.Log("the processor's counter is not in use here")
	}
	s0, n0 := system(), Now()
	time.Sleep(60 * time.Millisecond)
	s1, n1 := system(), Now()
	if drift := math.Abs(float64((n1-n0)-(s1-s0))) / float64(s1-s0); drift > 1e-3 {
		t.Errorf("%.5f of the time is lost or won", drift)
	}
	var threads sync.WaitGroup
	for range 4 {
		threads.Go(func() {
			last := Now()
			for range 200000 {
				now := Now()
				if now < last {
					t.Errorf("went back from %d to %d", last, now)
					return
				}
				last = now
			}
		})
	}
	threads.Wait()
}

// TestNowBeforeCalibration: a reading from before another goroutine calibrated the counter
// is no time; the system's clock is asked then.
func TestNowBeforeCalibration(t *testing.T) {
	calibrate()
	if !counter.trusted.Load() {
		t.Skip("the processor's counter is not in use here")
	}
	at := counter.at
	counter.at += 1 << 50
	now, want := Now(), system()
	counter.at = at
	if now > want || want-now > int64(time.Minute) {
		t.Errorf("%d, the system's clock says %d", now, want)
	}
}

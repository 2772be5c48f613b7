package bf16

import (
	"runtime"
	"slices"
	"testing"
	"time"
)

type benchWay = struct {
	name string
	run  func()
}

// turns runs ways in turn, b.N times for about a millisecond each, and reports
// the cycles that each takes per unit.
func turns(b *testing.B, units float64, ways []benchWay) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	took := make([][]float64, len(ways))
	cycle := 1e9
	for range b.N {
		for i, w := range ways {
			t0 := time.Now()
			sink += spin(20000)
			cycle = min(cycle, float64(time.Since(t0))/60000)
			w.run()
			for range 4 {
				t0 = time.Now()
				w.run()
				took[i] = append(took[i], float64(time.Since(t0))/units)
			}
		}
	}
	b.ReportMetric(1/cycle, "GHz")
	for i, w := range ways {
		slices.Sort(took[i])
		b.ReportMetric(took[i][0]/cycle, w.name+"-min")
		b.ReportMetric(took[i][len(took[i])/2]/cycle, w.name)
	}
}

package cpu

import (
	"slices"
	"testing"

	"hotpath/internal/tensor"
	"hotpath/profile"
)

// burning is a kernel that takes some time.
type burning struct{ ns int64 }

func (burning) name() string               { return "burning" }
func (burning) width(tensor.Bind, int) int { return 1 }
func (k burning) runShare(*worker, tensor.Bind, int, int) {
	for end := profile.Now() + k.ns; profile.Now() < end; {
	}
}

// A slowed share takes as much longer as was asked for: reading clocks, which takes a
// good part of a short share, is part of the wait, but for some 50 ns that they do not see.
func TestDelayIsWhatItSays(t *testing.T) {
	if testing.Short() {
		t.Skip("short runs are those of the race detector, in which clocks take longer")
	}
	profile.NewRecorder(profile.Options{}) // calibrates the clock
	const share, shares, blocks = 4000, 50, 40
	for _, warm := range []bool{false, true} {
		for _, factor := range []float64{1.1, 1.3, 2} {
			plain := burning{share}
			slow := &slowKernel{kernel: plain, more: factor - 1, every: 1, warm: warm, lanes: make([]slowLane, 1)}
			var w worker
			b := tensor.Bind{T: 64}
			block := func(k kernel) int64 {
				start := profile.Now()
				for range shares {
					k.runShare(&w, b, 0, 1)
				}
				return profile.Now() - start
			}
			const least, most = -0.02, 0.03
			// Another program may hold up some blocks, but not most of every try.
			for try := 1; ; try++ {
				var took [2][]int64
				for range blocks {
					took[0], took[1] = append(took[0], block(plain)), append(took[1], block(slow))
				}
				slices.Sort(took[0])
				slices.Sort(took[1])
				ratio := float64(took[1][blocks/2]) / float64(took[0][blocks/2])
				if ratio > factor+least && ratio < factor+most {
					break
				}
				t.Logf("warm %v: %.3f times as long, expected %.3f", warm, ratio, factor)
				if try == 40 {
					t.Errorf("warm %v: none of %d tries took %.3f times as long", warm, try, factor)
					break
				}
			}
		}
	}
}

// Clocks take longer than the wait of a step that is hardly slowed. What that adds up to
// does not cancel later delays.
func TestDelayForgetsDebt(t *testing.T) {
	var w worker
	slow := &slowKernel{kernel: burning{100}, more: 1e-6, every: 1, lanes: make([]slowLane, 1)}
	for range 1000 {
		slow.runShare(&w, tensor.Bind{}, 0, 1)
	}
	if debt := slow.lanes[0].debt; debt != mostDebt {
		t.Errorf("1000 shares of 100 ns leave a debt of %d ns, expected %d", debt, mostDebt)
	}
}

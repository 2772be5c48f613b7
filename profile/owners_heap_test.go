package profile

import "testing"

// Free memory and garbage have no more than objects in use leave them: a large slice that
// was never written is counted by the runtime, and is not resident.
func TestUntouchedGarbageTakesNothingFromObjects(t *testing.T) {
	for _, c := range []struct{ room, free, garbage, wantFree, wantGarbage int64 }{
		{100, 30, 50, 30, 50},
		{80, 30, 50, 30, 50},
		{40, 30, 50, 15, 25},
		{0, 30, 50, 0, 0},
		{-20, 30, 50, 0, 0},
		{-20, 0, 0, 0, 0},
	} {
		if free, garbage := touchedOf(c.room, c.free, c.garbage); free != c.wantFree || garbage != c.wantGarbage {
			t.Errorf("of %d free and %d garbage in %d bytes: %d and %d, expected %d and %d", c.free, c.garbage, c.room, free, garbage, c.wantFree, c.wantGarbage)
		}
	}
}

package cuda

import "testing"

// All blocks that look for the largest logits run at once, and a thread of few rows
// takes one turn.
func TestSampleParts(t *testing.T) {
	const units = 132
	for _, c := range []struct{ rows, cols, parts int }{
		{1, 128256, 63}, {8, 128256, 63}, {10, 128256, 63}, {16, 128256, 41}, {64, 128256, 10}, {8, 32000, 16}, {1, 5, 1}, {2048, 128256, 1},
	} {
		parts := sampleParts(c.rows, c.cols, units)
		if parts != c.parts {
			t.Errorf("%d rows of %d logits: %d blocks per row, expected %d", c.rows, c.cols, parts, c.parts)
		}
		if parts > 1 && parts*c.rows > sampleWaves*units {
			t.Errorf("%d rows of %d logits: %d blocks", c.rows, c.cols, parts*c.rows)
		}
	}
}

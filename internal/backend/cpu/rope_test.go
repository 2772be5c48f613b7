package cpu

import (
	"slices"
	"testing"

	"hotpath/internal/graph"
)

// TestRopeTableFillsBlocks: a table has the sines of a position once that is asked
// for, and those of its block; nothing is computed for the rest. A worker does not
// wait for another that fills the block.
func TestRopeTableFillsBlocks(t *testing.T) {
	var ts ropeTables
	table := ts.get(graph.RopeAttr{HeadDim: 8, RotDim: 8, Base: 10000, Scale: 1, Magnitude: 2}, nil)
	filled := func() (n int) {
		for i := range table.blocks {
			if table.blocks[i].Load() == ropeFull {
				n++
			}
		}
		return n
	}
	if n := filled(); n != 0 {
		t.Errorf("%d blocks of a new table are filled, expected none", n)
	}
	want, sines := make([]float32, 4), make([]float32, 4)
	for _, pos := range []int{3, 70, 0, ropePositions - 1} {
		cos, sin, ok := table.at(pos)
		sincos(want, sines, table.freqs, pos, 2)
		if !ok || !slices.Equal(cos, want) || !slices.Equal(sin, sines) {
			t.Errorf("position %d: %v and %v, expected %v and %v", pos, cos, sin, want, sines)
		}
	}
	if n := filled(); n != 3 {
		t.Errorf("%d blocks are filled, expected 3", n)
	}
	table.blocks[5].Store(ropeBusy)
	if _, _, ok := table.at(5 * ropeBlock); ok {
		t.Error("a row of a block that another worker fills was taken")
	}
}

package cuda

import (
	"slices"
	"testing"
)

// Tiles of the shapes that models have: large ones where there is enough to fill the
// card, smaller ones or shared k where there is not.
func TestChooseTile(t *testing.T) {
	const units = 132
	for _, c := range []struct {
		rows, k int
		cols    []int
	}{
		{64, 2048, []int{2048, 512, 512}}, {64, 8192, []int{2048}}, {640, 768, []int{768}}, {4096, 384, []int{384, 384, 384}},
		{512, 8192, []int{2048}}, {512, 2048, []int{2048}}, {512, 2048, []int{2048, 512, 512}}, {4096, 1536, []int{384}}, {4096, 2048, []int{8192}}, {131072, 384, []int{1536}}, {17, 64, []int{8}},
	} {
		tile, splits := chooseTile(c.rows, c.k, units, c.cols, false, false)
		blocks := 0
		for _, n := range c.cols {
			blocks += (n + tile.cols - 1) / tile.cols * ((c.rows + tile.rows - 1) / tile.rows)
		}
		t.Logf("%d x %v x %d: %s, %d blocks x %d", c.rows, c.cols, c.k, tile.name("k_wg"), blocks, splits)
		if splits < 1 || splits > 8 || splits > 1 && (c.k+63)/64 < 2*splits {
			t.Errorf("%d rows: k of %d is shared by %d blocks", c.rows, c.k, splits)
		}
		if blocks > 2*units && splits > 1 {
			t.Errorf("%d rows: %d blocks share k though they fill the card", c.rows, blocks)
		}
		if splits > 2 && blocks*splits > tile.perUnit*units*7/8 {
			t.Errorf("%d rows: %d clusters of %d blocks do not run at the same time", c.rows, blocks, splits)
		}
		if tile.shared() > 227<<10/tile.perUnit {
			t.Errorf("%s: %d bytes of shared memory, too many for %d blocks per unit", tile.name("k_wg"), tile.shared(), tile.perUnit)
		}
	}
}

// What an H200 measured: 32 products of 512 x 2048 x 2048 took 363 us by 64 x 192, 384 by
// 64 x 64, 418 by 64 x 128, 564 by 128 x 192 and 699 by 128 x 256.
func TestFastestMeasuredTile(t *testing.T) {
	if tile, splits := chooseTile(512, 2048, 132, []int{2048}, false, false); tile.name("k_wg") != "k_wg_64_192_turns" || splits != 1 {
		t.Errorf("%s, %d blocks share k", tile.name("k_wg"), splits)
	}
}

// Kernels have names and shared memory that fit, and every tile is the best for some
// product of a model.
func TestTilesAreUsed(t *testing.T) {
	const units = 132
	used := map[string]bool{}
	for _, rows := range []int{17, 64, 256, 512, 1024, 4096, 16384, 32768} {
		for _, c := range []struct {
			k    int
			cols []int
			gate bool
			act  bool
		}{
			{384, []int{384, 384, 384}, false, false}, {384, []int{384}, false, false}, {384, []int{1536}, false, true}, {1536, []int{384}, false, false},
			{768, []int{768}, false, false}, {768, []int{3072}, false, true}, {3072, []int{768}, false, false}, {768, []int{1152}, true, true}, {1152, []int{768}, false, false},
			{2048, []int{2048, 512, 512}, false, false}, {2048, []int{8192}, true, true}, {8192, []int{2048}, false, false}, {2048, []int{2048}, false, false},
		} {
			tile, _ := chooseTile(rows, c.k, units, c.cols, c.gate, c.act)
			used[tile.name("k_wg")] = true
		}
	}
	for _, tile := range tiles {
		if !used[tile.name("k_wg")] {
			t.Errorf("%s is chosen for no product", tile.name("k_wg"))
		}
		if static := 2048; tile.shared()+static > 227<<10 {
			t.Errorf("%s: %d bytes of shared memory", tile.name("k_wg"), tile.shared())
		}
		if !slices.Contains(kernelNames, tile.name("k_wg")) {
			t.Errorf("no kernel %s", tile.name("k_wg"))
		}
	}
}

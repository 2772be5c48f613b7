package opencl

import "fmt"

// tile is how a product of many rows is cut: M x N results per group, EM x EN of
// them per work item, K columns of the operands in local memory at a time; K is 0
// where none lie there.
type tile struct{ M, N, K, EM, EN int }

// tiles are the candidates, from small to large.
var tiles = []tile{
	{8, 8, 8, 1, 1}, {16, 16, 16, 1, 1}, {32, 32, 16, 2, 2}, {64, 64, 16, 4, 4}, {64, 128, 16, 4, 8}, {128, 64, 16, 8, 4}, {128, 128, 16, 8, 8},
	{16, 16, 0, 4, 4}, {32, 32, 0, 4, 4},
}

func (t tile) String() string {
	if t.K == 0 {
		return fmt.Sprintf("%dx%d direct", t.M, t.N)
	}
	return fmt.Sprintf("%dx%d", t.M, t.N)
}

// items is the size of a group.
func (t tile) items() int { return t.M / t.EM * (t.N / t.EN) }

// local is how many bytes of local memory a group needs.
func (t tile) local() int64 { return 4 * int64(t.K) * int64(t.M+t.N+8) }

// fits reports whether a device has room for a group.
func (t tile) fits(d description) bool { return t.items() <= d.Items && t.local() <= d.Local }

// options are the names that the kernels are compiled with.
func (t tile) options() string {
	return fmt.Sprintf(" -DTILE_M=%d -DTILE_N=%d -DTILE_K=%d -DEACH_M=%d -DEACH_N=%d -DN(name)=name", t.M, t.N, t.K, t.EM, t.EN)
}

// units are the files of the kernels.
func (t tile) units() []unit {
	if t.K == 0 {
		return []unit{{file: "common.cl"}, {file: "direct.cl"}}
	}
	return []unit{{file: "common.cl"}, {file: "gemm.cl"}}
}

// usual is the largest tile with local memory of which a product of so many rows
// fills one: the choice without a measurement.
func usual(d description, rows int) tile {
	t := tiles[0]
	for _, c := range tiles {
		if c.K > 0 && c.fits(d) && (c.M <= 64 || c.M <= rows) {
			t = c
		}
	}
	return t
}

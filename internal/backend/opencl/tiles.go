package opencl

import "fmt"

// tile is how a product of many rows is cut: M x N results per group, EM x EN of
// them per work item, K columns of the operands in local memory at a time.
type tile struct{ M, N, K, EM, EN int }

// tiles are the candidates, from small to large.
var tiles = []tile{{8, 8, 8, 1, 1}, {16, 16, 16, 1, 1}, {32, 32, 16, 2, 2}, {64, 64, 16, 4, 4}, {128, 64, 16, 8, 4}, {128, 128, 16, 8, 8}}

func (t tile) String() string { return fmt.Sprintf("%dx%d", t.M, t.N) }

// items is the size of a group.
func (t tile) items() int { return t.M / t.EM * (t.N / t.EN) }

// local is how many bytes of local memory a group needs.
func (t tile) local() int64 { return 4 * int64(t.K) * int64(t.M+t.N+2) }

// options are the names that gemm.cl is compiled with.
func (t tile) options() string {
	return fmt.Sprintf(" -DTILE_M=%d -DTILE_N=%d -DTILE_K=%d -DEACH_M=%d -DEACH_N=%d -DN(name)=name", t.M, t.N, t.K, t.EM, t.EN)
}

var gemmUnits = []unit{{file: "common.cl"}, {file: "gemm.cl"}}

// fits reports whether a device has room for a group.
func (t tile) fits(d description) bool { return t.items() <= d.Items && t.local() <= d.Local }

// tile is the one that a product of so many rows, columns and inner columns is cut
// into.
func (b *Backend) tile(rows, cols, inner int) tile {
	t := tiles[0]
	for _, c := range tiles {
		if c.fits(b.about) && (c.M <= rows || c.M <= 64) {
			t = c
		}
	}
	return t
}

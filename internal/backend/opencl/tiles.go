package opencl

import (
	"fmt"

	"hotpath/internal/tensor"
)

// tile is how a product of many rows is cut: M x N results per group, EM x EN of
// them per work item, K columns of the operands in local memory at a time; K is 0
// where none lie there. Local memory holds two times K columns.
type tile struct{ M, N, K, EM, EN int }

// tiles are the candidates, from small to large.
var tiles = []tile{
	{8, 8, 8, 1, 1}, {16, 16, 16, 1, 1}, {32, 32, 16, 2, 2}, {64, 64, 8, 4, 4}, {64, 128, 8, 4, 8}, {128, 64, 8, 8, 4}, {128, 128, 8, 8, 8}, {128, 128, 16, 8, 8}, {128, 256, 8, 8, 16},
	{16, 16, 0, 4, 4}, {32, 32, 0, 4, 4},
}

func (t tile) String() string {
	if t.K == 0 {
		return fmt.Sprintf("%dx%d direct", t.M, t.N)
	}
	if t.M > 32 && t.K > 8 {
		return fmt.Sprintf("%dx%d by %d", t.M, t.N, t.K)
	}
	return fmt.Sprintf("%dx%d", t.M, t.N)
}

// items is the size of a group.
func (t tile) items() int { return t.M / t.EM * (t.N / t.EN) }

// local is how many bytes of local memory a group needs.
func (t tile) local() int64 { return 2 * 4 * int64(t.K) * int64(t.M+t.N+8) }

// fits reports whether a device has room for a group.
func (t tile) fits(d description) bool { return t.items() <= d.Items && t.local() <= d.Local }

// suits reports whether a product fills more than half of a tile in each direction.
// Others are not worth compiling; the smallest tiles suit all.
func (t tile) suits(s Shape) bool { return t.M < 2*max(s.Rows, 8) && t.N < 2*max(s.Cols, 8) }

// code are the kernels for matrices of a type; strided ones are of gradients. half
// multiplies in 16 bits, where operands lie in local memory.
func (t tile) code(of tensor.DType, strided, half bool) code {
	file := "gemm"
	if t.K == 0 {
		file = "direct"
	}
	c := typed(of, "common", "act", file)
	c.options += fmt.Sprintf(" -DTILE_M=%d -DTILE_N=%d -DTILE_K=%d -DEACH_M=%d -DEACH_N=%d", t.M, t.N, t.K, t.EM, t.EN)
	if strided {
		c.options += " -DSTRIDED"
	}
	if half && t.K > 0 && !strided {
		c.options += " -DHALF=half"
	}
	return c
}

// usual is the largest tile with local memory of which a product of so many rows
// fills one: the choice without a measurement. CPUs get small ones, which their
// compilers take seconds less for.
func usual(d description, rows int) tile {
	t := tiles[0]
	for _, c := range tiles {
		if c.K > 0 && c.fits(d) && (c.M <= 64 || c.M <= rows) && !(d.CPU && c.EM*c.EN > 16) {
			t = c
		}
	}
	return t
}

package gemm

import (
	"fmt"

	"hotpath/internal/tensor"
)

// Cached is rows of a cache of keys or values as they lie: heads of Dim values side
// by side, whole blocks of 32.
type Cached struct {
	Data     []byte // from the first head of the first row on
	DType    tensor.DType
	Rows     int
	RowBytes int
	Heads    int
	Dim      int
	Next     []byte     // what is read next, asked for meanwhile; nil: what lies behind Data
	args     cachedArgs // of the kernel at hand: on the heap with the rest
}

// head is head h alone.
func (c *Cached) head(h int) Stored {
	return Stored{Data: c.Data[c.DType.RowBytes(h*c.Dim):], DType: c.DType, N: c.Rows, K: c.Dim, RowBytes: c.RowBytes}
}

// check panics where group rows per head of x, ldx values apart, and of d do not
// fit.
func (c *Cached) check(what string, x, ldx, xCols, d, ldd, dCols, group int) {
	n := c.Heads * group
	if c.Rows > 0 && n > 0 && (c.Dim%32 != 0 || (c.Rows-1)*c.RowBytes+c.DType.RowBytes(c.Heads*c.Dim) > len(c.Data) ||
		ldx < xCols || ldd < dCols || x < (n-1)*ldx+xCols || d < (n-1)*ldd+dCols) {
		panic(fmt.Sprintf("gemm: %s of %d rows of %d heads of %d values do not fit their buffers", what, c.Rows, c.Heads, c.Dim))
	}
}

// Scores makes dst[i][r] = q[i]·key r of head i/group, for group queries per head;
// rows of dst are ldd apart. It has the bits of MulRows with each head.
func (c *Cached) Scores(dst []float32, ldd int, q []float32, group int) {
	c.check("keys", len(q), c.Dim, c.Dim, len(dst), ldd, c.Rows, group)
	done := c.scoresFast(dst, ldd, q, group)
	for h := range c.Heads {
		if done < c.Rows {
			w := c.head(h)
			MulRows(dst[h*group*ldd:], ldd, &w, q[h*group*c.Dim:], c.Dim, group, done, c.Rows)
		}
	}
}

// Mix makes dst[i] = Σ p[i][r]·value r of head i/group, for group rows of weights
// per head, ldp apart; where add is set, it adds to what is there. It has the bits
// of MixRows with each head.
func (c *Cached) Mix(dst []float32, ldd int, p []float32, ldp, group int, add bool) {
	c.check("values", len(p), ldp, c.Rows, len(dst), ldd, c.Dim, group)
	if c.mixFast(dst, ldd, p, ldp, group, add) {
		return
	}
	for h := range c.Heads {
		w := c.head(h)
		MixRows(dst[h*group*ldd:], ldd, p[h*group*ldp:], ldp, group, &w, c.Rows, add)
	}
}

// Package tensor holds what every other package means by a tensor: the
// logical encodings (DType), shapes with at most one symbolic dimension, the
// block formats of quantized weights and their reference codecs.
//
// It imports nothing of ours and everything of ours may import it. Functions
// that read foreign bytes return errors; programmer mistakes (a negative
// dimension in a model description) panic at build time only.
package tensor

import (
	"fmt"
	"strings"
)

// Sym is a size that is known only when a run is bound.
type Sym uint8

const (
	// None marks a dimension that is fixed when the graph is built.
	None Sym = iota
	// T counts the tokens of a ragged batch.
	T
	// S counts the sequences of a ragged batch.
	S
	// R counts the rows that somebody wants an answer for.
	R
)

func (s Sym) String() string { return [...]string{"", "T", "S", "R"}[s] }

// Bind gives every symbol its size for one run.
type Bind struct{ T, S, R int }

// Of returns the bound size of a symbol; None is 1.
func (b Bind) Of(s Sym) int {
	switch s {
	case T:
		return b.T
	case S:
		return b.S
	case R:
		return b.R
	}
	return 1
}

// Fits reports whether b is within max in every symbol.
func (b Bind) Fits(most Bind) bool { return b.T <= most.T && b.S <= most.S && b.R <= most.R }

// Dim is Mul*Sym + Add, or just Add where Sym is None.
type Dim struct {
	Sym Sym
	Mul int
	Add int
}

// Fixed is a dimension known at build time.
func Fixed(n int) Dim { return Dim{Add: n} }

// Of is k times a symbol.
func Of(s Sym, k int) Dim { return Dim{Sym: s, Mul: k} }

// Size is the dimension's length under a binding.
func (d Dim) Size(b Bind) int {
	if d.Sym == None {
		return d.Add
	}
	return d.Mul*b.Of(d.Sym) + d.Add
}

func (d Dim) String() string {
	if d.Sym == None {
		return fmt.Sprint(d.Add)
	}
	s := d.Sym.String()
	if d.Mul != 1 {
		s = fmt.Sprintf("%d%s", d.Mul, s)
	}
	if d.Add != 0 {
		s = fmt.Sprintf("%s+%d", s, d.Add)
	}
	return s
}

// MaxRank is the largest number of dimensions a Shape can have.
const MaxRank = 4

// Shape has one to four dimensions, outermost first. Only the outermost may
// be symbolic, so a row has a fixed length and a buffer is rows x row.
type Shape struct {
	Outer Dim
	Inner [MaxRank - 1]int // unused entries are 0
}

// Rows is the shape [outer, inner...].
func Rows(outer Dim, inner ...int) Shape {
	if len(inner) > MaxRank-1 {
		panic(fmt.Sprintf("tensor: %d dimensions, at most %d are allowed", len(inner)+1, MaxRank))
	}
	s := Shape{Outer: outer}
	for i, n := range inner {
		if n <= 0 {
			panic(fmt.Sprintf("tensor: dimension %d is %d, expected a positive size", i+1, n))
		}
		s.Inner[i] = n
	}
	return s
}

// Static is a shape without symbols.
func Static(dims ...int) Shape { return Rows(Fixed(dims[0]), dims[1:]...) }

// Rank is the number of dimensions.
func (s Shape) Rank() int {
	n := 1
	for _, d := range s.Inner {
		if d == 0 {
			break
		}
		n++
	}
	return n
}

// RowLen is the number of elements below the outermost dimension.
func (s Shape) RowLen() int {
	n := 1
	for _, d := range s.Inner {
		if d == 0 {
			break
		}
		n *= d
	}
	return n
}

// NumRows is the outermost dimension under a binding.
func (s Shape) NumRows(b Bind) int { return s.Outer.Size(b) }

// Len is the number of elements under a binding.
func (s Shape) Len(b Bind) int { return s.NumRows(b) * s.RowLen() }

func (s Shape) String() string {
	parts := []string{s.Outer.String()}
	for _, d := range s.Inner {
		if d == 0 {
			break
		}
		parts = append(parts, fmt.Sprint(d))
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// Package format holds what the readers of model files share: the errors that
// a caller may match, and the arithmetic that bounds a tensor before anybody
// touches its bytes.
//
// It imports tensor only. The readers below it (gguf, safetensors) and weights
// import it. Every error of theirs names the file, the field and what was
// expected, and wraps one of the errors below.
package format

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

var (
	// ErrTruncated reports a file that ends before what it announces.
	ErrTruncated = errors.New("file is truncated")
	// ErrInvalid reports a file that contradicts its format.
	ErrInvalid = errors.New("invalid file")
	// ErrUnsupported reports a file that may be sound but that holds what
	// hotpath does not read.
	ErrUnsupported = errors.New("not supported")
)

// ByteSize is the size of a tensor whose rows of dims[last] elements are
// stored in blocks of blockLen elements and blockBytes bytes. A tensor without
// dimensions is one element. Errors print copies, so that dims may live on the
// caller's stack.
func ByteSize(dims []int, blockLen, blockBytes int) (int, error) {
	n, empty := 1, false
	for _, d := range dims {
		if d < 0 {
			return 0, fmt.Errorf("dimensions %v: %d is negative: %w", slices.Clone(dims), d, ErrInvalid)
		}
		if d == 0 {
			empty = true
			continue
		}
		if n > math.MaxInt/d {
			return 0, fmt.Errorf("dimensions %v: too many elements to count: %w", slices.Clone(dims), ErrInvalid)
		}
		n *= d
	}
	if empty {
		return 0, nil
	}
	row := 1
	if len(dims) > 0 {
		row = dims[len(dims)-1]
	}
	if row%blockLen != 0 {
		return 0, fmt.Errorf("dimensions %v: a row has %d elements, expected whole blocks of %d: %w", slices.Clone(dims), row, blockLen, ErrInvalid)
	}
	if n /= blockLen; n > math.MaxInt/blockBytes {
		return 0, fmt.Errorf("dimensions %v: too many bytes to count: %w", slices.Clone(dims), ErrInvalid)
	}
	return n * blockBytes, nil
}

// Span is where a tensor lies in the data part of a file.
type Span struct {
	Name       string
	Begin, End int
}

// Disjoint fails if two spans share a byte. It sorts spans.
func Disjoint(spans []Span) error {
	slices.SortFunc(spans, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.End, b.End))
	})
	for i := 1; i < len(spans); i++ {
		if a, b := spans[i-1], spans[i]; b.Begin < a.End {
			return fmt.Errorf("tensors %q (bytes %d to %d) and %q (bytes %d to %d) overlap: %w",
				a.Name, a.Begin, a.End, b.Name, b.Begin, b.End, ErrInvalid)
		}
	}
	return nil
}

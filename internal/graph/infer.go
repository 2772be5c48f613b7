package graph

import (
	"fmt"

	"hotpath/internal/tensor"
)

// The checks that several ops' shape inference shares. Each error names the
// operand, what it is and what was expected.

// wantShape checks an operand that may be absent.
func wantShape(what string, v *Value, s tensor.Shape) error {
	if v != nil && v.Shape != s {
		return fmt.Errorf("%s is %s, expected %s", what, v.Shape, s)
	}
	return nil
}

// wantVector checks for a fixed vector and returns its length.
func wantVector(what string, v *Value) (int, error) {
	if v.Shape.Outer.Sym != tensor.None || v.Shape.Rank() != 1 || v.Shape.Outer.Add <= 0 {
		return 0, fmt.Errorf("%s is %s, expected a vector of fixed length", what, v.Shape)
	}
	return v.Shape.Outer.Add, nil
}

// sequences is the number of sequences that the prefix sums q_start[S+1]
// delimit.
func sequences(qStart *Value) (tensor.Dim, error) {
	d := qStart.Shape.Outer
	if qStart.Shape.Rank() != 1 || d.Add < 1 {
		return d, fmt.Errorf("q_start is %s, expected [S+1]", qStart.Shape)
	}
	d.Add--
	return d, nil
}

// first returns the first of several errors.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// like is an F32 output of the shape of v.
func like(v *Value) Type { return Type{v.Shape, tensor.F32} }

// noSecond is why gradient ops have no gradient themselves.
const noSecond = "second derivatives are not supported"

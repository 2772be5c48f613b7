package tensor

import (
	"fmt"
	"math"
)

// The encoders look for the scales of a block by weighted least squares: for
// given codes the best scale (and minimum) have a closed form, for given
// scales the best codes are the nearest ones, so candidates that spread
// around the largest value are rated, and the best is improved by turns.

// codeSet is what the codes of a symmetric encoding stand for: the integers
// from lo to hi, or the values of a table in rising order.
type codeSet struct {
	lo, hi float32
	step   float32 // between candidates for the scale, as a part of it
	levels *levelTable
}

var (
	codes3   = codeSet{-4, 3, 0.025, nil}
	codes4   = codeSet{-8, 7, 0.0125, nil}
	codes5   = codeSet{-16, 15, 0.00625, nil}
	codes6   = codeSet{-32, 31, 0.003125, nil}
	codesIQ4 = codeSet{-127, 113, 0.0125, newLevelTable(&iq4Levels)}
)

// levelTable finds the nearest of 16 rising values: below[v+128] is the code
// of the largest value not above v, middle the limits between neighbours.
type levelTable struct {
	values [16]float32
	middle [16]float32
	below  [256]int8
}

func newLevelTable(levels *[16]int8) *levelTable {
	t := &levelTable{}
	for i, v := range levels {
		t.values[i], t.middle[i] = float32(v), float32(math.Inf(1))
		if i < 15 {
			t.middle[i] = (float32(v) + float32(levels[i+1])) / 2
		}
		for at := int(v) + 128; at < 256; at++ {
			t.below[at] = int8(i)
		}
	}
	return t
}

// nearest is the code of the value nearest to v, which is in their range.
func (t *levelTable) nearest(v float32) int8 {
	c := t.below[int(v+128)]
	if v > t.middle[c] {
		c++
	}
	return c
}

// roundEven rounds numbers below 2^22 to integers: from 2^23 on float32 has
// nothing in between.
func roundEven(v float32) float32 {
	const shift = 3 << 22
	return (v + shift) - shift
}

// clamp takes a NaN, which codes cannot be made from, for lo.
func clamp(v, lo, hi float32) float32 {
	if !(v >= lo) {
		return lo
	}
	if v > hi {
		return hi
	}
	return v
}

// moments are sums of w*v*x and w*v*v over the values v that the codes nearest
// to x*inv stand for. v = d*x is best at d = vx/vv, where the error is
// sum(w*x*x) - vx*vx/vv.
func (c codeSet) moments(x, w []float32, inv float32) (vx, vv float64) {
	w = w[:len(x)]
	if t := c.levels; t != nil {
		for i, a := range x {
			v := t.values[t.nearest(clamp(a*inv, c.lo, c.hi))]
			wv := float64(w[i] * v)
			vx += wv * float64(a)
			vv += wv * float64(v)
		}
		return vx, vv
	}
	for i, a := range x {
		v := roundEven(clamp(a*inv, c.lo, c.hi))
		wv := float64(w[i] * v)
		vx += wv * float64(a)
		vv += wv * float64(v)
	}
	return vx, vv
}

// encode writes the codes nearest to x/d and gives their error.
func (c codeSet) encode(q []int8, x, w []float32, d float32) (sum float64) {
	inv := inverse(d)
	q, w = q[:len(x)], w[:len(x)]
	for i, a := range x {
		v := clamp(a*inv, c.lo, c.hi)
		if c.levels != nil {
			q[i] = c.levels.nearest(v)
			v = c.levels.values[q[i]]
		} else {
			v = roundEven(v)
			q[i] = int8(v)
		}
		e := float64(a) - float64(d)*float64(v)
		sum += float64(w[i]) * e * e
	}
	return sum
}

// candidates is how many scales are rated on either side of the obvious one.
const candidates = 10

// fit finds the scale of a block, and how fast the error grows with the square
// of the distance from it.
func (c codeSet) fit(x, w []float32) (scale float32, curvature float64) {
	v := extreme(x)
	if v > -tiniest && v < tiniest {
		return 0, 0
	}
	var best, vxBest float64
	for _, edge := range [2]float32{c.lo, c.hi} {
		for t := -candidates; t <= candidates; t++ {
			vx, vv := c.moments(x, w, edge*(1+float32(t)*c.step)/v)
			if s := vx * vx; vv > 0 && s > best*vv {
				best, vxBest, curvature = s/vv, vx, vv
			}
		}
	}
	for range 6 {
		if curvature == 0 || vxBest == 0 {
			break
		}
		vx, vv := c.moments(x, w, float32(curvature/vxBest))
		if vv == 0 || vx*vx <= best*vv {
			break
		}
		best, vxBest, curvature = vx*vx/vv, vx, vv
	}
	if curvature == 0 {
		return 0, 0
	}
	return float32(vxBest / curvature), curvature
}

// tiniest is the magnitude below which no block encoding with half scales can
// tell a value from zero.
const tiniest = 0x1p-40

// extreme is the value of largest magnitude.
func extreme(x []float32) (v float32) {
	var a float32
	for _, y := range x {
		if y > a {
			a, v = y, y
		} else if -y > a {
			a, v = -y, y
		}
	}
	return v
}

// encodeScaled encodes one block x = d*v with a half scale.
func encodeScaled(d DType, block int, q *[32]int8, x, w []float32, c codeSet) (uint16, error) {
	if _, err := largestOf(d, block, x); err != nil {
		return 0, err
	}
	s, _ := c.fit(x, w)
	h, err := halfScale(d, block, s)
	if err != nil {
		return 0, err
	}
	c.encode(q[:], x, w, F16ToF32(h))
	return h, nil
}

// largestOf is the largest magnitude of a block; NaN and infinities are
// refused.
func largestOf(d DType, block int, x []float32) (float32, error) {
	var largest float32
	for _, v := range x {
		largest = max(largest, v, -v) // the built-in keeps a NaN
	}
	if !(largest <= math.MaxFloat32) {
		return 0, fmt.Errorf("%s: block %d holds %g, expected finite numbers", d, block, largest)
	}
	return largest, nil
}

var ones = func() (x [256]float32) {
	for i := range x {
		x[i] = 1
	}
	return x
}()

// weightsOf are the weights of a block of n elements.
func weightsOf(weight []float32, block, n int) []float32 {
	if weight == nil {
		return ones[:n]
	}
	w := weight[block*n:][:n]
	for _, v := range w {
		if v > 0 {
			return w
		}
	}
	return ones[:n]
}

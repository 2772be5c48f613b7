package tensor

import "math"

// sums are the weighted moments that a fit of x = d*q + m needs.
type sums struct{ w, x, q, qq, qx float64 }

// shiftedMoments are the sums for the codes from 0 to n nearest to
// (x-m)*inv.
func shiftedMoments(x, w []float32, m, inv, n float32) (s sums) {
	w = w[:len(x)]
	for i, a := range x {
		q := float64(roundEven(clamp((a-m)*inv, 0, n)))
		wi := float64(w[i])
		wq, wx := wi*q, wi*float64(a)
		s.w += wi
		s.x += wx
		s.q += wq
		s.qq += wq * q
		s.qx += wx * q
	}
	return s
}

// solve is the best scale and minimum for the codes of s, and by how much they
// lower the error below that of all zeros. With below, the minimum may not be
// above zero.
func (s sums) solve(below bool) (d, m, gain float64) {
	det := s.w*s.qq - s.q*s.q
	if det > 1e-12*s.w*s.qq {
		d = (s.w*s.qx - s.x*s.q) / det
		m = (s.qq*s.x - s.q*s.qx) / det
	} else { // all codes alike: an offset does it
		m = s.x / s.w
	}
	if below && m > 0 {
		m = 0
		if d = 0; s.qq > 0 {
			d = s.qx / s.qq
		}
	}
	if below && d < 0 {
		d, m = 0, min(s.x/s.w, 0)
	}
	return d, m, d*s.qx + m*s.x
}

// fitShifted finds the scale d and the minimum m of x = d*q + m with codes
// from 0 to n. With below, d is not negative and m not positive.
func fitShifted(x, w []float32, n float32, below bool) (d, m float32) {
	lo, hi := x[0], x[0]
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	if below {
		lo, hi = min(lo, 0), max(hi, 0)
	}
	if hi-lo < tiniest {
		if below && lo > -tiniest {
			return 0, 0
		}
		return 0, lo
	}
	best := math.Inf(-1)
	var bd, bm float64
	try := func(m, inv float32) bool {
		d, m2, gain := shiftedMoments(x, w, m, inv, n).solve(below)
		if gain <= best {
			return false
		}
		best, bd, bm = gain, d, m2
		return true
	}
	for t := -candidates; t <= candidates; t++ {
		try(lo, (n+0.1*float32(t))/(hi-lo))
	}
	for range 8 {
		if bd == 0 || !try(float32(bm), float32(1/bd)) {
			break
		}
	}
	return float32(bd), float32(bm)
}

// encodeCodes writes the codes nearest to (x-m)/d and gives their error.
func encodeCodes(q []int8, x, w []float32, d, m, n float32) (sum float64) {
	inv := inverse(d)
	q, w = q[:len(x)], w[:len(x)]
	for i, a := range x {
		v := roundEven(clamp((a-m)*inv, 0, n))
		q[i] = int8(v)
		e := float64(a) - float64(d)*float64(v) - float64(m)
		sum += float64(w[i]) * e * e
	}
	return sum
}

// encodeShifted encodes one block x = d*q + m with a half scale and a half
// minimum.
func encodeShifted(t DType, block int, q *[32]int8, x, w []float32, n float32) (hd, hm uint16, err error) {
	if _, err = largestOf(t, block, x); err != nil {
		return 0, 0, err
	}
	d, m := fitShifted(x, w, n, false)
	if hd, err = halfScale(t, block, d); err != nil {
		return 0, 0, err
	}
	if hm, err = halfScale(t, block, m); err != nil {
		return 0, 0, err
	}
	encodeCodes(q[:], x, w, F16ToF32(hd), F16ToF32(hm), n)
	return hd, hm, nil
}

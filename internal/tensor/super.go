package tensor

import "math"

// rounds is how often the scales of the parts of a block and the scale of
// those scales are improved by turns.
const rounds = 3

// scaledSuper is the encoder of a block of 256 whose parts have integer
// scales: x = d*scale*v.
type scaledSuper struct {
	hd    uint16
	scale [16]int16
	q     [256]int8

	want      [16]float32 // scales of the parts as they would like to be
	curvature [16]float64
	trial     [256]int8
}

// fit encodes x, parts of sub elements each with a scale from lo to hi.
func (s *scaledSuper) fit(t DType, block int, x, w []float32, sub int, c codeSet, lo, hi float32) error {
	if _, err := largestOf(t, block, x); err != nil {
		return err
	}
	parts := 256 / sub
	for j := range parts {
		s.want[j], s.curvature[j] = c.fit(x[j*sub:][:sub], w[j*sub:][:sub])
	}
	d := s.start(parts, lo, hi)
	least := math.Inf(1)
	var scale [16]int16
	for range rounds {
		h, err := halfScale(t, block, d)
		if err != nil {
			return err
		}
		d = F16ToF32(h)
		sum, next := s.round(x, w, sub, d, c, lo, hi, &scale)
		if sum >= least {
			break
		}
		least, s.hd, s.scale, s.q, d = sum, h, scale, s.trial, next
	}
	return nil
}

// start chooses the common scale: the one that lets integers come nearest to
// what the parts want.
func (s *scaledSuper) start(parts int, lo, hi float32) (d float32) {
	v := extreme(s.want[:parts])
	if v == 0 {
		return 0
	}
	least := math.Inf(1)
	for _, edge := range [2]float32{lo, hi} {
		for t := range 2*candidates + 1 {
			try := v / (edge * (1 - 0.02*float32(t)))
			var sum float64
			for j, want := range s.want[:parts] {
				e := float64(want - try*roundEven(clamp(want/try, lo, hi)))
				sum += s.curvature[j] * e * e
			}
			if sum < least {
				least, d = sum, try
			}
		}
	}
	return d
}

// round finds integer scales and codes under d, their error, and the d that
// suits them best.
func (s *scaledSuper) round(x, w []float32, sub int, d float32, c codeSet, lo, hi float32, scale *[16]int16) (sum float64, next float32) {
	var codes [32]int8
	var vx, vv float64
	inv := inverse(d)
	for j := range 256 / sub {
		px, pw := x[j*sub:][:sub], w[j*sub:][:sub]
		at := roundEven(clamp(s.want[j]*inv, lo, hi))
		least := math.Inf(1)
		for l := max(at-1, lo); l <= min(at+1, hi); l++ {
			if e := c.encode(codes[:sub], px, pw, d*l); e < least {
				least, scale[j] = e, int16(l)
				copy(s.trial[j*sub:], codes[:sub])
			}
		}
		sum += least
		l := float64(scale[j])
		for i, q := range s.trial[j*sub:][:sub] {
			v := float64(q)
			if c.levels != nil {
				v = float64(c.levels.values[q])
			}
			v *= l
			vx += float64(pw[i]) * v * float64(px[i])
			vv += float64(pw[i]) * v * v
		}
	}
	if vv == 0 {
		return sum, 0
	}
	return sum, float32(vx / vv)
}

// shiftedSuper is the encoder of a block of 256 whose parts have integer
// scales and minima: x = d*scale*q - dmin*min.
type shiftedSuper struct {
	hd, hmin   uint16
	scale, min [16]byte
	q          [256]int8

	wantScale, wantMin [16]float32
	trial              [256]int8
}

// fit encodes x, parts of sub elements with codes from 0 to n and scales and
// minima from 0 to most.
func (s *shiftedSuper) fit(t DType, block int, x, w []float32, sub int, n, most float32) error {
	if _, err := largestOf(t, block, x); err != nil {
		return err
	}
	parts := 256 / sub
	for j := range parts {
		d, m := fitShifted(x[j*sub:][:sub], w[j*sub:][:sub], n, true)
		s.wantScale[j], s.wantMin[j] = d, -m
	}
	d, dmin := common(s.wantScale[:parts], most), common(s.wantMin[:parts], most)
	least := math.Inf(1)
	var scale, minimum [16]byte
	for range rounds {
		hd, err := halfScale(t, block, d)
		if err != nil {
			return err
		}
		hm, err := halfScale(t, block, dmin)
		if err != nil {
			return err
		}
		sum, nextD, nextMin := s.round(x, w, sub, F16ToF32(hd), F16ToF32(hm), n, most, &scale, &minimum)
		if sum >= least {
			break
		}
		least, s.hd, s.hmin, s.scale, s.min, s.q = sum, hd, hm, scale, minimum, s.trial
		d, dmin = nextD, nextMin
	}
	return nil
}

// common is the unit of which multiples up to most come nearest to the wanted
// numbers.
func common(want []float32, most float32) (d float32) {
	var top float32
	for _, v := range want {
		top = max(top, v)
	}
	if top == 0 {
		return 0
	}
	least := math.Inf(1)
	for t := range candidates + 1 {
		try := top / (most * (1 - 0.03*float32(t)))
		var sum float64
		for _, v := range want {
			e := float64(v - try*roundEven(v/try))
			sum += e * e
		}
		if sum < least {
			least, d = sum, try
		}
	}
	return d
}

// round finds integer scales, minima and codes under d and dmin, their error,
// and the d and dmin that suit them best.
func (s *shiftedSuper) round(x, w []float32, sub int, d, dmin, n, most float32, scale, minimum *[16]byte) (sum float64, nextD, nextMin float32) {
	var codes [32]int8
	// Sums of the fit x = d*a - dmin*b with a = scale*q and b = min.
	var aa, ab, bb, ax, bx float64
	inv, invMin := inverse(d), inverse(dmin)
	for j := range 256 / sub {
		px, pw := x[j*sub:][:sub], w[j*sub:][:sub]
		atS := roundEven(clamp(s.wantScale[j]*inv, 0, most))
		atM := roundEven(clamp(s.wantMin[j]*invMin, 0, most))
		least := math.Inf(1)
		for l := max(atS-1, 0); l <= min(atS+1, most); l++ {
			for k := max(atM-1, 0); k <= min(atM+1, most); k++ {
				if e := encodeCodes(codes[:sub], px, pw, d*l, -dmin*k, n); e < least {
					least, scale[j], minimum[j] = e, byte(l), byte(k)
					copy(s.trial[j*sub:], codes[:sub])
				}
			}
		}
		sum += least
		l, b := float64(scale[j]), float64(minimum[j])
		for i, q := range s.trial[j*sub:][:sub] {
			a, wi, v := l*float64(q), float64(pw[i]), float64(px[i])
			aa += wi * a * a
			ab += wi * a * b
			bb += wi * b * b
			ax += wi * a * v
			bx += wi * b * v
		}
	}
	det := aa*bb - ab*ab
	switch {
	case det > 1e-12*aa*bb:
		nextD, nextMin = float32((ax*bb-bx*ab)/det), float32((ax*ab-bx*aa)/det)
	case aa > 0:
		nextD = float32(ax / aa)
	}
	if nextD < 0 || nextMin < 0 {
		return sum, d, dmin
	}
	return sum, nextD, nextMin
}

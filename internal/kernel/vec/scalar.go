package vec

import "math"

// The scalar forms are the generic twins of the assembly; both read the same
// constants (kernelgen/activation.go).

const (
	expLow   = -87
	expHigh  = 89
	expRound = 12582912 // 1.5·2^23: adding it rounds to an integer
	ln2High  = 0.693359375
	ln2Low   = -2.12194440e-4
	tailRate = 0.35
	tanhLin  = 2 * 0.7978845608028654 // 2·sqrt(2/pi)
	tanhCube = tanhLin * 0.044715
	invRoot  = 0.3989422804014327 // 1/sqrt(2·pi)
)

// exp is e^x: x = n·ln2 + r, then a polynomial in r that is good to one unit
// in the last place, times 2^n in two steps so that n may be 128.
func exp(x float32) float32 {
	if x < expLow {
		return 0
	}
	if x > expHigh {
		x = expHigh
	}
	if x != x {
		return x
	}
	t := float32(x*math.Log2E) + expRound
	n := t - expRound
	r := x - float32(n*ln2High)
	r -= float32(n * ln2Low)
	p := float32(1.9875691500e-4)
	p = float32(p*r) + 1.3981999507e-3
	p = float32(p*r) + 8.3334519073e-3
	p = float32(p*r) + 4.1665795894e-2
	p = float32(p*r) + 1.6666665459e-1
	p = float32(p*r) + 5.0000001201e-1
	p = float32(float32(p*r)*r) + r + 1
	scale := math.Float32frombits((math.Float32bits(t) + 126) << 23)
	p *= scale
	return p + p
}

func sigmoid(x float32) float32 { return 1 / (1 + exp(-x)) }

// tail is Q(|x|), the upper tail of the normal distribution, and e^(-x²/2).
// Q·e^(x²/2) is a polynomial in t = 1/(1+0.35|x|), fitted for the least
// greatest relative error (3e-8) up to 13.3; beyond, e^(-x²/2) is 0 here.
func tail(x float32) (q, e float32) {
	h := float32(x * x)
	lo := float32(float64(x)*float64(x) - float64(h))
	e = exp(-0.5 * h)
	e -= float32(0.5 * lo * e)
	t := 1 / (1 + float32(tailRate*float32(math.Abs(float64(x)))))
	q = -0.029115119948983192
	q = float32(q*t) + 0.1438189148902893
	q = float32(q*t) - 0.2553919851779938
	q = float32(q*t) + 0.15879763662815094
	q = float32(q*t) - 0.022844132035970688
	q = float32(q*t) + 0.10539242625236511
	q = float32(q*t) + 0.11986302584409714
	q = float32(q*t) + 0.13985757529735565
	q = float32(q*t) + 0.13962166011333466
	return q * t * e, e
}

func gelu(x float32) float32 {
	q, _ := tail(x)
	if x < 0 {
		return x * q
	}
	return x - float32(x*q)
}

func geluGrad(x float32) float32 {
	q, e := tail(x)
	if x >= 0 {
		q = 1 - q
	}
	return q + float32(x*float32(invRoot*e))
}

// tanhArg is twice the argument of tanh in the approximate GELU, because
// (1+tanh(u))/2 is sigmoid(2u).
func tanhArg(x float32) float32 {
	return x * (float32(tanhCube*float32(x*x)) + tanhLin)
}

func geluTanh(x float32) float32 { return x * sigmoid(tanhArg(x)) }

func geluTanhGrad(x float32) float32 {
	s := sigmoid(tanhArg(x))
	dv := float32(3*tanhCube*float32(x*x)) + tanhLin
	return s + float32(s*float32((1-s)*float32(x*dv)))
}

// tanh is exact to the last digits of 1, not to those of a small x.
func tanh(x float32) float32 {
	s := sigmoid(x + x)
	return s + s - 1
}

func silu(x float32) float32 { return x * sigmoid(x) }

func siluGrad(x float32) float32 {
	s := sigmoid(x)
	return s * (1 + float32(x*(1-s)))
}

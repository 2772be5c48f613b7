package vec

// each is the generic twin of every activation.
func each(dst, x []float32, f func(float32) float32) {
	for i := range dst {
		dst[i] = f(x[i])
	}
}

// eachTimes is the generic twin of gated activations and of gradients.
func eachTimes(dst, x, u []float32, f func(float32) float32) {
	for i := range dst {
		dst[i] = f(x[i]) * u[i]
	}
}

// Gelu makes dst = x·Phi(x), the exact form with erf.
func Gelu(dst, x []float32) {
	x = x[:len(dst)]
	if !geluFast(dst, x) {
		each(dst, x, gelu)
	}
}

// GeluTanh makes dst = the approximation of GELU by tanh.
func GeluTanh(dst, x []float32) {
	x = x[:len(dst)]
	if !geluTanhFast(dst, x) {
		each(dst, x, geluTanh)
	}
}

// Silu makes dst = x·sigmoid(x).
func Silu(dst, x []float32) {
	x = x[:len(dst)]
	if !siluFast(dst, x) {
		each(dst, x, silu)
	}
}

// Tanh makes dst = tanh(x), with an error of some digits of 1.
func Tanh(dst, x []float32) {
	x = x[:len(dst)]
	if !tanhFast(dst, x) {
		each(dst, x, tanh)
	}
}

// SoftCap bends x towards ±limit: dst = limit·tanh(x/limit).
func SoftCap(dst, x []float32, limit float32) {
	Scale(dst, x, 1/limit)
	Tanh(dst, dst)
	Scale(dst, dst, limit)
}

// GeluMul makes dst = Gelu(x)·u.
func GeluMul(dst, x, u []float32) {
	x, u = x[:len(dst)], u[:len(dst)]
	if !geluMulFast(dst, x, u) {
		eachTimes(dst, x, u, gelu)
	}
}

// GeluTanhMul makes dst = GeluTanh(x)·u.
func GeluTanhMul(dst, x, u []float32) {
	x, u = x[:len(dst)], u[:len(dst)]
	if !geluTanhMulFast(dst, x, u) {
		eachTimes(dst, x, u, geluTanh)
	}
}

// SiluMul makes dst = Silu(x)·u.
func SiluMul(dst, x, u []float32) {
	x, u = x[:len(dst)], u[:len(dst)]
	if !siluMulFast(dst, x, u) {
		eachTimes(dst, x, u, silu)
	}
}

// GeluGrad makes dst = dy·Gelu'(x).
func GeluGrad(dst, dy, x []float32) {
	dy, x = dy[:len(dst)], x[:len(dst)]
	if !geluGradFast(dst, dy, x) {
		eachTimes(dst, x, dy, geluGrad)
	}
}

// GeluTanhGrad makes dst = dy·GeluTanh'(x).
func GeluTanhGrad(dst, dy, x []float32) {
	dy, x = dy[:len(dst)], x[:len(dst)]
	if !geluTanhGradFast(dst, dy, x) {
		eachTimes(dst, x, dy, geluTanhGrad)
	}
}

// SiluGrad makes dst = dy·Silu'(x).
func SiluGrad(dst, dy, x []float32) {
	dy, x = dy[:len(dst)], x[:len(dst)]
	if !siluGradFast(dst, dy, x) {
		eachTimes(dst, x, dy, siluGrad)
	}
}

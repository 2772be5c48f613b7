package i16

// edge and the polynomials are kernelgen's: (Phi(x)-1/2)/x in powers of x², and
// 1/8 at the edge, so that Phi is 1 beyond it and 0 below -edge.
const edge = 4

var polys = [...][8]float32{
	Gelu: {0.398653507232666, -0.0657958835363388, 0.009426536969840527, -0.0009795113001018763,
		7.031345012364909e-05, -3.2571099382039392e-06, 8.651542060533757e-08, -9.918859067425956e-10},
	GeluTanh: {0.39872288703918457, -0.06625597178936005, 0.009733563289046288, -0.001062115072272718,
		8.179286669474095e-05, -4.12860617871047e-06, 1.208224347237774e-07, -1.5395887897895477e-09},
}

// generic is the twin in plain Go.
func (a Act) generic(row []float32) {
	if a == Plain {
		return
	}
	poly := &polys[a]
	for i, x := range row {
		t := min(max(x, -edge), edge)
		q := poly[len(poly)-1]
		for n := len(poly) - 2; n >= 0; n-- {
			q = fma(q, float32(t*t), poly[n])
		}
		row[i] = x * fma(q, t, 0.5)
	}
}

// fma is x·y + z, which is rounded once but for very rare cases: at the edge
// nothing may be left of Phi.
func fma(x, y, z float32) float32 { return float32(float64(x)*float64(y) + float64(z)) }

package vec

import "hotpath/internal/kernel/isa"

//go:noescape
func indexesWithinAVX2(dst *int32, a *float32, n int, low, high float32) (count int)

//go:noescape
func indexesWithinAVX512(dst *int32, a *float32, n int, low, high float32) (count int)

// indexesWithinFast looks at whole rounds of vectors: done values, count of them written.
func indexesWithinFast(dst []int32, a []float32, low, high float32) (count, done int) {
	done = len(a) &^ 63
	tier := isa.Vector()
	switch {
	case done == 0 || tier == isa.Generic:
		return 0, 0
	case tier == isa.AVX512:
		return indexesWithinAVX512(&dst[0], &a[0], done, low, high), done
	}
	return indexesWithinAVX2(&dst[0], &a[0], done, low, high), done
}

//go:noescape
func valuesWithinAVX2(dst *float32, a *float32, n int, low, high float32) (count int)

//go:noescape
func valuesWithinAVX512(dst *float32, a *float32, n int, low, high float32) (count int)

// valuesWithinFast looks at whole rounds of vectors: done values, count of them written.
func valuesWithinFast(dst []float32, a []float32, low, high float32) (count, done int) {
	done = len(a) &^ 63
	tier := isa.Vector()
	switch {
	case done == 0 || tier == isa.Generic:
		return 0, 0
	case tier == isa.AVX512:
		return valuesWithinAVX512(&dst[0], &a[0], done, low, high), done
	}
	return valuesWithinAVX2(&dst[0], &a[0], done, low, high), done
}

//go:noescape
func binsAVX2(dst *uint16, a *float32, n int, top, scale, last float32)

//go:noescape
func binsAVX512(dst *uint16, a *float32, n int, top, scale, last float32)

// binsFast makes the bins of whole rounds of vectors: done values.
func binsFast(dst []uint16, a []float32, top, scale, last float32) (done int) {
	done = len(a) &^ 63
	tier := isa.Vector()
	switch {
	case done == 0 || tier == isa.Generic:
		return 0
	case tier == isa.AVX512:
		binsAVX512(&dst[0], &a[0], done, top, scale, last)
	default:
		binsAVX2(&dst[0], &a[0], done, top, scale, last)
	}
	return done
}

//go:noescape
func expSumAVX2(a *float32, n int, shift, scale float64) (sum float64)

//go:noescape
func expSumAVX512(a *float32, n int, shift, scale float64) (sum float64)

// expSumFast sums up whole rounds of vectors: done values.
func expSumFast(a []float32, shift, scale float64) (sum float64, done int) {
	done = len(a) &^ 63
	tier := isa.Vector()
	switch {
	case done == 0 || tier == isa.Generic:
		return 0, 0
	case tier == isa.AVX512:
		return expSumAVX512(&a[0], done, shift, scale), done
	}
	return expSumAVX2(&a[0], done, shift, scale), done
}

//go:noescape
func roughExpSumAVX2(a *float32, n int, shift, scale float32) (sum float32)

//go:noescape
func roughExpSumAVX512(a *float32, n int, shift, scale float32) (sum float32)

// roughExpSumFast sums up whole rounds of vectors: done values.
func roughExpSumFast(a []float32, shift, scale float32) (sum float32, done int) {
	done = len(a) &^ 63
	tier := isa.Vector()
	switch {
	case done == 0 || tier == isa.Generic:
		return 0, 0
	case tier == isa.AVX512:
		return roughExpSumAVX512(&a[0], done, shift, scale), done
	}
	return roughExpSumAVX2(&a[0], done, shift, scale), done
}

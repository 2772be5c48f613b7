package vec

import "hotpath/internal/kernel/isa"

//go:noescape
func aboveAVX2(dst *int32, a *float32, n int, low float32) (count int)

//go:noescape
func aboveAVX512(dst *int32, a *float32, n int, low float32) (count int)

// aboveFast looks at whole rounds of vectors: done values, count of them above.
func aboveFast(dst []int32, a []float32, low float32) (count, done int) {
	done = len(a) &^ 63
	tier := isa.Vector()
	switch {
	case done == 0 || tier == isa.Generic:
		return 0, 0
	case tier == isa.AVX512:
		return aboveAVX512(&dst[0], &a[0], done, low), done
	}
	return aboveAVX2(&dst[0], &a[0], done, low), done
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

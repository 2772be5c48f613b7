//go:build !amd64

package vec

func indexesWithinFast([]int32, []float32, float32, float32) (count, done int) { return 0, 0 }

func valuesWithinFast([]float32, []float32, float32, float32) (count, done int) { return 0, 0 }

func binsFast([]uint16, []float32, float32, float32, float32) (done int) { return 0 }

func expSumFast([]float32, float64, float64) (sum float64, done int) { return 0, 0 }

func roughExpSumFast([]float32, float32, float32) (sum float32, done int) { return 0, 0 }

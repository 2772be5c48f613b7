//go:build !amd64

package bf16

func packAcrossFast([]uint16, []float32, int, int, int)                          {}
func turnTiles([]uint16, []float32, int, int, int)                               {}
func pairRounded([]uint16, []uint16, int, int)                                   {}
func turnRounded([]uint16, []uint16, int, int)                                   {}
func scoreGrad([]float32, []float32, int, int, int, float32, []float32)          {}
func addOuter([]float32, int, []uint16, int, []uint16, int, int, int, *tileArgs) {}

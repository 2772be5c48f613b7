//go:build !amd64

package bf16

import "hotpath/internal/tensor"

// No other architecture has the AMX tier, so these are never reached.

func packedTiles(*Task, []uint16, []uint16, int, int, int, int, *Scratch)                   {}
func partTiles(*Task, []uint16, int, int, int, int, *Scratch)                               {}
func builtTiles(*Task, []uint16, []uint16, int, int, int, *Scratch)                         {}
func edgeTiles(*Task, []uint16, []uint16, int, int, int, *Scratch)                          {}
func unpackFirst(int) uintptr                                                               { return 0 }
func roundFast([]uint16, []float32, int, int, int)                                          {}
func roundRowFast([]uint16, []float32, int)                                                 {}
func packRowsFast([]uint16, []float32, int, int)                                            {}
func packColsFast([]uint16, []float32, int, int)                                            {}
func packEnd([]uint16, []float32, int, int)                                                 {}
func (*Heads) score(int, int)                                                               {}
func (*Heads) weigh(int, int)                                                               {}
func multiply([]float32, int, []uint16, int, int, int, []uint16, int, int, int, *tileArgs)  {}
func softmaxFast([]uint16, int, []float32, int, int, int, int, float32, []float32)          {}
func divideFast([]float32, int, []float32, int, int, int, []float32)                        {}
func unpackFast(*unpackJob)                                                                 {}
func roundedTiles(*RoundedTask, []uint16, []uint16, []uint16, int, int, int, int, *Scratch) {}
func divideRounded([]uint16, int, int, []float32, int, int, int, []float32)                 {}
func normRows(NormKind, *normArgs)                                                          {}

var unpackKinds, panelKinds map[tensor.DType]int

//go:build !amd64

package amx

func panelTiles(t *Task, b []uint16, m, rows, p int, s *Scratch) { panelGeneric(t, b, m, rows, p, s) }
func roundFast([]uint16, []float32)                              {}
func packRowsFast([]uint16, []float32, int, int)                 {}
func packColsFast([]uint16, []float32, int, int)                 {}

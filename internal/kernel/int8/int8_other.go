//go:build !amd64

package int8

import "hotpath/internal/kernel/cpu"

func familyOf(cpu.Tier) family { return plain }

func panelFast(_ family, t *Task, m, rows, p int, s *Scratch) { panelGeneric(t, m, rows, p, s) }

func quantizeFast(_ family, _ int, _ []int8, _ []float32, _ *float32, _ *int32, _ *float32, _ int) {}

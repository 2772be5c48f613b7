//go:build !amd64 && !arm64

package int8

import "hotpath/internal/kernel/isa"

func familyOf(isa.Tier) family { return plain }

func (f family) suit(formID, int) family { return f }

func panelFast(_ family, t *Task, m, rows, p int, s *Scratch) { panelGeneric(t, m, rows, p, s) }

func (s *Scratch) quantizeFast(family, formID, []float32, int, int, int) {}

package profile

import "golang.org/x/sys/cpu"

// hasWide reports whether addStepWide may be called.
var hasWide = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512CD

// addStepWide is addStepPlain with AVX-512, but that it goes on where something is bad, and
// reports whether a lane has stamps of another run instead of looking at them.
//
//go:noescape
func addStepWide(b *batch, s int, runs uint, lanes []laneSum) (bad, old bool)

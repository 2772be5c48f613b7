package isa

import "golang.org/x/sys/cpu"

// detect asks for the dot products only: NEON is part of the architecture.
func detect() (h [numTiers]bool) {
	h[Generic], h[NEON] = true, true
	h[DotProd] = cpu.ARM64.HasASIMDDP
	return h
}

// brand is left to the system: the processor has a number, not a name.
func brand() string { return "" }

// features names what later tiers build on, for people to read.
func features() []string {
	x := &cpu.ARM64
	var fs []string
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"neon", true}, {"fp16", x.HasASIMDHP}, {"dotprod", x.HasASIMDDP}, {"i8mm", x.HasI8MM}, {"sve", x.HasSVE}, {"sve2", x.HasSVE2},
	} {
		if f.has {
			fs = append(fs, f.name)
		}
	}
	return fs
}

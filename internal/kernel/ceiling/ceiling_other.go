//go:build !amd64 && !arm64

package ceiling

import "hotpath/internal/kernel/isa"

func fma(_ isa.Tier, n int) (flops float64) { return fmaGeneric(n) }

func dot(_ isa.Tier, n int) (ops float64) { return dotGeneric(n) }

func tiles(string, int) (ops float64) { return 0 }

func read(_ isa.Tier, b []byte) { readGeneric(b) }

func pairs(_ isa.Tier, n int) float64 { return dotGeneric(n) }

func stream(t isa.Tier, b []byte) { read(t, b) }
func wide(t isa.Tier, b []byte)   { read(t, b) }

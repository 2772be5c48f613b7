//go:build !amd64 && !arm64

package ceiling

import "hotpath/internal/kernel/cpu"

func fma(_ cpu.Tier, n int) (flops float64) { return fmaGeneric(n) }

func dot(_ cpu.Tier, n int) (ops float64) { return dotGeneric(n) }

func tiles(string, int) (ops float64) { return 0 }

func read(_ cpu.Tier, b []byte) { readGeneric(b) }

func pairs(_ cpu.Tier, n int) float64 { return dotGeneric(n) }

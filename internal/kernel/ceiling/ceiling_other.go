//go:build !amd64

package ceiling

import "hotpath/internal/kernel/cpu"

func fma(_ cpu.Tier, n int) (flops float64) { return fmaGeneric(n) }

func read(_ cpu.Tier, b []byte) { readGeneric(b) }

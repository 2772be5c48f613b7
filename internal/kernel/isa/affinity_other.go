//go:build !linux

package isa

import "runtime"

func affinity() int { return runtime.NumCPU() }

//go:build !linux

package isa

// permitAMX knows no other system's way.
func permitAMX() bool { return false }

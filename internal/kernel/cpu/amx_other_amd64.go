//go:build !linux

package cpu

// permitAMX knows no other system's way.
func permitAMX() bool { return false }

//go:build !linux

package cpu

// adviseLarge leaves it to the system, which has its own ways.
func adviseLarge([]byte) {}

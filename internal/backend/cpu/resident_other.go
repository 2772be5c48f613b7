//go:build !linux

package cpu

// adviseLarge does nothing: the system chooses the page size.
func adviseLarge([]byte) {}

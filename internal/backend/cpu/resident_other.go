//go:build !linux

package cpu

// adviseLarge does nothing: the system chooses the page size.
func adviseLarge([]byte) {}

// renew does nothing: only Linux returns zeroed pages.
func renew([]byte) {}

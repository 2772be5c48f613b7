//go:build unix && !linux

package ceiling

// adviseLarge does nothing: the system chooses the page size.
func adviseLarge([]byte) {}

//go:build !(linux || darwin || freebsd || netbsd || dragonfly)

package pull

// freeSpace is unknown here.
func freeSpace(string) int64 { return -1 }

//go:build !amd64

package vec

// Fetch would ask for the cache lines of a; there is no kernel for that here.
func Fetch[T byte | float32](a []T) {}

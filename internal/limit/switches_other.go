//go:build !unix

package limit

// switches is not known.
var switches func() (n int64, ok bool)

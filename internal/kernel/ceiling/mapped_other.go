//go:build !unix

package ceiling

// mapped falls back to the Go heap.
func mapped(bytes int) (buf []byte, free func()) { return make([]byte, bytes), func() {} }

//go:build unix

package ceiling

import "golang.org/x/sys/unix"

// mapped gives zeroed pages, large ones where the system has them, as packed weights
// have, off the Go heap, which would keep them for long after and count them as the
// program's own. free gives them back; where the system has none to map they are the
// heap's after all.
func mapped(bytes int) (buf []byte, free func()) {
	b, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return make([]byte, bytes), func() {}
	}
	adviseLarge(b)
	return b, func() { _ = unix.Munmap(b) } // the address and the length are Mmap's own
}

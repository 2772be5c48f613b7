package cpu

import "golang.org/x/sys/unix"

// adviseLarge asks for large pages. Where there are none, small ones do.
func adviseLarge(mem []byte) { _ = unix.Madvise(mem, unix.MADV_HUGEPAGE) }

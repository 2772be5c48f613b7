package cpu

import "golang.org/x/sys/unix"

// adviseLarge asks for large pages. If there are none, the system uses small
// ones.
func adviseLarge(mem []byte) { _ = unix.Madvise(mem, unix.MADV_HUGEPAGE) }

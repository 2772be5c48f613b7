package ceiling

import "golang.org/x/sys/unix"

// adviseLarge asks for large pages, as weights have them. Filling memory takes a
// third of the time with them.
func adviseLarge(mem []byte) { _ = unix.Madvise(mem, unix.MADV_HUGEPAGE) }

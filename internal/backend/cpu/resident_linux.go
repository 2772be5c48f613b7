package cpu

import "golang.org/x/sys/unix"

// adviseLarge asks for large pages. If there are none, the system uses small
// ones.
func adviseLarge(mem []byte) { _ = unix.Madvise(mem, unix.MADV_HUGEPAGE) }

// renew gives zeroed memory back to the system, which returns it zeroed when it is next
// touched, then in large pages. Go zeroes heap memory that had another use before, and
// that leaves small pages.
func renew(mem []byte) { _ = unix.Madvise(mem, unix.MADV_DONTNEED) }

package isa

import "golang.org/x/sys/unix"

const (
	archReqXCompPerm = 0x1023 // ARCH_REQ_XCOMP_PERM
	xfeatureTileData = 18
)

// permitAMX asks Linux for the tile registers, once and for the whole
// process: without it the first tile instruction raises SIGILL.
func permitAMX() bool {
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, archReqXCompPerm, xfeatureTileData, 0)
	return errno == 0
}

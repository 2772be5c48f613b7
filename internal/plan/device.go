package plan

import "errors"

// ErrDevice matches every error of a device or of its driver, of whichever kind.
var ErrDevice = errors.New("device")

// DeviceError is the error that a kind of device wraps in its own: its text is the kind,
// and it matches ErrDevice.
type DeviceError string

func (e DeviceError) Error() string { return string(e) }

// Is makes errors.Is(e, ErrDevice) true.
func (DeviceError) Is(target error) bool { return target == ErrDevice }

// MemoryCounts is what a device's pool has taken from the driver so far.
type MemoryCounts struct {
	Allocations int              // calls of the driver
	Held        int64            // bytes that the pool has from the driver
	Used        int64            // bytes of Held that somebody has from the pool
	ByClass     map[string]int64 // Used by the class of memory: weights, state, io, ...
}

// Counter is a Backend whose memory comes from a pool.
type Counter interface {
	Allocations() int // of MemoryCounts, at no cost
	MemoryCounts() MemoryCounts
}

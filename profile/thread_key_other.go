//go:build !linux || !amd64

package profile

import "sync/atomic"

const hasThreadKey = false

func threadKey() uint64 { return 0 }

func readLane(*atomic.Uint32) (count, thread uint64, version uint32) { return 0, 0, 0 }

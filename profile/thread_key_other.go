//go:build !linux || !amd64

package profile

const hasThreadKey = false

func threadKey() uint64 { return 0 }

func lookLane(*LaneClock) (now int64, kept bool) { return 0, false }

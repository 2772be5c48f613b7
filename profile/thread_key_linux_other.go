//go:build linux && !amd64

package profile

const hasThreadKey = false

func threadKey() uint64 { return 0 }

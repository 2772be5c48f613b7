//go:build !linux

package profile

// threadClock says nothing here.
func threadClock() (id int32, cpu int64) { return 0, 0 }

type threadWatch struct{ id int32 }

func startWatching() {}

func watchThread(int32) *threadWatch { return nil }
func (*threadWatch) version() uint32 { return 0 }
func (*threadWatch) exact() bool     { return false }

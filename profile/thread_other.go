//go:build !linux

package profile

// currentThread says nothing here.
func currentThread() int32 { return 0 }

func threadTime() int64 { return 0 }

type threadWatch struct{ id int32 }

func startWatching() {}

func watchThread(int32) *threadWatch              { return nil }
func (*threadWatch) see()                         {}
func (*threadWatch) version() uint32              { return 0 }
func (*threadWatch) exact() bool                  { return false }
func (*threadWatch) time(_ uint32, _ int64) int64 { return 0 }

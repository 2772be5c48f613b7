//go:build !linux

package profile

import "sync/atomic"

// currentThread says nothing here.
func currentThread() uint64 { return 0 }

func currentThreadID() int32 { return 0 }

func threadTime() int64 { return 0 }

type threadWatch struct {
	key  uint64
	page *atomic.Uint32
}

func startWatching() {}

func watchThread(uint64) *threadWatch             { return nil }
func (*threadWatch) mark()                        {}
func (*threadWatch) doubt()                       {}
func (*threadWatch) version() uint32              { return 0 }
func (*threadWatch) exact() bool                  { return false }
func (*threadWatch) time(_ uint32, _ int64) int64 { return 0 }

// Package group waits for goroutines whose panics their caller can recover from.
//
// It imports nothing of ours. Whatever shares work among goroutines of its own
// uses it: a panic on a goroutine that nobody recovers on ends the process.
package group

import (
	"sync"
	"sync/atomic"
)

// Group is a sync.WaitGroup for functions that may panic. The zero value is ready.
type Group struct {
	all      sync.WaitGroup
	panicked atomic.Pointer[any]
}

// Go calls f on a new goroutine.
func (g *Group) Go(f func()) {
	g.all.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				g.panicked.CompareAndSwap(nil, &p)
			}
		}()
		f()
	})
}

// Wait waits for all functions. If one panicked, Wait panics with the first value.
func (g *Group) Wait() {
	g.all.Wait()
	if p := g.panicked.Load(); p != nil {
		panic(*p)
	}
}

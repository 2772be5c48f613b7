package profile

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// A hundred goroutines open 10,000 nested scopes each: every one is counted,
// and each lies under the one that its own goroutine opened before it.
func TestMillionScopes(t *testing.T) {
	const goroutines, loops, depth = 100, 1000, 10
	rec := NewRecorder(Options{ScopeEvents: goroutines*(loops*depth+1) + 1})
	ctx := WithRecorder(context.Background(), rec)
	names := make([]string, depth)
	for i := range names {
		names[i] = fmt.Sprintf("level %d", i)
	}
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			top, endTop := Scope(ctx, fmt.Sprintf("goroutine %d", g))
			defer endTop()
			var ends [depth]func()
			for range loops {
				at := top
				for i := range depth {
					at, ends[i] = Scope(at, names[i])
				}
				for i := range depth {
					ends[depth-1-i]()
				}
			}
		})
	}
	all.Wait()
	p := rec.Snapshot()
	if len(p.Scopes) != goroutines*(depth+1) {
		t.Fatalf("%d paths, want %d", len(p.Scopes), goroutines*(depth+1))
	}
	for i, s := range p.Scopes {
		want := int64(loops)
		if s.Parent < 0 {
			want = 1
		}
		if s.Calls != want || s.Open != 0 || s.Self < 0 || s.Self > s.Total {
			t.Fatalf("%s: %d calls, %d open, self %d of %d; want %d calls", scopePath(p, i), s.Calls, s.Open, s.Self, s.Total, want)
		}
	}
	const events = goroutines * (loops*depth + 1)
	if len(p.ScopeEvents) != events {
		t.Fatalf("%d events, want %d", len(p.ScopeEvents), events)
	}
	scopeOf := make([]int, events+1) // by frame
	for i := range scopeOf {
		scopeOf[i] = -2
	}
	scopeOf[0] = -1 // of no frame: the top
	for _, e := range p.ScopeEvents {
		if scopeOf[e.Frame] != -2 {
			t.Fatalf("frame %d closed twice", e.Frame)
		}
		scopeOf[e.Frame] = e.Scope
	}
	for _, e := range p.ScopeEvents {
		if got, want := scopeOf[e.Under], p.Scopes[e.Scope].Parent; got != want {
			t.Fatalf("a frame of %s lies under a frame of scope %d, want %d", scopePath(p, e.Scope), got, want)
		}
	}
}

// Recursion of 10,000 levels counts its time once.
func TestDeepRecursion(t *testing.T) {
	rec, clock := recorderWithClock(Options{})
	ctx := WithRecorder(context.Background(), rec)
	const depth = 10_000
	ends := make([]func(), depth)
	for i := range ends {
		ctx, ends[i] = Scope(ctx, "again")
		clock.advance(1)
	}
	for i := range ends {
		clock.advance(1)
		ends[depth-1-i]()
	}
	checkScopes(t, rec.Snapshot(), map[string]scopeTimes{"/again": {depth, 2 * depth, 2 * depth}})
}

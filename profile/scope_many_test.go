package profile

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// A hundred goroutines open 10,000 nested scopes each: every one is counted,
// and each lies under the one that its own goroutine opened before it.
func TestMillionScopes(t *testing.T) {
	const goroutines, depth = 100, 10
	loops := 1000
	if testing.Short() {
		loops = 100 // make race runs all
	}
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
	events := goroutines * (loops*depth + 1)
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

func TestScopeQueries(t *testing.T) {
	p := fixture(t)
	if top := p.TopScopes(2); len(top) != 2 || top[0].Name != "tokenize" || top[1].Name != "batch" {
		t.Errorf("top scopes %+v", top)
	}
	if len(p.TopScopes(0)) != len(p.Scopes) {
		t.Error("not all scopes")
	}
	if got := p.ScopesByName("pack"); len(got) != 1 || got[0].Total != 5_000 {
		t.Errorf("pack is %+v", got)
	}
	if got := p.ScopesWhere(func(s *ScopeStats) bool { return s.Parent < 0 }); len(got) != 1 || got[0].Name != "serve" {
		t.Errorf("at the top is %+v", got)
	}
}

// Every report says what recording cost, measured or estimated.
func TestOverheadIsAlwaysSaid(t *testing.T) {
	rec := NewRecorder(Options{})
	h := mustPlan(t, rec, testPlan())
	r := h.Acquire()
	stampTestRun(r, 1)
	if err := h.Release(r); err != nil {
		t.Fatal(err)
	}
	p := rec.Snapshot()
	// Folding takes time beyond the run, stamps take some of it.
	if o := p.Overhead; o == nil || !o.Estimated || o.With <= testWall || o.Without >= testWall || o.Without < 0 {
		t.Errorf("overhead %+v", o)
	}
	var b strings.Builder
	if err := Readers.Text(&b, p); err != nil || !strings.Contains(b.String(), "estimated") {
		t.Errorf("%v: the report does not say what recording cost", err)
	}
	rec.SetOverhead(Overhead{With: 101, Without: 100, Runs: 1})
	if o := rec.Snapshot().Overhead; o.Estimated || o.Percent() != 1 {
		t.Errorf("overhead %+v, want what was measured", o)
	}
}

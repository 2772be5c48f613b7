package profile

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// ticks is a clock that moves only when a test says so.
type ticks struct{ t atomic.Int64 }

func (c *ticks) advance(d int64) { c.t.Add(d) }

func recorderWithClock(opts Options) (*Recorder, *ticks) {
	rec, c := NewRecorder(opts), &ticks{}
	c.t.Store(1000)
	rec.scopes.now = c.t.Load
	return rec, c
}

func scopePath(p *Profile, id int) string {
	path := ""
	for ; id >= 0; id = p.Scopes[id].Parent {
		path = "/" + p.Scopes[id].Name + path
	}
	return path
}

type scopeTimes struct{ calls, total, self int64 }

func checkScopes(t *testing.T, p *Profile, want map[string]scopeTimes) {
	t.Helper()
	for i, s := range p.Scopes {
		path := scopePath(p, i)
		if got := (scopeTimes{s.Calls, s.Total, s.Self}); got != want[path] {
			t.Errorf("%s: %+v, want %+v", path, got, want[path])
		}
	}
	if len(p.Scopes) != len(want) {
		t.Errorf("%d scopes, want %d", len(p.Scopes), len(want))
	}
}

func TestScopesNest(t *testing.T) {
	rec, clock := recorderWithClock(Options{})
	ctx := WithRecorder(context.Background(), rec)
	a, endA := Scope(ctx, "a")
	clock.advance(10)
	for range 2 {
		_, endB := Scope(a, "b")
		clock.advance(5)
		endB()
		endB() // a second call does nothing
		clock.advance(1)
	}
	endA()
	_, endB := Scope(ctx, "b")
	clock.advance(3)
	endB()
	checkScopes(t, rec.Snapshot(), map[string]scopeTimes{"/a": {1, 22, 12}, "/a/b": {2, 10, 10}, "/b": {1, 3, 3}})
}

// Children that run at the same time cover their parent once; one that
// outlives it covers it to its end.
func TestParallelScopesCoverOnce(t *testing.T) {
	rec, clock := recorderWithClock(Options{})
	a, endA := Scope(WithRecorder(context.Background(), rec), "a")
	clock.advance(1)
	_, end1 := Scope(a, "x")
	clock.advance(10)
	_, end2 := Scope(a, "y")
	clock.advance(10)
	end1()
	clock.advance(10)
	end2()
	clock.advance(2)
	_, end3 := Scope(a, "late")
	clock.advance(4)
	endA()
	clock.advance(100)
	end3()
	checkScopes(t, rec.Snapshot(), map[string]scopeTimes{
		"/a": {1, 37, 3}, "/a/x": {1, 20, 20}, "/a/y": {1, 20, 20}, "/a/late": {1, 104, 104}})
}

// A scope that is never closed takes nothing from its parent, whose other children
// cover it as if the leaked one were not there. The report says that it is open.
func TestLeakedScopeLeavesItsParent(t *testing.T) {
	rec, clock := recorderWithClock(Options{})
	a, endA := Scope(WithRecorder(context.Background(), rec), "a")
	clock.advance(1)
	Scope(a, "leaked")
	clock.advance(10)
	for range 3000 { // more than are kept one by one
		_, end := Scope(a, "x")
		clock.advance(2)
		end()
		clock.advance(1)
	}
	endA()
	p := rec.Snapshot()
	checkScopes(t, p, map[string]scopeTimes{"/a": {1, 9011, 3011}, "/a/leaked": {}, "/a/x": {3000, 6000, 6000}})
	for i := range p.Scopes {
		if s := &p.Scopes[i]; (s.Name == "leaked") != (s.Open == 1) {
			t.Errorf("%s: %d open", s.Name, s.Open)
		}
	}
}

func TestRecursionCountsOnce(t *testing.T) {
	rec, clock := recorderWithClock(Options{})
	var walk func(ctx context.Context, depth int)
	walk = func(ctx context.Context, depth int) {
		ctx, end := Scope(ctx, "walk")
		defer end()
		clock.advance(1)
		if depth > 0 {
			ctx, end := Scope(ctx, "step")
			clock.advance(1)
			walk(ctx, depth-1)
			end()
		}
	}
	walk(WithRecorder(context.Background(), rec), 3)
	checkScopes(t, rec.Snapshot(), map[string]scopeTimes{"/walk": {4, 7, 4}, "/walk/step": {3, 6, 3}})
}

func TestScopesOfManyGoroutines(t *testing.T) {
	rec := NewRecorder(Options{ScopeEvents: 100})
	root, endRoot := Scope(WithRecorder(context.Background(), rec), "root")
	const goroutines, loops = 100, 20
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			ctx, end := Scope(root, fmt.Sprintf("kind %d", g%4))
			defer end()
			for range loops {
				inner, endInner := Scope(ctx, "inner")
				_, endLeaf := Scope(inner, "leaf")
				endLeaf()
				endInner()
			}
		})
	}
	wg.Wait()
	endRoot()
	p := rec.Snapshot()
	if len(p.Scopes) != 1+4+4+4 {
		t.Fatalf("%d scopes, want 13", len(p.Scopes))
	}
	// Each total is self and the children's totals, since within one of these
	// goroutines nothing runs in parallel.
	childTotal := make([]int64, len(p.Scopes))
	for _, s := range p.Scopes {
		if s.Parent >= 0 {
			childTotal[s.Parent] += s.Total
		}
	}
	for i, s := range p.Scopes {
		want := int64(1)
		switch s.Name {
		case "inner", "leaf":
			want = goroutines / 4 * loops
		case "kind 0", "kind 1", "kind 2", "kind 3":
			want = goroutines / 4
		}
		if s.Calls != want || s.Open != 0 {
			t.Errorf("%s: %d calls and %d open, want %d and 0", scopePath(p, i), s.Calls, s.Open, want)
		}
		if s.Self < 0 || s.Name != "root" && s.Self+childTotal[i] != s.Total {
			t.Errorf("%s: self %d and children %d make %d", scopePath(p, i), s.Self, childTotal[i], s.Total)
		}
	}
	if len(p.ScopeEvents) != 100 {
		t.Errorf("kept %d events, want 100", len(p.ScopeEvents))
	}
}

func TestScopePathsAreBounded(t *testing.T) {
	rec, clock := recorderWithClock(Options{Scopes: 3})
	ctx := WithRecorder(context.Background(), rec)
	for i := range 10 {
		_, end := Scope(ctx, fmt.Sprint(i))
		clock.advance(1)
		end()
	}
	p := rec.Snapshot()
	if n := len(p.Scopes); n != 4 || p.Scopes[3].Name != otherScopes || p.Scopes[3].Calls != 7 || len(p.Warnings) != 1 {
		t.Errorf("%d scopes, last %+v, warnings %q", n, p.Scopes[n-1], p.Warnings)
	}
}

func TestScopeWithoutRecorder(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(context.Background(), key{}, 1)
	WithRecorder(ctx, NewRecorder(Options{})) // recorders exist, but not in ctx
	if n := testing.AllocsPerRun(100, func() {
		got, end := Scope(ctx, "nothing")
		end()
		if got != ctx {
			t.Fatal("the context changed")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	if RecorderFrom(ctx) != nil || WithRecorder(ctx, nil) != ctx {
		t.Error("a recorder came from nowhere")
	}
	rec := NewRecorder(Options{})
	in, end := Scope(WithRecorder(ctx, rec), "a")
	defer end()
	if RecorderFrom(in) != rec || in.Value(key{}) != 1 {
		t.Error("the scope's context lost the recorder or a value")
	}
}

// BenchmarkScopeDisabled opens and closes scopes in a function, as any program
// does: the benchmark's own loop keeps what it assigns in memory, which costs as
// much again as the test and the jump of a scope.
func BenchmarkScopeDisabled(b *testing.B) {
	was := anyRecorder.Swap(0)
	defer anyRecorder.Store(was)
	ctx := context.Background()
	const scopes = 1000
	for b.Loop() {
		openAndClose(ctx, scopes)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/scopes, "ns/scope")
}

//go:noinline
func openAndClose(ctx context.Context, scopes int) {
	for range scopes {
		_, end := Scope(ctx, "a")
		end()
	}
}

func BenchmarkScope(b *testing.B) {
	ctx := WithRecorder(context.Background(), NewRecorder(Options{}))
	for b.Loop() {
		_, end := Scope(ctx, "x")
		end()
	}
}

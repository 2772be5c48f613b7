package profile

import (
	"context"
	"sync"
	"sync/atomic"
)

// anyRecorder is set by the first WithRecorder of the process. Until then a
// scope does not even look into its context. A Uint32 is read in fewer steps
// than a Bool, which leaves Scope small enough to be inlined.
var anyRecorder atomic.Uint32

func noEnd() {}

type frameKey struct{}

// scopeFrame is one open scope, and the context that carries it to children.
//
// Self time is the time in which no child of this frame was open. Children that were
// never closed do not count.
type scopeFrame struct {
	context.Context
	tree   *scopeTree
	node   *scopeNode
	parent *scopeFrame // nil for the frame that WithRecorder makes
	id     uint64
	start  int64
	inner  bool      // an enclosing frame has the same node: recursion
	heap   HeapCount // when it was opened, where asked for

	mu     sync.Mutex  // taken before the parent's, never after
	open   *scopeFrame // the latest of the open children, which are a list
	done   []stretch   // of children that ended, apart from each other and in order, those after what folded has
	folded int64       // what done has no more: spans that no open child reaches
	closed bool
	ended  int64 // when it was closed

	older, newer *scopeFrame // of the parent's open children; the parent's lock guards them
}

// stretch is a part of time.
type stretch struct{ from, to int64 }

// maxSpans bounds the stretches that a frame keeps because a child is open since
// before them: a scope that is never closed must not cost more and more.
const (
	maxSpans  = 1024
	foldSpans = 64 // from which on those are summed up that no open child reaches
)

// Value finds the innermost frame and leaves all else to the parent context.
func (f *scopeFrame) Value(key any) any {
	if _, ok := key.(frameKey); ok {
		return f
	}
	return f.Context.Value(key)
}

// WithRecorder returns a context whose scopes are recorded by rec.
func WithRecorder(ctx context.Context, rec *Recorder) context.Context {
	if rec.none() {
		return ctx
	}
	anyRecorder.Store(1)
	return &scopeFrame{Context: ctx, tree: &rec.scopes, node: rec.scopes.root}
}

// RecorderFrom is the recorder that WithRecorder put into the context, or nil.
func RecorderFrom(ctx context.Context) *Recorder {
	if anyRecorder.Load() == 0 {
		return nil
	}
	f, _ := ctx.Value(frameKey{}).(*scopeFrame)
	if f == nil {
		return nil
	}
	return f.tree.rec
}

// Scope opens a scope under the one that ctx carries. The returned function
// closes it; calls after the first do nothing. Without a recorder in ctx it
// costs next to nothing.
//
//	ctx, end := profile.Scope(ctx, "load batch")
//	defer end()
func Scope(ctx context.Context, name string) (inner context.Context, end func()) {
	inner, end = ctx, noEnd
	if anyRecorder.Load() != 0 {
		inner, end = openScope(ctx, name)
	}
	return // in this form the compiler inlines it
}

func openScope(ctx context.Context, name string) (context.Context, func()) {
	parent, _ := ctx.(*scopeFrame)
	if parent == nil {
		if parent, _ = ctx.Value(frameKey{}).(*scopeFrame); parent == nil {
			return ctx, noEnd
		}
	}
	f := &scopeFrame{Context: ctx, tree: parent.tree, parent: parent}
	f.node = f.tree.child(parent.node, name)
	f.id = f.tree.frames.Add(1)
	for up := parent; up != nil && !f.inner; up = up.parent {
		f.inner = up.node == f.node
	}
	f.node.open.Add(1)
	if f.tree.rec.opts.Heap {
		f.heap = readHeap()
	}
	parent.mu.Lock()
	f.start = f.tree.now()
	parent.childOpened(f)
	parent.mu.Unlock()
	if parent.node == f.tree.root {
		f.tree.top.begin(f.start)
	}
	return f, f.end
}

func (f *scopeFrame) childOpened(c *scopeFrame) {
	if c.older = f.open; c.older != nil {
		c.older.newer = c
	}
	f.open = c
}

// childLeft takes a child out of the list of those that are open.
func (f *scopeFrame) childLeft(c *scopeFrame) {
	if c.older != nil {
		c.older.newer = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		f.open = c.older
	}
	c.older, c.newer = nil, nil
}

// childClosed adds the time of a child to the covered time. Children that run at
// the same time cover their parent once. A child that outlives its parent covers
// the parent up to the parent's end. This is known only now, so it is subtracted
// from the parent's own time.
func (f *scopeFrame) childClosed(c *scopeFrame, t int64) {
	f.childLeft(c)
	if !f.closed {
		f.cover(c.start, t)
		return
	}
	if c.start < f.ended {
		before := f.coveredTime()
		f.cover(c.start, f.ended)
		f.node.mu.Lock()
		f.node.self -= f.coveredTime() - before
		f.node.mu.Unlock()
	}
}

// cover adds an interval that does not end before the intervals added so far.
func (f *scopeFrame) cover(from, to int64) {
	i := len(f.done)
	for i > 0 && f.done[i-1].to >= from {
		i--
		from = min(from, f.done[i].from)
	}
	f.done = append(f.done[:i], stretch{from, to})
	if len(f.done) < foldSpans {
		return
	}
	oldest := to // of the children that are open
	for c := f.open; c != nil; c = c.older {
		oldest = min(oldest, c.start)
	}
	for len(f.done) > 0 && (f.done[0].to <= oldest || len(f.done) > maxSpans) {
		f.folded += f.done[0].to - f.done[0].from
		f.done = f.done[1:]
	}
}

// coveredTime is the time in which a child was open that has ended. A child that
// is still open may have been forgotten, so it covers nothing.
func (f *scopeFrame) coveredTime() int64 {
	sum := f.folded
	for _, s := range f.done {
		sum += s.to - s.from
	}
	return sum
}

func (f *scopeFrame) end() {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return
	}
	f.closed = true
	// One reading closes this frame and uncovers the parent, under both locks:
	// no moment is counted twice or lost between them.
	f.parent.mu.Lock()
	t := f.tree.now()
	f.parent.childClosed(f, t)
	f.ended = t
	f.parent.mu.Unlock()
	if f.parent.node == f.tree.root {
		f.tree.top.end(t)
	}
	covered := f.coveredTime()
	f.mu.Unlock()
	f.tree.record(f, t, covered)
}

// scopeNode is one path in the tree of scopes.
type scopeNode struct {
	id     int
	parent *scopeNode
	name   string
	open   atomic.Int64
	recent atomic.Pointer[scopeNode] // the child that was found last

	mu          sync.Mutex
	call        histogram
	total, self int64
	heap        HeapCount
}

type scopeKey struct {
	parent int
	name   string
}

// otherScopes takes in the scopes beyond Options.Scopes.
const otherScopes = "(other scopes)"

type scopeTree struct {
	rec    *Recorder
	now    func() int64 // Now, or the clock of a test
	frames atomic.Uint64
	root   *scopeNode // id -1, of the frames that WithRecorder makes

	mu    sync.RWMutex
	limit int
	nodes []*scopeNode // [id]
	index map[scopeKey]*scopeNode

	top union // of the scopes without a parent

	eventMu sync.Mutex
	events  *keeper[ScopeEvent]
}

func (t *scopeTree) init(rec *Recorder) {
	t.rec, t.now, t.limit = rec, Now, rec.opts.Scopes
	t.root = &scopeNode{id: -1}
	t.index = map[scopeKey]*scopeNode{}
	t.events = newKeeper[ScopeEvent](rec.opts.ScopeEvents)
}

// child finds the node of a scope that is opened under parent. If the name is already
// on the path, the scope is recursive and has the same node, so that the tree stays
// finite and no time is counted twice in a total.
func (t *scopeTree) child(parent *scopeNode, name string) *scopeNode {
	for up := parent; up != t.root; up = up.parent {
		if up.name == name {
			return up
		}
	}
	if n := parent.recent.Load(); n != nil && n.name == name {
		return n
	}
	key := scopeKey{parent.id, name}
	t.mu.RLock()
	n := t.index[key]
	t.mu.RUnlock()
	if n != nil {
		parent.recent.Store(n)
		return n
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n = t.index[key]; n != nil {
		return n
	}
	if len(t.nodes) >= t.limit {
		parent, key = t.root, scopeKey{t.root.id, otherScopes}
		if n = t.index[key]; n != nil {
			return n
		}
	}
	n = &scopeNode{id: len(t.nodes), parent: parent, name: key.name}
	t.nodes = append(t.nodes, n)
	t.index[key] = n
	return n
}

func (t *scopeTree) record(f *scopeFrame, end, covered int64) {
	n, elapsed := f.node, end-f.start
	var heap HeapCount
	if t.rec.opts.Heap {
		heap = readHeap().minus(f.heap)
	}
	n.open.Add(-1)
	n.mu.Lock()
	n.call.addValue(elapsed)
	n.self += elapsed - covered
	if !f.inner {
		n.total += elapsed
		n.heap.addCount(heap)
	}
	n.mu.Unlock()
	t.eventMu.Lock()
	t.events.keep(ScopeEvent{Scope: n.id, Frame: f.id, Under: f.parent.id, Start: f.start, End: end})
	t.eventMu.Unlock()
}

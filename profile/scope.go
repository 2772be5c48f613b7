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
// Self time is the time in which no child of this very frame is open. It is
// counted by a number of open children and the moment when it left zero, so
// children that run at the same time cover their parent once.
type scopeFrame struct {
	context.Context
	tree   *scopeTree
	node   *scopeNode
	parent *scopeFrame // nil for the frame that WithRecorder makes
	id     uint64
	start  int64
	inner  bool      // an enclosing frame has the same node: recursion
	heap   HeapCount // when it was opened, where asked for

	mu       sync.Mutex // taken before the parent's, never after
	children int
	since    int64 // when children left zero
	covered  int64 // closed intervals with children
	closed   bool
}

// Value finds the innermost frame and leaves all else to the parent context.
func (f *scopeFrame) Value(key any) any {
	if _, ok := key.(frameKey); ok {
		return f
	}
	return f.Context.Value(key)
}

// WithRecorder returns a context whose scopes are recorded by rec.
func WithRecorder(ctx context.Context, rec *Recorder) context.Context {
	if rec == nil {
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
	parent, _ := ctx.Value(frameKey{}).(*scopeFrame)
	if parent == nil {
		return ctx, noEnd
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
	parent.childOpened(f.start)
	parent.mu.Unlock()
	if parent.node == f.tree.root {
		f.tree.top.begin(f.start)
	}
	return f, f.end
}

func (f *scopeFrame) childOpened(t int64) {
	if f.children == 0 {
		f.since = t
	}
	f.children++
}

func (f *scopeFrame) childClosed(t int64) {
	f.children--
	if f.children == 0 && !f.closed {
		f.covered += t - f.since
	}
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
	f.parent.childClosed(t)
	f.parent.mu.Unlock()
	if f.parent.node == f.tree.root {
		f.tree.top.end(t)
	}
	if f.children > 0 { // they outlive this frame, which they cover to its end
		f.covered += t - f.since
	}
	covered := f.covered
	f.mu.Unlock()
	f.tree.record(f, t, covered)
}

// scopeNode is one path in the tree of scopes.
type scopeNode struct {
	id     int
	parent *scopeNode
	name   string
	open   atomic.Int64

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

// child finds the node of a scope opened under parent. A name that is already
// on the path is recursion and goes back to that node, so the tree stays
// finite and a total is never counted inside itself.
func (t *scopeTree) child(parent *scopeNode, name string) *scopeNode {
	for up := parent; up != t.root; up = up.parent {
		if up.name == name {
			return up
		}
	}
	key := scopeKey{parent.id, name}
	t.mu.RLock()
	n := t.index[key]
	t.mu.RUnlock()
	if n != nil {
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
	n.call.add(elapsed)
	n.self += elapsed - covered
	if !f.inner {
		n.total += elapsed
		n.heap.add(heap)
	}
	n.mu.Unlock()
	t.eventMu.Lock()
	t.events.add(ScopeEvent{Scope: n.id, Frame: f.id, Under: f.parent.id, Start: f.start, End: end})
	t.eventMu.Unlock()
}

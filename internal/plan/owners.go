package plan

import (
	"cmp"
	"slices"

	"hotpath/internal/graph"
)

// Scratched is an Exec whose workers have scratch of their own.
type Scratched interface {
	// EachScratch calls f with all of it.
	EachScratch(f func(mem []byte))
}

// Mapped is a Source whose weights lie in mapped files.
type Mapped interface {
	// EachMapping calls f with the memory of each file, and a name for it.
	EachMapping(f func(name string, mem []byte))
}

// own tells the recorder of the session's memory.
func (s *Session) own() {
	s.eachMemory(func(owner string, mem []byte) {
		s.rec.Own(owner, mem)
		s.owned = append(s.owned, mem)
	})
	s.ownWeights()
}

// disown removes the session's memory from the recorder.
func (s *Session) disown() {
	for _, mem := range s.owned {
		s.rec.Disown(mem)
	}
	s.owned = nil
}

// eachMemory calls f with all memory that the session holds, and the names of its
// owners. Memory that sessions share has the same pieces in all of them.
func (s *Session) eachMemory(f func(owner string, mem []byte)) {
	for c, a := range s.mem.Arenas {
		if c := Class(c); a != nil && c != State {
			f(s.prog.Name+" "+c.String(), a.Host())
		}
	}
	for _, sl := range s.slots {
		if a := sl.mem.Arenas[IO]; a != nil {
			f(s.prog.Name+" "+IO.String(), a.Host())
		}
		for _, e := range sl.execs {
			if e, ok := e.(Scratched); ok {
				e.EachScratch(func(mem []byte) { f(s.prog.Name+" worker scratch", mem) })
			}
		}
	}
	s.eachState(func(what string, mem []byte) { f(s.prog.Name+" "+what, mem) })
	if m, ok := s.ws.source.(Mapped); ok {
		m.EachMapping(func(name string, mem []byte) { f("weights, "+name, mem) })
	}
}

// stateNames are the owners of state that is no weight.
var stateNames = map[graph.Role]string{graph.RoleKV: "KV cache", graph.RoleMoment: "moments", graph.RoleGrad: "gradients"}

// eachState calls f with the pieces of the state's memory: from one leaf to the next
// one of another kind.
func (s *Session) eachState(f func(what string, mem []byte)) {
	if s.state == nil || len(s.state.arena.Host()) == 0 {
		return
	}
	mem, pl := s.state.arena.Host(), s.prog.Plans[0]
	states := s.prog.states()
	slices.SortFunc(states, func(a, b *graph.Value) int { return cmp.Compare(pl.Place(a).Offset, pl.Place(b).Offset) })
	var begin int64
	for i, v := range states {
		what := func(v *graph.Value) string { return cmp.Or(stateNames[v.Node.Leaf.Role], "weights") }
		end := int64(len(mem))
		if i+1 < len(states) {
			if end = pl.Place(states[i+1]).Offset; what(states[i+1]) == what(v) {
				continue
			}
		}
		f(what(v), mem[begin:end])
		begin = end
	}
}

// ownWeights tells the recorder how much of the Go heap the packed weights have.
func (s *Session) ownWeights() { s.rec.OwnHeap(s.ws, "weights, packed", s.ws.HeapBytes()) }

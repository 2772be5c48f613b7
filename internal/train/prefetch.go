package train

// prefetcher reads the examples of the next steps in advance, so that the pages of
// mapped files are in memory when a step needs them. It cannot change what a step
// computes: it has its own copy of the order, and discards what it reads.
type prefetcher struct {
	source Source
	walk   walk
	ask    chan request // holds one request; others are left out
	stop   chan struct{}
	done   chan struct{}
}

// request asks for a number of examples from a position on.
type request struct {
	from  Position
	count int
}

func newPrefetcher(s Source, seed uint64) *prefetcher {
	p := &prefetcher{
		source: s, walk: newWalk(s.Stats().Examples, seed),
		ask: make(chan request, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go p.readAhead()
	return p
}

// ahead asks for examples, unless an earlier request is still waiting.
func (p *prefetcher) ahead(from Position, count int) {
	if p == nil {
		return
	}
	select {
	case p.ask <- request{from, count}:
	default:
	}
}

func (p *prefetcher) readAhead() {
	defer close(p.done)
	var e Example
	for {
		select {
		case <-p.stop:
			return
		case r := <-p.ask:
			at := r.from
			for range r.count {
				select {
				case <-p.stop:
					return
				default:
				}
				// Who needs the example hears of an error.
				_ = p.source.Example(p.walk.at(at), &e)
				at = p.walk.after(at)
			}
		}
	}
}

// close ends the goroutine and waits for it.
func (p *prefetcher) close() {
	if p != nil {
		close(p.stop)
		<-p.done
	}
}

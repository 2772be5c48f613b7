package chat

import "unicode/utf8"

// iterator gives items one at a time; ok is false after the last. Only
// state.next calls next: it counts the step.
type iterator interface {
	next(s *state) (v value, ok bool, err error)
}

type (
	itemIterator struct{ items []value }
	runeIterator struct{ text string }
	numIterator  struct{ from, step, left int64 }
)

func (it *itemIterator) next(*state) (value, bool, error) {
	if len(it.items) == 0 {
		return nil, false, nil
	}
	v := it.items[0]
	it.items = it.items[1:]
	return v, true, nil
}

func (it *runeIterator) next(*state) (value, bool, error) {
	if it.text == "" {
		return nil, false, nil
	}
	_, n := utf8.DecodeRuneInString(it.text)
	v := it.text[:n]
	it.text = it.text[n:]
	return v, true, nil
}

func (it *numIterator) next(*state) (value, bool, error) {
	if it.left == 0 {
		return nil, false, nil
	}
	v := it.from
	it.from, it.left = it.from+it.step, it.left-1
	return v, true, nil
}

func (g *generator) next(*state) (value, bool, error) {
	if g.at >= len(g.items) {
		return nil, false, nil
	}
	g.at++
	return g.items[g.at-1], true, nil
}

// iterate begins to run through a value.
func (s *state) iterate(v value) (iterator, error) {
	switch v := v.(type) {
	case *list:
		return &itemIterator{v.items}, nil
	case *dict:
		return &itemIterator{v.keys}, nil
	case *view:
		return &itemIterator{v.items}, nil
	case string:
		return &runeIterator{v}, nil
	case *numbers:
		return &numIterator{v.start, v.step, v.n}, nil
	case *generator:
		return v, nil
	case undefined:
		return &itemIterator{}, nil
	}
	return nil, s.errorf("%s is not iterable", typeName(v))
}

// collect gives all items of a value. The slice may be a list's own; the work
// of going through it once is paid here.
func (s *state) collect(v value) ([]value, error) {
	var items []value
	switch v := v.(type) {
	case *list:
		return v.items, s.work(len(v.items) * itemBytes)
	case *dict:
		return v.keys, s.work(len(v.keys) * itemBytes)
	case *view:
		return v.items, s.work(len(v.items) * itemBytes)
	}
	it, err := s.iterate(v)
	if err != nil {
		return nil, err
	}
	for {
		item, ok, err := s.next(it)
		if err != nil || !ok {
			return items, err
		}
		if err := s.allocItems(1); err != nil {
			return nil, err
		}
		items = append(items, item)
	}
}

// size is Python's len(); ok is false for what has none.
func (s *state) size(v value) (n int, ok bool, err error) {
	switch v := v.(type) {
	case string:
		return utf8.RuneCountInString(v), true, s.work(len(v))
	case *list:
		return len(v.items), true, nil
	case *dict:
		return len(v.keys), true, nil
	case *view:
		return len(v.items), true, nil
	case *numbers:
		return int(v.n), true, nil
	case undefined:
		return 0, true, nil
	case *loop:
		n, err := v.length(s)
		return n, true, err
	}
	return 0, false, nil
}

type forStmt struct {
	line   int
	target target
	over   expr
	test   expr // nil takes all items
	body   []stmt
	other  []stmt
}

// chosen gives the items that pass a for's test, which is asked when the item
// is needed: it may look at what the loop's body has set.
type chosen struct {
	from iterator
	st   *forStmt
	sc   *scope
}

func (c *chosen) next(s *state) (value, bool, error) {
	for {
		v, ok, err := s.next(c.from)
		if err != nil || !ok {
			return nil, false, err
		}
		inner := c.sc.inner()
		if err := c.st.target.assign(s, inner, v); err != nil {
			return nil, false, err
		}
		pass, err := s.eval(c.st.test, inner)
		if err != nil {
			return nil, false, err
		}
		if truth(pass) {
			return v, true, nil
		}
	}
}

// loop is the variable of this name: where the loop is.
type loop struct {
	from             iterator
	over             value // nil where a test chooses
	index            int   // of the current item, from 0
	previous, now    value
	ahead            value // the next item, if it was looked at
	hasAhead, ended  bool
	known            int // length + 1, or 0
	changed          []value
	changedWasCalled bool
}

// advance goes to the next item.
func (l *loop) advance(s *state) (bool, error) {
	if err := l.look(s); err != nil || l.ended {
		return false, err
	}
	l.previous, l.now = l.now, l.ahead
	l.hasAhead, l.ahead = false, nil
	l.index++
	return true, nil
}

// look makes sure that the next item is known, or that there is none.
func (l *loop) look(s *state) error {
	if l.hasAhead || l.ended {
		return nil
	}
	v, ok, err := s.next(l.from)
	l.ahead, l.hasAhead, l.ended = v, ok, !ok
	return err
}

// length counts the items; where they are made on the way, it makes them all.
func (l *loop) length(s *state) (int, error) {
	if l.known > 0 {
		return l.known - 1, nil
	}
	n, ok := 0, false
	var err error
	if l.over != nil {
		n, ok, err = s.size(l.over)
	}
	if err == nil && !ok {
		var rest []value
		g := &generator{}
		for {
			v, more, err := s.next(l.from)
			if err != nil {
				return 0, err
			}
			if !more {
				break
			}
			if err := s.allocItems(1); err != nil {
				return 0, err
			}
			rest = append(rest, v)
		}
		g.items = rest
		l.from = g
		n = l.index + 1 + len(rest)
		if l.hasAhead {
			n++
		}
	}
	l.known = n + 1
	return n, err
}

func (st *forStmt) exec(s *state, sc *scope, out *text) (jump, error) {
	s.line = st.line
	over, err := s.eval(st.over, sc)
	if err != nil {
		return goOn, err
	}
	s.line = st.line
	l := &loop{over: over, index: -1}
	if l.from, err = s.iterate(over); err != nil {
		return goOn, err
	}
	if st.test != nil {
		l.from, l.over = &chosen{l.from, st, sc}, nil
	}
	for {
		if err := s.step(); err != nil {
			return goOn, err
		}
		more, err := l.advance(s)
		if err != nil {
			return goOn, err
		}
		if !more {
			break
		}
		inner := sc.inner()
		inner.set("loop", l)
		if err := st.target.assign(s, inner, l.now); err != nil {
			return goOn, err
		}
		j, err := s.execAll(st.body, inner, out)
		if err != nil {
			return goOn, err
		}
		if j == leaveLoop {
			return goOn, nil
		}
	}
	if l.index < 0 {
		return s.execAll(st.other, sc.inner(), out)
	}
	return goOn, nil
}

// field is loop.name.
func (l *loop) field(s *state, name string) (value, error) {
	switch name {
	case "index":
		return int64(l.index + 1), nil
	case "index0":
		return int64(l.index), nil
	case "first":
		return l.index == 0, nil
	case "last":
		err := l.look(s)
		return !l.hasAhead, err
	case "depth":
		return int64(1), nil
	case "depth0":
		return int64(0), nil
	case "length", "revindex", "revindex0":
		n, err := l.length(s)
		switch name {
		case "revindex":
			n -= l.index
		case "revindex0":
			n -= l.index + 1
		}
		return int64(n), err
	case "previtem":
		if l.index > 0 {
			return l.previous, nil
		}
	case "nextitem":
		if err := l.look(s); err != nil || l.hasAhead {
			return l.ahead, err
		}
	case "cycle":
		return &function{name, l, loopCycle}, nil
	case "changed":
		return &function{name, l, loopChanged}, nil
	}
	return undefined{"LoopContext", name}, nil
}

func loopCycle(s *state, self value, args []value, kw []keyword) (value, error) {
	l := self.(*loop)
	if len(args) == 0 || len(kw) > 0 {
		return nil, s.errorf("loop.cycle: expected at least one value and no names")
	}
	return args[max(l.index, 0)%len(args)], nil
}

func loopChanged(s *state, self value, args []value, _ []keyword) (value, error) {
	l := self.(*loop)
	same, err := s.equal(&list{items: l.changed}, &list{items: args})
	if err != nil {
		return nil, err
	}
	if same && l.changedWasCalled {
		return false, nil
	}
	l.changed, l.changedWasCalled = args, true
	return true, nil
}

package chat

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// workBytes is how much text may be looked at for one step.
const workBytes = 64

// lookEvery is how many steps pass between looks at the context and the clock.
const lookEvery = 1024

// state is one rendering: where it is and what it has used up.
type state struct {
	ctx    context.Context
	name   string
	now    func() time.Time
	began  time.Time
	line   int // of the template, where the rendering is now
	steps  int
	made   int // bytes of strings, lists and dicts
	macros int // macro calls within each other
	depth  int // of values and filters within each other
	limits limits
}

// errorf is an error at the line where the rendering is.
func (s *state) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: line %d: %w", s.name, s.line, fmt.Errorf(format, args...))
}

// spend counts steps, and looks at the context and the clock now and then.
// Everything that a template does passes through here in proportion to what it
// touches, so a rendering can always be stopped.
func (s *state) spend(steps int) error {
	before := s.steps
	s.steps += steps
	if s.steps > s.limits.steps {
		return s.errorf("the template takes more than %d steps", s.limits.steps)
	}
	if before/lookEvery != s.steps/lookEvery {
		if err := s.ctx.Err(); err != nil {
			return s.errorf("%w", err)
		}
		if s.now().Sub(s.began) > maxTime {
			return s.errorf("the template takes longer than %v", maxTime)
		}
	}
	return nil
}

// step counts one step.
func (s *state) step() error { return s.spend(1) }

// work counts the steps of looking at n bytes.
func (s *state) work(n int) error { return s.spend(n/workBytes + 1) }

// alloc counts n bytes before they are made.
func (s *state) alloc(n int) error {
	if n < 0 || n > s.limits.made-s.made {
		return s.errorf("the template makes more than %d bytes of strings and lists", s.limits.made)
	}
	s.made += n
	return nil
}

// itemBytes is what an item of a list takes, pairBytes what one of a dict does.
const (
	itemBytes = 16
	pairBytes = 96
)

// allocItems counts n items of a list before they are made. Each is also work.
func (s *state) allocItems(n int) error {
	if n < 0 || n > s.limits.made/itemBytes {
		return s.alloc(-1)
	}
	if err := s.work(n * itemBytes); err != nil {
		return err
	}
	return s.alloc((n + 1) * itemBytes)
}

// eval evaluates an expression: one step, whatever the expression is.
func (s *state) eval(x expr, sc *scope) (value, error) {
	if err := s.step(); err != nil {
		return nil, err
	}
	return x.eval(s, sc)
}

// next takes an item from an iterator: one step, also if nobody wants the item.
func (s *state) next(it iterator) (v value, ok bool, err error) {
	if err := s.step(); err != nil {
		return nil, false, err
	}
	return it.next(s)
}

// bind sets a variable of a scope: one step and the work of its name.
func (s *state) bind(sc *scope, name string, v value) error {
	sc.set(name, v)
	return s.work(len(name))
}

// nameBytes is the work of trying one more name in a search, beside the name
// itself.
const nameBytes = 8

// lookup finds a variable, a global function, or undefined. Each scope on the
// way is work.
func (s *state) lookup(sc *scope, name string) (value, error) {
	v, scopes := sc.get(name)
	return v, s.spend(scopes * (nameBytes + len(name)) / workBytes)
}

// deeper enters a value or a filter within another; shallower leaves it.
func (s *state) deeper() error {
	if s.depth >= maxNesting {
		return s.errorf("values or filters nested more than %d deep", maxNesting)
	}
	if err := s.step(); err != nil {
		return err
	}
	s.depth++
	return nil
}

func (s *state) shallower() { s.depth-- }

// text is a string in the making: the output, or what is captured of it.
type text struct {
	s      *state
	b      strings.Builder
	output bool // counts as output, not as bytes made
}

func (t *text) write(str string) error {
	if t.output {
		if most := t.s.limits.output; len(str) > most-t.b.Len() {
			return t.s.errorf("the template writes more than %d bytes", most)
		}
	} else if err := t.s.alloc(len(str)); err != nil {
		return err
	}
	t.b.WriteString(str)
	return t.s.work(len(str))
}

// scope holds the variables of a block, and finds those around it.
type scope struct {
	parent *scope
	vars   map[string]value
}

func (sc *scope) inner() *scope { return &scope{parent: sc} }

func (sc *scope) set(name string, v value) {
	if sc.vars == nil {
		sc.vars = make(map[string]value, 2)
	}
	sc.vars[name] = v
}

// get finds a variable, a global function, or undefined, and counts the
// scopes it looked into.
func (sc *scope) get(name string) (v value, scopes int) {
	for at := sc; at != nil; at = at.parent {
		scopes++
		if v, ok := at.vars[name]; ok {
			return v, scopes
		}
	}
	if fn, ok := globals[name]; ok {
		return &function{name: name, call: fn}, scopes
	}
	return undefined{name: name}, scopes
}

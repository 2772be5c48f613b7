package chat

// stmt is a part of a template that writes or assigns.
type stmt interface {
	exec(s *state, sc *scope, out *text) (jump, error)
}

// jump is what a statement does to the loop around it.
type jump uint8

const (
	goOn jump = iota
	leaveLoop
	nextItem
)

type (
	textStmt  struct{ text string }
	printStmt struct {
		line int
		x    expr
	}
	ifStmt struct {
		tests  []expr
		bodies [][]stmt
		other  []stmt
	}
	setStmt struct {
		line int
		to   target
		x    expr
	}
	// captureStmt is a block whose text is filtered, and then assigned or,
	// without a target, written.
	captureStmt struct {
		line    int
		to      target
		filters []link
		body    []stmt
	}
	withStmt struct {
		line    int
		targets []target
		values  []expr
		body    []stmt
	}
	macroStmt struct{ m *macro }
	jumpStmt  struct{ to jump }
)

// execAll runs statements until one jumps.
func (s *state) execAll(body []stmt, sc *scope, out *text) (jump, error) {
	for _, st := range body {
		if err := s.step(); err != nil {
			return goOn, err
		}
		if j, err := st.exec(s, sc, out); err != nil || j != goOn {
			return j, err
		}
	}
	return goOn, nil
}

func (st *textStmt) exec(_ *state, _ *scope, out *text) (jump, error) {
	return goOn, out.write(st.text)
}

func (st *printStmt) exec(s *state, sc *scope, out *text) (jump, error) {
	s.line = st.line
	v, err := s.eval(st.x, sc)
	if err != nil {
		return goOn, err
	}
	return goOn, out.str(v)
}

func (st *ifStmt) exec(s *state, sc *scope, out *text) (jump, error) {
	for i, test := range st.tests {
		v, err := s.eval(test, sc)
		if err != nil {
			return goOn, err
		}
		if truth(v) {
			return s.execAll(st.bodies[i], sc, out)
		}
	}
	return s.execAll(st.other, sc, out)
}

func (st *setStmt) exec(s *state, sc *scope, _ *text) (jump, error) {
	s.line = st.line
	v, err := s.eval(st.x, sc)
	if err != nil {
		return goOn, err
	}
	return goOn, st.to.assign(s, sc, v)
}

func (st *captureStmt) exec(s *state, sc *scope, out *text) (jump, error) {
	inner := &text{s: s}
	if j, err := s.execAll(st.body, sc.inner(), inner); err != nil || j != goOn {
		return j, err
	}
	s.line = st.line
	var v value = inner.b.String()
	for _, f := range st.filters {
		var err error
		if v, err = f.apply(s, sc, v); err != nil {
			return goOn, err
		}
	}
	if st.to == nil {
		return goOn, out.str(v)
	}
	return goOn, st.to.assign(s, sc, v)
}

func (st *withStmt) exec(s *state, sc *scope, out *text) (jump, error) {
	s.line = st.line
	inner := sc.inner()
	for i, x := range st.values {
		v, err := s.eval(x, sc)
		if err != nil {
			return goOn, err
		}
		if err := st.targets[i].assign(s, inner, v); err != nil {
			return goOn, err
		}
	}
	return s.execAll(st.body, inner, out)
}

func (st *macroStmt) exec(s *state, sc *scope, _ *text) (jump, error) {
	return goOn, s.bind(sc, st.m.name, st.m.in(sc))
}

func (st *jumpStmt) exec(*state, *scope, *text) (jump, error) { return st.to, nil }

// target is what a value can be assigned to.
type target interface {
	assign(s *state, sc *scope, v value) error
}

type (
	nameTarget  string
	fieldTarget struct{ name, field string }
	tupleTarget []target
)

func (t nameTarget) assign(s *state, sc *scope, v value) error {
	return s.bind(sc, string(t), v)
}

func (t fieldTarget) assign(s *state, sc *scope, v value) error {
	to, err := s.lookup(sc, t.name)
	if err != nil {
		return err
	}
	ns, ok := to.(*namespace)
	if !ok {
		return s.errorf("cannot set %s.%s: %s is not a namespace", short(t.name), short(t.field), short(t.name))
	}
	return ns.set(s, t.field, v)
}

func (t tupleTarget) assign(s *state, sc *scope, v value) error {
	items, err := s.collect(v)
	if err != nil {
		return err
	}
	if len(items) != len(t) {
		return s.errorf("%d values to unpack, expected %d", len(items), len(t))
	}
	for i, to := range t {
		if err := to.assign(s, sc, items[i]); err != nil {
			return err
		}
	}
	return nil
}

// assigns says whether a target has the name.
func assigns(t target, name string) bool {
	switch t := t.(type) {
	case nameTarget:
		return string(t) == name
	case tupleTarget:
		for _, part := range t {
			if assigns(part, name) {
				return true
			}
		}
	}
	return false
}

// set sets a field. As in transformers, names with an underscore in front are
// refused.
func (ns *namespace) set(s *state, name string, v value) error {
	if err := s.work(len(name)); err != nil {
		return err
	}
	if len(name) > 0 && name[0] == '_' {
		return s.errorf("namespace field %q: names cannot begin with an underscore", short(name))
	}
	if _, ok := ns.vars[name]; !ok {
		if err := s.alloc(pairBytes); err != nil {
			return err
		}
		ns.names = append(ns.names, name)
	}
	ns.vars[name] = v
	return nil
}

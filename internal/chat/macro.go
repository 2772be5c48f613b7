package chat

// macro is a macro of the source, and with a scope a value to call.
type macro struct {
	name    string
	line    int
	params  []string
	presets []expr // nil entries have no default
	body    []stmt
	scope   *scope // where it was defined
	// The body looks at these, so calls may give them.
	varargs, kwargs, caller bool
}

// refersTo notes that the body looks at a name.
func (m *macro) refersTo(name string) {
	switch name {
	case "varargs":
		m.varargs = true
	case "kwargs":
		m.kwargs = true
	case "caller":
		m.caller = true
	}
}

// in gives the macro as a value of a scope.
func (m *macro) in(sc *scope) *macro {
	bound := *m
	bound.scope = sc
	return &bound
}

// macroExpr gives a call block as a value.
type macroExpr struct{ m *macro }

func (x *macroExpr) eval(_ *state, sc *scope) (value, error) { return x.m.in(sc), nil }

// call runs the macro and gives the text it writes.
func (m *macro) call(s *state, args []value, kw []keyword) (value, error) {
	if s.macros >= maxMacros {
		return nil, s.errorf("macro %s: calls nested more than %d deep", short(m.name), maxMacros)
	}
	s.macros++
	defer func() { s.macros-- }()
	sc := m.scope.inner()
	given := min(len(args), len(m.params))
	for i, name := range m.params[:given] {
		if err := s.bind(sc, name, args[i]); err != nil {
			return nil, err
		}
	}
	rest := newDict(0)
	for _, k := range kw {
		if err := m.keyword(s, sc, k, given, rest); err != nil {
			return nil, err
		}
	}
	for i, name := range m.params[given:] {
		if err := s.work(len(name)); err != nil {
			return nil, err
		}
		if _, ok := sc.vars[name]; ok {
			continue
		}
		var v value = undefined{name: name}
		if preset := m.presets[given+i]; preset != nil {
			var err error
			if v, err = s.eval(preset, sc); err != nil {
				return nil, err
			}
		}
		sc.set(name, v)
	}
	if _, ok := sc.vars["caller"]; m.caller && !ok {
		sc.set("caller", undefined{name: "caller"})
	}
	if m.kwargs {
		sc.set("kwargs", rest)
	}
	if m.varargs {
		sc.set("varargs", &list{args[given:], true})
	} else if len(args) > given {
		return nil, s.errorf("macro %s: %d arguments, expected at most %d", short(m.name), len(args), len(m.params))
	}
	out := &text{s: s}
	line := s.line
	if _, err := s.execAll(m.body, sc, out); err != nil {
		return nil, err
	}
	s.line = line
	return out.b.String(), nil
}

// keyword sets a named argument of a call whose first parameters are given.
func (m *macro) keyword(s *state, sc *scope, k keyword, given int, rest *dict) error {
	params := m.params[given:]
	if err := s.spend(len(params) * (nameBytes + len(k.name)) / workBytes); err != nil {
		return err
	}
	for _, name := range params {
		if name == k.name {
			return s.bind(sc, name, k.v)
		}
	}
	switch {
	case m.caller && k.name == "caller":
		sc.set("caller", k.v)
	case m.kwargs:
		if err := s.alloc(pairBytes); err != nil {
			return err
		}
		return rest.put(s, k.name, k.v)
	default:
		return s.errorf("macro %s: no parameter %s", short(m.name), short(k.name))
	}
	return nil
}

package chat

// chain is an expression with fields, indexes, calls, filters and tests
// behind it. It is flat, so that a long one needs no deep stack.
type chain struct {
	x     expr
	links []link
}

// link turns the value before it into another.
type link interface {
	apply(s *state, sc *scope, v value) (value, error)
}

type keyword struct {
	name string
	v    value
}

type keywordExpr struct {
	name string
	x    expr
}

// arguments are those of a call, as written.
type arguments struct {
	list                   []expr
	keywords               []keywordExpr
	spread, spreadKeywords expr // *x and **x, or nil
}

type (
	fieldLink struct {
		line int
		name string
	}
	indexLink struct {
		line int
		x    expr
	}
	sliceLink struct {
		line  int
		parts [3]expr // from, to, step; nil where left out
	}
	callLink struct {
		line int
		args arguments
	}
	filterLink struct {
		line int
		name string
		args arguments
	}
	testLink struct {
		line    int
		name    string
		negated bool
		args    arguments
	}
)

func (x *chain) eval(s *state, sc *scope) (value, error) {
	v, err := s.eval(x.x, sc)
	if err != nil {
		return nil, err
	}
	for _, l := range x.links {
		if err := s.step(); err != nil {
			return nil, err
		}
		if v, err = l.apply(s, sc, v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (l *fieldLink) apply(s *state, _ *scope, v value) (value, error) {
	s.line = l.line
	return s.field(v, l.name)
}

func (l *indexLink) apply(s *state, sc *scope, v value) (value, error) {
	key, err := s.eval(l.x, sc)
	if err != nil {
		return nil, err
	}
	s.line = l.line
	return s.item(v, key)
}

func (l *sliceLink) apply(s *state, sc *scope, v value) (value, error) {
	var parts [3]value
	for i, x := range l.parts {
		if x == nil {
			continue
		}
		var err error
		if parts[i], err = s.eval(x, sc); err != nil {
			return nil, err
		}
	}
	s.line = l.line
	return s.slice(v, parts)
}

func (l *callLink) apply(s *state, sc *scope, v value) (value, error) {
	args, kw, err := l.args.values(s, sc)
	if err != nil {
		return nil, err
	}
	s.line = l.line
	return s.call(v, args, kw)
}

func (l *filterLink) apply(s *state, sc *scope, v value) (value, error) {
	args, kw, err := l.args.values(s, sc)
	if err != nil {
		return nil, err
	}
	s.line = l.line
	return s.filter(l.name, v, args, kw)
}

func (l *testLink) apply(s *state, sc *scope, v value) (value, error) {
	args, kw, err := l.args.values(s, sc)
	if err != nil {
		return nil, err
	}
	s.line = l.line
	ok, err := s.test(l.name, v, args, kw)
	return ok != l.negated, err
}

// values evaluates the arguments.
func (a *arguments) values(s *state, sc *scope) (args []value, kw []keyword, err error) {
	if len(a.list) > 0 {
		if args, err = s.evalAll(sc, a.list); err != nil {
			return nil, nil, err
		}
	}
	if a.spread != nil {
		v, err := s.eval(a.spread, sc)
		if err != nil {
			return nil, nil, err
		}
		items, err := s.collect(v)
		if err == nil {
			err = s.allocItems(len(items))
		}
		if err != nil {
			return nil, nil, err
		}
		args = append(args, items...)
	}
	for _, k := range a.keywords {
		v, err := s.eval(k.x, sc)
		if err != nil {
			return nil, nil, err
		}
		kw = append(kw, keyword{k.name, v})
	}
	if a.spreadKeywords != nil {
		v, err := s.eval(a.spreadKeywords, sc)
		if err != nil {
			return nil, nil, err
		}
		d, ok := v.(*dict)
		if !ok {
			return nil, nil, s.errorf("** expects a dict, not %s", typeName(v))
		}
		if err := s.allocItems(2 * len(d.keys)); err != nil {
			return nil, nil, err
		}
		for i, key := range d.keys {
			name, ok := key.(string)
			if !ok {
				return nil, nil, s.errorf("** expects a dict with strings for keys")
			}
			kw = append(kw, keyword{name, d.vals[i]})
		}
	}
	for i, k := range kw {
		// Few names: a map would cost more than it saves, but 256 KiB of source
		// can hold many, so the comparison is work.
		if err := s.spend(i * (nameBytes + len(k.name)) / workBytes); err != nil {
			return nil, nil, err
		}
		for _, other := range kw[:i] {
			if other.name == k.name {
				return nil, nil, s.errorf("argument %s is given twice", short(k.name))
			}
		}
	}
	return args, kw, nil
}

// call calls a macro or a function.
func (s *state) call(v value, args []value, kw []keyword) (value, error) {
	switch v := v.(type) {
	case *macro:
		return v.call(s, args, kw)
	case *function:
		return v.call(s, v.self, args, kw)
	case *joiner:
		if !v.used {
			v.used = true
			return "", nil
		}
		return v.sep, nil
	case undefined:
		return nil, s.errorf("%s", v)
	}
	return nil, s.errorf("%s cannot be called", typeName(v))
}

// filter applies a filter by name.
func (s *state) filter(name string, v value, args []value, kw []keyword) (value, error) {
	f, ok := filters[name]
	if !ok {
		return nil, s.errorf("no filter named %q", short(name))
	}
	if err := s.deeper(); err != nil {
		return nil, err
	}
	defer s.shallower()
	return f(s, v, args, kw)
}

// test applies a test by name.
func (s *state) test(name string, v value, args []value, kw []keyword) (bool, error) {
	f, ok := tests[name]
	if !ok {
		return false, s.errorf("no test named %q", short(name))
	}
	out, err := f(s, v, args, kw)
	return err == nil && truth(out), err
}

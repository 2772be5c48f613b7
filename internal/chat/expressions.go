package chat

import "strings"

// expr is an expression. Only state.eval calls eval: it counts the step.
type expr interface {
	eval(s *state, sc *scope) (value, error)
}

// operand is a part of a chain of operators.
type operand struct {
	op   string
	line int
	x    expr
}

type (
	constExpr struct{ v value }
	nameExpr  struct {
		line int
		name string
	}
	listExpr struct {
		items []expr
		tuple bool
	}
	dictExpr struct {
		line       int
		keys, vals []expr
	}
	condExpr  struct{ test, yes, no expr }
	logicExpr struct {
		and   bool
		items []expr
	}
	notExpr  struct{ x expr }
	signExpr struct {
		line  int
		minus bool
		x     expr
	}
	arithExpr struct {
		first expr
		rest  []operand
	}
	concatExpr  struct{ items []expr }
	compareExpr struct {
		first expr
		rest  []operand
	}
)

func (x *constExpr) eval(*state, *scope) (value, error) { return x.v, nil }

func (x *nameExpr) eval(s *state, sc *scope) (value, error) {
	s.line = x.line
	return s.lookup(sc, x.name)
}

// evalAll gives the values of expressions as a new slice.
func (s *state) evalAll(sc *scope, from []expr) ([]value, error) {
	if err := s.allocItems(len(from)); err != nil {
		return nil, err
	}
	items := make([]value, len(from))
	for i, x := range from {
		var err error
		if items[i], err = s.eval(x, sc); err != nil {
			return nil, err
		}
	}
	return items, nil
}

func (x *listExpr) eval(s *state, sc *scope) (value, error) {
	items, err := s.evalAll(sc, x.items)
	return &list{items, x.tuple}, err
}

func (x *dictExpr) eval(s *state, sc *scope) (value, error) {
	if err := s.alloc((len(x.keys) + 1) * pairBytes); err != nil {
		return nil, err
	}
	d := newDict(len(x.keys))
	for i := range x.keys {
		key, err := s.eval(x.keys[i], sc)
		if err != nil {
			return nil, err
		}
		v, err := s.eval(x.vals[i], sc)
		if err != nil {
			return nil, err
		}
		s.line = x.line
		if err := d.put(s, key, v); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (x *condExpr) eval(s *state, sc *scope) (value, error) {
	test, err := s.eval(x.test, sc)
	if err != nil {
		return nil, err
	}
	switch {
	case truth(test):
		return s.eval(x.yes, sc)
	case x.no != nil:
		return s.eval(x.no, sc)
	}
	return undefined{}, nil
}

func (x *logicExpr) eval(s *state, sc *scope) (v value, err error) {
	for _, item := range x.items {
		if v, err = s.eval(item, sc); err != nil || truth(v) != x.and {
			return v, err
		}
	}
	return v, nil
}

func (x *notExpr) eval(s *state, sc *scope) (value, error) {
	v, err := s.eval(x.x, sc)
	return !truth(v), err
}

func (x *signExpr) eval(s *state, sc *scope) (value, error) {
	v, err := s.eval(x.x, sc)
	if err != nil {
		return nil, err
	}
	s.line = x.line
	_, _, _, ok := number(v)
	switch {
	case !ok:
		return nil, s.unfit("a sign", v)
	case x.minus:
		return s.arith("*", int64(-1), v)
	}
	return s.arith("+", int64(0), v)
}

func (x *arithExpr) eval(s *state, sc *scope) (value, error) {
	left, err := s.eval(x.first, sc)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(x.rest); i++ {
		r := x.rest[i]
		right, err := s.eval(r.x, sc)
		if err != nil {
			return nil, err
		}
		s.line = r.line
		if err := s.step(); err != nil {
			return nil, err
		}
		l, isText := left.(string)
		rt, also := right.(string)
		if r.op == "+" && isText && also {
			if left, i, err = x.join(s, sc, i, l, rt); err != nil {
				return nil, err
			}
			continue
		}
		if left, err = s.arith(r.op, left, right); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// join adds up strings from operand i on, for as long as there are any. A
// long message that stands between many short strings is copied once.
func (x *arithExpr) join(s *state, sc *scope, i int, left, right string) (value, int, error) {
	if err := s.alloc(len(left) + len(right)); err != nil {
		return nil, i, err
	}
	parts := append(make([]string, 0, 8), left, right)
	for i+1 < len(x.rest) && x.rest[i+1].op == "+" {
		v, err := s.eval(x.rest[i+1].x, sc)
		if err != nil {
			return nil, i, err
		}
		i++
		s.line = x.rest[i].line
		t, ok := v.(string)
		if !ok {
			v, err = s.arith("+", strings.Join(parts, ""), v)
			return v, i, err
		}
		if err := s.alloc(len(t)); err != nil {
			return nil, i, err
		}
		parts = append(parts, t)
	}
	sum := strings.Join(parts, "")
	return sum, i, s.work(len(sum))
}

func (x *concatExpr) eval(s *state, sc *scope) (value, error) {
	out := &text{s: s}
	for _, item := range x.items {
		v, err := s.eval(item, sc)
		if err != nil {
			return nil, err
		}
		if err := out.str(v); err != nil {
			return nil, err
		}
	}
	return out.b.String(), nil
}

func (x *compareExpr) eval(s *state, sc *scope) (value, error) {
	left, err := s.eval(x.first, sc)
	if err != nil {
		return nil, err
	}
	for _, r := range x.rest {
		right, err := s.eval(r.x, sc)
		if err != nil {
			return nil, err
		}
		s.line = r.line
		ok, err := s.compare(r.op, left, right)
		if err != nil || !ok {
			return false, err
		}
		left = right
	}
	return true, nil
}

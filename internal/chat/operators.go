package chat

import (
	"cmp"
	"math"
	"strings"
)

// unfit is the error about values that an operation does not take.
func (s *state) unfit(what string, values ...value) error {
	names := make([]string, len(values))
	for i, v := range values {
		if u, ok := v.(undefined); ok {
			return s.errorf("%s", u)
		}
		names[i] = typeName(v)
	}
	return s.errorf("%s does not take %s", what, strings.Join(names, " and "))
}

// arith is left op right.
func (s *state) arith(op string, left, right value) (value, error) {
	li, lf, lint, lok := number(left)
	ri, rf, rint, rok := number(right)
	if lok && rok {
		if lint && rint {
			return s.ints(op, li, ri)
		}
		return s.floats(op, lf, rf)
	}
	switch op {
	case "+":
		switch l := left.(type) {
		case string:
			if r, ok := right.(string); ok {
				return l + r, s.alloc(len(l) + len(r))
			}
		case *list:
			if r, ok := right.(*list); ok && l.tuple == r.tuple {
				if err := s.allocItems(len(l.items) + len(r.items)); err != nil {
					return nil, err
				}
				items := make([]value, 0, len(l.items)+len(r.items))
				return &list{append(append(items, l.items...), r.items...), l.tuple}, nil
			}
		}
	case "*":
		if lok && lint {
			left, right, ri, rint = right, left, li, true
		} else if !rok || !rint {
			break
		}
		return s.repeat(left, ri)
	case "%":
		if format, ok := left.(string); ok {
			return s.percent(format, right)
		}
	}
	return nil, s.unfit("operator "+op, left, right)
}

// repeat is a string or a list n times.
func (s *state) repeat(v value, n int64) (value, error) {
	n = max(n, 0)
	switch v := v.(type) {
	case string:
		if len(v) > 0 && n > int64(s.limits.made/len(v)) {
			return nil, s.alloc(-1)
		}
		if err := s.alloc(len(v) * int(n)); err != nil || len(v) == 0 {
			return "", err
		}
		return strings.Repeat(v, int(n)), s.work(len(v) * int(n))
	case *list:
		if len(v.items) > 0 && n > int64(s.limits.made/len(v.items)) {
			return nil, s.alloc(-1)
		}
		total := len(v.items) * int(n)
		if err := s.allocItems(total); err != nil {
			return nil, err
		}
		items := make([]value, 0, total)
		for len(items) < total {
			items = append(items, v.items...)
		}
		return &list{items, v.tuple}, nil
	}
	return nil, s.unfit("operator *", v, n)
}

func (s *state) ints(op string, a, b int64) (value, error) {
	over := func(r int64, wrong bool) (value, error) {
		if wrong {
			return nil, s.errorf("%d %s %d is beyond 64 bits", a, op, b)
		}
		return r, nil
	}
	switch op {
	case "+":
		r := a + b
		return over(r, (r > a) != (b > 0) && b != 0)
	case "-":
		r := a - b
		return over(r, (r < a) != (b > 0) && b != 0)
	case "*":
		r, ok := multiply(a, b)
		return over(r, !ok)
	case "/":
		return s.floats(op, float64(a), float64(b))
	case "//", "%":
		if b == 0 {
			return nil, s.errorf("division by zero")
		}
		if b == -1 { // the smallest int has no opposite
			if op == "%" {
				return int64(0), nil
			}
			return s.ints("-", 0, a)
		}
		q, r := a/b, a%b
		if r != 0 && (r < 0) != (b < 0) {
			q, r = q-1, r+b
		}
		if op == "%" {
			return r, nil
		}
		return q, nil
	}
	if b < 0 {
		return s.floats(op, float64(a), float64(b))
	}
	r, ok := int64(1), true
	for n, base := b, a; n > 0 && ok; n >>= 1 {
		if n&1 == 1 {
			if r, ok = multiply(r, base); !ok {
				break
			}
		}
		if n > 1 {
			base, ok = multiply(base, base)
		}
	}
	return over(r, !ok)
}

// multiply is a*b; ok is false where it does not fit.
func multiply(a, b int64) (r int64, ok bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	if a == -1 && b == math.MinInt64 || b == -1 && a == math.MinInt64 {
		return 0, false
	}
	r = a * b
	return r, r/b == a
}

func (s *state) floats(op string, a, b float64) (value, error) {
	switch op {
	case "+":
		return a + b, nil
	case "-":
		return a - b, nil
	case "*":
		return a * b, nil
	case "/", "//", "%":
		if b == 0 {
			return nil, s.errorf("division by zero")
		}
		if op == "/" {
			return a / b, nil
		}
		r := math.Mod(a, b)
		if r != 0 && (r < 0) != (b < 0) {
			r += b
		}
		if op == "%" {
			return r, nil
		}
		return math.Round((a - r) / b), nil
	}
	r := math.Pow(a, b)
	if a == 0 && b < 0 || math.IsNaN(r) && !math.IsNaN(a) && !math.IsNaN(b) || math.IsInf(r, 0) && !math.IsInf(a, 0) && !math.IsInf(b, 0) {
		return nil, s.errorf("%v ** %v is not a finite number", a, b)
	}
	return r, nil
}

// compare is left op right for the operators of comparison.
func (s *state) compare(op string, left, right value) (bool, error) {
	switch op {
	case "==", "!=":
		same, err := s.equal(left, right)
		return same == (op == "=="), err
	case "in", "not in":
		in, err := s.contains(right, left)
		return in == (op == "in"), err
	}
	order, err := s.order(left, right)
	if err != nil || order == unordered {
		return false, err
	}
	switch op {
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	}
	return order >= 0, nil
}

// equal is Python's ==.
func (s *state) equal(a, b value) (bool, error) {
	if err := s.deeper(); err != nil {
		return false, err
	}
	defer s.shallower()
	ai, af, aint, aok := number(a)
	bi, bf, bint, bok := number(b)
	if aok && bok {
		if aint && bint {
			return ai == bi, nil
		}
		return af == bf, nil
	}
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		return ok && a == b, s.work(min(len(a), len(b)))
	case undefined:
		_, ok := b.(undefined)
		return ok, nil
	case *list:
		b, ok := b.(*list)
		if !ok || a.tuple != b.tuple || len(a.items) != len(b.items) {
			return false, nil
		}
		for i := range a.items {
			if same, err := s.equal(a.items[i], b.items[i]); err != nil || !same {
				return false, err
			}
		}
		return true, nil
	case *dict:
		b, ok := b.(*dict)
		if !ok || len(a.keys) != len(b.keys) {
			return false, nil
		}
		for i, key := range a.keys {
			j, found, err := b.find(s, key)
			if err != nil || !found {
				return false, err
			}
			if same, err := s.equal(a.vals[i], b.vals[j]); err != nil || !same {
				return false, err
			}
		}
		return true, nil
	case *numbers:
		b, ok := b.(*numbers)
		return ok && a.n == b.n && (a.n == 0 || a.start == b.start && (a.n == 1 || a.step == b.step)), nil
	}
	return a == b, nil
}

// unordered is what order gives for a NaN.
const unordered = 2

// order is negative, zero or positive as a is before, with or after b.
func (s *state) order(a, b value) (int, error) {
	if err := s.deeper(); err != nil {
		return 0, err
	}
	defer s.shallower()
	ai, af, aint, aok := number(a)
	bi, bf, bint, bok := number(b)
	if aok && bok {
		if aint && bint {
			return cmp.Compare(ai, bi), nil
		}
		if math.IsNaN(af) || math.IsNaN(bf) {
			return unordered, nil
		}
		return cmp.Compare(af, bf), nil
	}
	switch a := a.(type) {
	case string:
		if b, ok := b.(string); ok {
			return strings.Compare(a, b), s.work(min(len(a), len(b)))
		}
	case *list:
		b, ok := b.(*list)
		if !ok || a.tuple != b.tuple {
			break
		}
		for i := 0; i < len(a.items) && i < len(b.items); i++ {
			same, err := s.equal(a.items[i], b.items[i])
			if err != nil {
				return 0, err
			}
			if !same {
				return s.order(a.items[i], b.items[i])
			}
		}
		return cmp.Compare(len(a.items), len(b.items)), nil
	}
	return 0, s.unfit("comparison", a, b)
}

// contains is v in where.
func (s *state) contains(where, v value) (bool, error) {
	switch w := where.(type) {
	case string:
		sub, ok := v.(string)
		if !ok {
			return false, s.unfit("in a string, in", v)
		}
		return strings.Contains(w, sub), s.work(len(w))
	case *dict:
		_, ok, err := w.find(s, v)
		return ok, err
	}
	it, err := s.iterate(where)
	if err != nil {
		return false, err
	}
	for {
		item, ok, err := s.next(it)
		if err != nil || !ok {
			return false, err
		}
		if same, err := s.equal(item, v); err != nil || same {
			return same, err
		}
	}
}

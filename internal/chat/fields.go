package chat

import (
	"strings"
	"unicode/utf8"
)

// builtin is a function, method, filter or test: self is the value before the
// dot, the bar or "is".
type builtin func(s *state, self value, args []value, kw []keyword) (value, error)

// absent stands for an argument that was not given.
type absent struct{}

// def makes a builtin of a function with parameters: names separated by
// spaces, those with a question mark optional. Optional ones that are not
// given are absent.
func def(spec string, fn func(s *state, self value, a []value) (value, error)) builtin {
	params := strings.Fields(spec)
	need := 0
	for i, p := range params {
		if name, optional := strings.CutSuffix(p, "?"); optional {
			params[i] = name
		} else {
			need = i + 1
		}
	}
	return func(s *state, self value, args []value, kw []keyword) (value, error) {
		if len(args) > len(params) {
			return nil, s.errorf("%d arguments, expected at most %d", len(args), len(params))
		}
		given := make([]value, len(params))
		for i := range given {
			given[i] = absent{}
			if i < len(args) {
				given[i] = args[i]
			}
		}
	next:
		for _, k := range kw {
			for i, name := range params {
				if name == k.name && given[i] == (absent{}) {
					given[i] = k.v
					continue next
				}
			}
			return nil, s.errorf("unexpected argument %s", short(k.name))
		}
		for i, v := range given[:need] {
			if v == (absent{}) {
				return nil, s.errorf("argument %s is missing", params[i])
			}
		}
		return fn(s, self, given)
	}
}

// methods are what templates may call on values, by type. The rest of
// Python's methods would change the value, which its sandbox refuses, or are
// not there.
func methodsOf(v value) map[string]builtin {
	switch v := v.(type) {
	case string:
		return stringMethods
	case *dict:
		return dictMethods
	case *list:
		if !v.tuple {
			return listMethods
		}
		return tupleMethods
	case *cycler:
		return cyclerMethods
	}
	return nil
}

// refused are Python methods that hide a dict's key of the same name behind
// something that cannot be used.
var refused = map[string]bool{"clear": true, "pop": true, "popitem": true, "setdefault": true, "update": true, "fromkeys": true}

// attribute is what the dot finds before keys; ok is false if nothing.
func (s *state) attribute(v value, name string) (value, bool, error) {
	if err := s.spend(len(name) / workBytes); err != nil {
		return nil, false, err
	}
	switch v := v.(type) {
	case undefined:
		return nil, false, s.errorf("%s", v)
	case *namespace:
		x, ok := v.vars[name]
		return x, ok, nil
	case *loop:
		x, err := v.field(s, name)
		_, missing := x.(undefined)
		return x, !missing || name == "previtem" || name == "nextitem", err
	case *cycler:
		if name == "current" {
			return v.items[v.at], true, nil
		}
	case *macro:
		if name == "name" {
			return v.name, true, nil
		}
	case *dict:
		if refused[name] {
			return undefined{"dict", name}, true, nil
		}
	}
	if m, ok := methodsOf(v)[name]; ok {
		return &function{name, v, m}, true, nil
	}
	return nil, false, nil
}

// field is v.name.
func (s *state) field(v value, name string) (value, error) {
	x, ok, err := s.attribute(v, name)
	if ok || err != nil {
		return x, err
	}
	if d, isDict := v.(*dict); isDict {
		if x, ok := d.text(name); ok {
			return x, nil
		}
	}
	return undefined{typeName(v) + " object", name}, nil
}

// item is v[key].
func (s *state) item(v, key value) (value, error) {
	if u, ok := v.(undefined); ok {
		return nil, s.errorf("%s", u)
	}
	x, ok, err := s.element(v, key)
	if ok || err != nil {
		return x, err
	}
	if name, isName := key.(string); isName {
		x, ok, err := s.attribute(v, name)
		if ok || err != nil {
			return x, err
		}
		return undefined{typeName(v) + " object", name}, nil
	}
	shown := &text{s: s}
	if err := shown.repr(key); err != nil {
		return nil, err
	}
	return undefined{typeName(v) + " object", shown.b.String()}, nil
}

// element finds an element by index or key.
func (s *state) element(v, key value) (value, bool, error) {
	if d, ok := v.(*dict); ok {
		if l, isList := key.(*list); isList && !l.tuple {
			return nil, false, nil
		}
		i, ok, err := d.find(s, key)
		if err != nil || !ok {
			return nil, false, err
		}
		return d.vals[i], true, nil
	}
	i, _, isInt, _ := number(key)
	if !isInt {
		return nil, false, nil
	}
	switch v := v.(type) {
	case *list:
		if i = wrap(i, int64(len(v.items))); i >= 0 {
			return v.items[i], true, nil
		}
	case *numbers:
		if i = wrap(i, v.n); i >= 0 {
			return v.start + i*v.step, true, nil
		}
	case string:
		n, _, err := s.size(v)
		if err != nil {
			return nil, false, err
		}
		if i = wrap(i, int64(n)); i >= 0 {
			at := runeOffset(v, int(i))
			_, size := utf8.DecodeRuneInString(v[at:])
			return v[at : at+size], true, nil
		}
	}
	return nil, false, nil
}

// wrap counts a negative index from the end; -1 is out of range.
func wrap(i, n int64) int64 {
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		return -1
	}
	return i
}

// runeOffset is where character n of s begins.
func runeOffset(s string, n int) int {
	for at := range s {
		if n == 0 {
			return at
		}
		n--
	}
	return len(s)
}

// slice is v[from:to:step].
func (s *state) slice(v value, parts [3]value) (value, error) {
	switch v := v.(type) {
	case string:
		n, _, err := s.size(v)
		if err != nil {
			return nil, err
		}
		from, step, count, err := s.bounds(parts, n)
		if err != nil {
			return nil, err
		}
		if step == 1 {
			start := runeOffset(v, from)
			return v[start : start+runeOffset(v[start:], count)], s.work(len(v))
		}
		runes, err := s.collect(v)
		if err != nil {
			return nil, err
		}
		out := &text{s: s}
		for i := 0; i < count; i++ {
			if err := out.str(runes[from+i*step]); err != nil {
				return nil, err
			}
		}
		return out.b.String(), nil
	case *list:
		from, step, count, err := s.bounds(parts, len(v.items))
		if err != nil {
			return nil, err
		}
		if step == 1 {
			return &list{v.items[from : from+count], v.tuple}, s.allocItems(0)
		}
		if err := s.allocItems(count); err != nil {
			return nil, err
		}
		items := make([]value, count)
		for i := range items {
			items[i] = v.items[from+i*step]
		}
		return &list{items, v.tuple}, nil
	case *numbers:
		from, step, count, err := s.bounds(parts, int(v.n))
		if err != nil {
			return nil, err
		}
		return &numbers{v.start + int64(from)*v.step, v.step * int64(step), int64(count)}, nil
	}
	return nil, s.unfit("a slice", v)
}

// bounds works a slice of n items out, as Python does.
func (s *state) bounds(parts [3]value, n int) (from, step, count int, err error) {
	var p [3]int64
	var given [3]bool
	for i, v := range parts {
		if v == nil {
			continue
		}
		x, _, isInt, _ := number(v)
		if !isInt {
			return 0, 0, 0, s.unfit("a slice's bound", v)
		}
		p[i], given[i] = x, true
	}
	if !given[2] {
		p[2] = 1
	}
	if p[2] == 0 {
		return 0, 0, 0, s.errorf("a slice's step is zero")
	}
	size := int64(n)
	// A step beyond the size takes one item, as any such step does.
	st := max(min(p[2], size+1), -size-1)
	low, high := int64(0), size
	if st < 0 {
		low, high = -1, size-1
	}
	place := func(i int, preset int64) int64 {
		if !given[i] {
			return preset
		}
		x := p[i]
		if x < 0 {
			x = max(x, -size-1) + size
		}
		return max(low, min(x, high))
	}
	var a, b int64
	if st > 0 {
		a, b = place(0, 0), place(1, size)
		if b > a {
			count = int((b - a + st - 1) / st)
		}
	} else {
		a, b = place(0, size-1), place(1, -1)
		if a > b {
			count = int((a - b - st - 1) / -st)
		}
	}
	if count == 0 {
		return 0, 1, 0, nil
	}
	return int(a), int(st), count, nil
}

package chat

import (
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"
)

// value is what an expression gives: nil (none), bool, int64, float64, string,
// or one of the types below. Lists and dicts never change once made, as in
// Jinja's immutable sandbox, so they may share what they hold.
type value = any

type list struct {
	items []value
	tuple bool
}

// dict keeps its members in order. Its index is by string keys and, apart, by
// the encoding of others.
type dict struct {
	keys, vals []value
	strings    map[string]int
	others     map[string]int
}

// view is what a dict's items(), keys() and values() give.
type view struct {
	kind  string // dict_items, dict_keys or dict_values
	items []value
}

// numbers is a range.
type numbers struct{ start, step, n int64 }

// generator is what filters such as map give: it runs through its items once
// and has neither length nor index.
type generator struct {
	items []value
	at    int
}

// undefined stands for what was not found. It knows how it was looked for.
type undefined struct{ owner, name string }

func (u undefined) String() string {
	switch {
	case u.owner != "":
		return "'" + u.owner + "' has no attribute '" + short(u.name) + "'"
	case u.name != "":
		return "'" + short(u.name) + "' is undefined"
	}
	return "the value is undefined"
}

// namespace is the one kind of value that a template can change.
type namespace struct {
	names []string // in order of their first setting
	vars  map[string]value
}

// function is something to call; self is what a method belongs to.
type function struct {
	name string
	self value
	call builtin
}

// cycler and joiner are what the globals of these names give.
type cycler struct {
	items []value
	at    int
}

type joiner struct {
	sep  value
	used bool
}

// short cuts what an error quotes.
func short(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	end := most
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "..."
}

// typeName is how Python calls a value's type.
func typeName(v value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *list:
		if v.tuple {
			return "tuple"
		}
		return "list"
	case *dict:
		return "dict"
	case *view:
		return v.kind
	case *numbers:
		return "range"
	case *generator:
		return "generator"
	case undefined:
		return "Undefined"
	case *namespace:
		return "Namespace"
	case *macro:
		return "Macro"
	case *loop:
		return "LoopContext"
	case *cycler:
		return "Cycler"
	case *joiner:
		return "Joiner"
	}
	return "function"
}

// truth is Python's bool().
func truth(v value) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *list:
		return len(v.items) > 0
	case *dict:
		return len(v.keys) > 0
	case *view:
		return len(v.items) > 0
	case *numbers:
		return v.n > 0
	}
	return true
}

// number reads ints, floats and booleans, which are the ints 0 and 1.
func number(v value) (i int64, f float64, isInt, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, 1, true, true
		}
		return 0, 0, true, true
	case int64:
		return v, float64(v), true, true
	case float64:
		return 0, v, false, true
	}
	return 0, 0, false, false
}

// newDict makes room for n members, which the caller has paid for.
func newDict(n int) *dict {
	return &dict{keys: make([]value, 0, n), vals: make([]value, 0, n), strings: make(map[string]int, n)}
}

// put sets a member; a key that is there keeps its place.
func (d *dict) put(s *state, key, v value) error {
	i, ok, err := d.find(s, key)
	if err != nil {
		return err
	}
	if ok {
		d.vals[i] = v
		return nil
	}
	if name, isString := key.(string); isString {
		d.strings[name] = len(d.keys)
	} else {
		code, err := hashed(s, nil, key)
		if err != nil {
			return err
		}
		if d.others == nil {
			d.others = map[string]int{}
		}
		d.others[string(code)] = len(d.keys)
	}
	d.keys, d.vals = append(d.keys, key), append(d.vals, v)
	return nil
}

// find gives the place of a key.
func (d *dict) find(s *state, key value) (int, bool, error) {
	if name, ok := key.(string); ok {
		i, ok := d.strings[name]
		return i, ok, s.work(len(name))
	}
	code, err := hashed(s, nil, key)
	if err != nil {
		return 0, false, err
	}
	i, ok := d.others[string(code)]
	return i, ok, nil
}

// text finds a member by name, for lookups that cannot fail.
func (d *dict) text(name string) (value, bool) {
	if i, ok := d.strings[name]; ok {
		return d.vals[i], true
	}
	return nil, false
}

// hashed appends an encoding in which equal keys are equal and others differ.
func hashed(s *state, to []byte, v value) ([]byte, error) {
	if err := s.deeper(); err != nil {
		return nil, err
	}
	defer s.shallower()
	switch v := v.(type) {
	case nil:
		return append(to, 'N'), nil
	case undefined:
		return append(to, 'U'), nil
	case string:
		if err := s.alloc(len(v)); err != nil {
			return nil, err
		}
		to = binary.AppendUvarint(append(to, 's'), uint64(len(v)))
		return append(to, v...), s.work(len(v))
	case bool, int64, float64:
		i, f, isInt, _ := number(v)
		if !isInt && f == math.Trunc(f) && math.Abs(f) < 1<<62 {
			i, isInt = int64(f), true
		}
		if isInt {
			return strconv.AppendInt(append(to, 'i'), i, 10), nil
		}
		return strconv.AppendFloat(append(to, 'f'), f, 'g', -1, 64), nil
	case *list:
		if v.tuple {
			to = binary.AppendUvarint(append(to, 't'), uint64(len(v.items)))
			for _, item := range v.items {
				var err error
				if to, err = hashed(s, to, item); err != nil {
					return nil, err
				}
				to = append(to, ',')
			}
			return to, nil
		}
	}
	return nil, s.errorf("unhashable type: %s", typeName(v))
}

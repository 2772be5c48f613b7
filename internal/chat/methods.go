package chat

import (
	"strconv"
	"strings"
)

// dictMethod makes a method of dicts.
func dictMethod(spec string, fn func(s *state, self *dict, a []value) (value, error)) builtin {
	return def(spec, func(s *state, self value, a []value) (value, error) {
		d, ok := self.(*dict)
		if !ok {
			return nil, s.unfit("a dict's method", self)
		}
		return fn(s, d, a)
	})
}

var dictMethods = map[string]builtin{
	"get": dictMethod("key default?", func(s *state, self *dict, a []value) (value, error) {
		i, ok, err := self.find(s, a[0])
		switch {
		case err != nil:
			return nil, err
		case ok:
			return self.vals[i], nil
		case a[1] != absent{}:
			return a[1], nil
		}
		return nil, nil
	}),
	"items": dictMethod("", func(s *state, self *dict, _ []value) (value, error) {
		pairs, err := s.pairs(self)
		return &view{"dict_items", pairs}, err
	}),
	"keys":   dictMethod("", func(_ *state, self *dict, _ []value) (value, error) { return &view{"dict_keys", self.keys}, nil }),
	"values": dictMethod("", func(_ *state, self *dict, _ []value) (value, error) { return &view{"dict_values", self.vals}, nil }),
	"copy":   dictMethod("", func(_ *state, self *dict, _ []value) (value, error) { return self, nil }),
}

// pairs gives a dict's members as tuples.
func (s *state) pairs(d *dict) ([]value, error) {
	if err := s.allocItems(4 * len(d.keys)); err != nil {
		return nil, err
	}
	pairs := make([]value, len(d.keys))
	for i, key := range d.keys {
		pairs[i] = &list{[]value{key, d.vals[i]}, true}
	}
	return pairs, nil
}

var (
	listMethods  = map[string]builtin{"index": listIndex, "count": listCount, "copy": def("", func(_ *state, self value, _ []value) (value, error) { return self, nil })}
	tupleMethods = map[string]builtin{"index": listIndex, "count": listCount}
)

var listIndex = def("value", func(s *state, self value, a []value) (value, error) {
	items, err := s.collect(self)
	if err != nil {
		return nil, err
	}
	for i, item := range items {
		if same, err := s.equal(item, a[0]); err != nil || same {
			return int64(i), err
		}
	}
	return nil, s.errorf("index: the value is not in the list")
})

var listCount = def("value", func(s *state, self value, a []value) (value, error) {
	items, err := s.collect(self)
	if err != nil {
		return nil, err
	}
	n := int64(0)
	for _, item := range items {
		same, err := s.equal(item, a[0])
		if err != nil {
			return nil, err
		}
		if same {
			n++
		}
	}
	return n, nil
})

var cyclerMethods = map[string]builtin{
	"next": def("", func(_ *state, self value, _ []value) (value, error) {
		c := self.(*cycler)
		v := c.items[c.at]
		c.at = (c.at + 1) % len(c.items)
		return v, nil
	}),
	"reset": def("", func(_ *state, self value, _ []value) (value, error) {
		self.(*cycler).at = 0
		return nil, nil
	}),
}

// formatMethod is str.format with {}, {0}, {name} and doubled braces. Fields
// and widths of values are not read.
func formatMethod(s *state, self value, args []value, kw []keyword) (value, error) {
	format, err := s.wantText("format", self)
	if err != nil {
		return nil, err
	}
	out := &text{s: s}
	automatic := 0
	for format != "" {
		i := strings.IndexAny(format, "{}")
		if i < 0 {
			i = len(format)
		}
		if err := out.write(format[:i]); err != nil {
			return nil, err
		}
		if format = format[i:]; format == "" {
			break
		}
		if len(format) > 1 && format[1] == format[0] {
			if err := out.write(format[:1]); err != nil {
				return nil, err
			}
			format = format[2:]
			continue
		}
		end := strings.IndexByte(format, '}')
		if format[0] == '}' || end < 0 {
			return nil, s.errorf("format: a single brace")
		}
		name := format[1:end]
		format = format[end+1:]
		if name == "" {
			name = strconv.Itoa(automatic)
			automatic++
		}
		v, err := s.formatted(name, args, kw)
		if err != nil {
			return nil, err
		}
		if err := out.str(v); err != nil {
			return nil, err
		}
	}
	return out.b.String(), nil
}

// formatted finds the argument that a format names.
func (s *state) formatted(name string, args []value, kw []keyword) (value, error) {
	if err := s.spend(1 + len(kw)/8); err != nil {
		return nil, err
	}
	if i, err := strconv.Atoi(name); err == nil {
		if i < 0 || i >= len(args) {
			return nil, s.errorf("format: no argument %d", i)
		}
		return args[i], nil
	}
	for _, k := range kw {
		if k.name == name {
			return k.v, nil
		}
	}
	return nil, s.errorf("format: no argument %q", short(name))
}

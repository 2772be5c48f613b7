package chat

import (
	"slices"
	"strconv"
	"strings"
)

// sequenceFilters are the filters about lists and dicts. Those that give
// generators in Jinja do so here.
var sequenceFilters = map[string]builtin{
	"list": def("", func(s *state, self value, _ []value) (value, error) {
		items, err := s.collect(self)
		return &list{items: items}, err
	}),
	"first": def("", func(s *state, self value, _ []value) (value, error) {
		it, err := s.iterate(self)
		if err != nil {
			return nil, err
		}
		v, ok, err := s.next(it)
		if err == nil && !ok {
			return undefined{name: "first item of an empty sequence"}, nil
		}
		return v, err
	}),
	"last": def("", func(s *state, self value, _ []value) (value, error) {
		if _, ok := self.(*generator); ok {
			return nil, s.unfit("last", self)
		}
		items, err := s.collect(self)
		if err != nil || len(items) == 0 {
			return undefined{name: "last item of an empty sequence"}, err
		}
		return items[len(items)-1], nil
	}),
	"join":       def("d? attribute?", joinFilter),
	"sort":       def("reverse? case_sensitive? attribute?", sortFilter),
	"dictsort":   def("case_sensitive? by? reverse?", dictSort),
	"unique":     def("case_sensitive? attribute?", unique),
	"min":        def("case_sensitive? attribute?", func(s *state, self value, a []value) (value, error) { return s.extreme(self, a, -1) }),
	"max":        def("case_sensitive? attribute?", func(s *state, self value, a []value) (value, error) { return s.extreme(self, a, 1) }),
	"sum":        def("attribute? start?", sum),
	"reverse":    def("", reverse),
	"items":      def("", itemsFilter),
	"attr":       def("name", func(s *state, self value, a []value) (value, error) { return s.attrFilter(self, a[0]) }),
	"map":        mapFilter,
	"select":     chooser(true, false),
	"reject":     chooser(false, false),
	"selectattr": chooser(true, true),
	"rejectattr": chooser(false, true),
}

// path looks an attribute such as "a.b.0" up. What is undefined on the way
// becomes other, unless that is absent.
func (s *state) path(v, attribute, other value) (value, error) {
	if i, _, isInt, _ := number(attribute); isInt {
		return s.item(v, i)
	}
	name, err := s.wantText("an attribute's name", attribute)
	if err != nil {
		return nil, err
	}
	for more := true; more; {
		var part string
		part, name, more = strings.Cut(name, ".")
		var key value = part
		if i, err := strconv.ParseInt(part, 10, 64); err == nil && i >= 0 {
			key = i
		}
		if err := s.work(len(part)); err != nil {
			return nil, err
		}
		if v, err = s.item(v, key); err != nil {
			return nil, err
		}
		if _, missing := v.(undefined); missing && other != (absent{}) {
			v = other
		}
	}
	return v, nil
}

// attrFilter is an attribute alone, never a key.
func (s *state) attrFilter(v, name value) (value, error) {
	text, err := s.wantText("attr", name)
	if err != nil {
		return nil, err
	}
	x, ok, err := s.attribute(v, text)
	if err == nil && !ok {
		return undefined{typeName(v) + " object", text}, nil
	}
	return x, err
}

func joinFilter(s *state, self value, a []value) (value, error) {
	sep := ""
	if a[0] != (absent{}) {
		var err error
		if sep, err = s.asText(a[0]); err != nil {
			return nil, err
		}
	}
	it, err := s.iterate(self)
	if err != nil {
		return nil, err
	}
	out := &text{s: s}
	for i := 0; ; i++ {
		v, ok, err := s.next(it)
		if err != nil || !ok {
			return out.b.String(), err
		}
		if a[1] != (absent{}) && a[1] != nil {
			if v, err = s.path(v, a[1], absent{}); err != nil {
				return nil, err
			}
		}
		if i > 0 {
			if err := out.write(sep); err != nil {
				return nil, err
			}
		}
		if err := out.str(v); err != nil {
			return nil, err
		}
	}
}

func sum(s *state, self value, a []value) (value, error) {
	items, err := s.collect(self)
	if err != nil {
		return nil, err
	}
	var total value = int64(0)
	if a[1] != (absent{}) {
		total = a[1]
	}
	if _, isText := total.(string); isText {
		return nil, s.unfit("sum", total)
	}
	for _, item := range items {
		if a[0] != (absent{}) && a[0] != nil {
			if item, err = s.path(item, a[0], absent{}); err != nil {
				return nil, err
			}
		}
		if err := s.step(); err != nil {
			return nil, err
		}
		if total, err = s.arith("+", total, item); err != nil {
			return nil, err
		}
	}
	return total, nil
}

func reverse(s *state, self value, _ []value) (value, error) {
	items, err := s.collect(self)
	if err != nil {
		return nil, err
	}
	if err := s.allocItems(len(items)); err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	slices.Reverse(items)
	if _, ok := self.(string); ok {
		return s.join("", &list{items: items})
	}
	return &generator{items: items}, nil
}

func itemsFilter(s *state, self value, _ []value) (value, error) {
	switch v := self.(type) {
	case undefined:
		return &generator{}, nil
	case *dict:
		pairs, err := s.pairs(v)
		return &generator{items: pairs}, err
	}
	return nil, s.unfit("items", self)
}

// mapFilter applies a filter to every item, or takes an attribute of it.
func mapFilter(s *state, self value, args []value, kw []keyword) (value, error) {
	items, err := s.collect(self)
	if err != nil {
		return nil, err
	}
	var each func(v value) (value, error)
	if len(args) > 0 {
		name, err := s.wantText("map", args[0])
		if err != nil {
			return nil, err
		}
		each = func(v value) (value, error) { return s.filter(name, v, args[1:], kw) }
	} else {
		named := map[string]value{}
		for _, k := range kw {
			named[k.name] = k.v
		}
		attribute, ok := named["attribute"]
		other := named["default"]
		if other == nil {
			other = absent{}
		}
		delete(named, "default")
		delete(named, "attribute")
		for name := range named {
			return nil, s.errorf("map: unexpected argument %s", short(name))
		}
		if !ok {
			return nil, s.errorf("map: expected a filter or attribute=")
		}
		each = func(v value) (value, error) { return s.path(v, attribute, other) }
	}
	if err := s.allocItems(len(items)); err != nil {
		return nil, err
	}
	g := &generator{items: make([]value, len(items))}
	for i, item := range items {
		if g.items[i], err = each(item); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// chooser makes select, reject, selectattr and rejectattr: the items whose
// test, of themselves or of an attribute, gives what is wanted.
func chooser(want, byAttribute bool) builtin {
	return func(s *state, self value, args []value, kw []keyword) (value, error) {
		items, err := s.collect(self)
		if err != nil {
			return nil, err
		}
		var attribute value
		if byAttribute {
			if len(args) == 0 {
				return nil, s.errorf("expected the name of an attribute")
			}
			attribute, args = args[0], args[1:]
		}
		holds := func(v value) (bool, error) { return truth(v), nil }
		if len(args) > 0 {
			name, err := s.wantText("a test's name", args[0])
			if err != nil {
				return nil, err
			}
			holds = func(v value) (bool, error) { return s.test(name, v, args[1:], kw) }
		}
		g := &generator{}
		for _, item := range items {
			v := item
			if byAttribute {
				if v, err = s.path(item, attribute, absent{}); err != nil {
					return nil, err
				}
			}
			if err := s.allocItems(1); err != nil {
				return nil, err
			}
			ok, err := holds(v)
			if err != nil {
				return nil, err
			}
			if ok == want {
				g.items = append(g.items, item)
			}
		}
		return g, nil
	}
}

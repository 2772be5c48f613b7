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
		v, ok, err := it.next(s)
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
		v, ok, err := it.next(s)
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

// folded is a key of sort and unique: strings in small letters unless case
// matters.
func (s *state) folded(v value, caseSensitive value) (value, error) {
	str, ok := v.(string)
	if !ok || caseSensitive != (absent{}) && truth(caseSensitive) {
		return v, nil
	}
	if err := s.alloc(len(str)); err != nil {
		return nil, err
	}
	return toLower(str), s.work(len(str))
}

// sorted orders items by keys and keeps the order of equal ones.
func (s *state) sorted(items, keys []value, reverse bool) ([]value, error) {
	if err := s.allocItems(2 * len(items)); err != nil {
		return nil, err
	}
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	var failed error
	slices.SortStableFunc(order, func(a, b int) int {
		if failed != nil {
			return 0
		}
		var o int
		if o, failed = s.order(keys[a], keys[b]); o == unordered {
			o = 0
		}
		if reverse {
			return -o
		}
		return o
	})
	if failed != nil {
		return nil, failed
	}
	out := make([]value, len(items))
	for i, from := range order {
		out[i] = items[from]
	}
	return out, nil
}

func sortFilter(s *state, self value, a []value) (value, error) {
	items, err := s.collect(self)
	if err != nil {
		return nil, err
	}
	names := []string{}
	byName := a[2] != absent{} && a[2] != nil
	if byName {
		name, err := s.asText(a[2])
		if err != nil {
			return nil, err
		}
		if err := s.allocItems(strings.Count(name, ",")); err != nil {
			return nil, err
		}
		names = strings.Split(name, ",")
	}
	if err := s.allocItems(len(items) * (len(names) + 1)); err != nil {
		return nil, err
	}
	keys := make([]value, len(items))
	for i, item := range items {
		if !byName {
			if keys[i], err = s.folded(item, a[1]); err != nil {
				return nil, err
			}
			continue
		}
		key := &list{tuple: true}
		for _, name := range names {
			v, err := s.path(item, name, absent{})
			if err == nil {
				v, err = s.folded(v, a[1])
			}
			if err != nil {
				return nil, err
			}
			key.items = append(key.items, v)
		}
		keys[i] = key
	}
	out, err := s.sorted(items, keys, a[0] != absent{} && truth(a[0]))
	return &list{items: out}, err
}

func dictSort(s *state, self value, a []value) (value, error) {
	d, ok := self.(*dict)
	if !ok {
		return nil, s.unfit("dictsort", self)
	}
	from := d.keys
	switch a[1] {
	case absent{}, "key":
	case "value":
		from = d.vals
	default:
		return nil, s.errorf("dictsort: expected by key or by value")
	}
	pairs, err := s.pairs(d)
	if err != nil {
		return nil, err
	}
	if err := s.allocItems(len(pairs)); err != nil {
		return nil, err
	}
	keys := make([]value, len(from))
	for i, key := range from {
		if keys[i], err = s.folded(key, a[0]); err != nil {
			return nil, err
		}
	}
	out, err := s.sorted(pairs, keys, a[2] != absent{} && truth(a[2]))
	return &list{items: out}, err
}

func unique(s *state, self value, a []value) (value, error) {
	items, err := s.collect(self)
	if err != nil {
		return nil, err
	}
	seen := newDict(0)
	g := &generator{}
	for _, item := range items {
		key := item
		if a[1] != (absent{}) && a[1] != nil {
			if key, err = s.path(item, a[1], absent{}); err != nil {
				return nil, err
			}
		}
		if key, err = s.folded(key, a[0]); err != nil {
			return nil, err
		}
		_, ok, err := seen.find(s, key)
		if err != nil {
			return nil, err
		}
		if ok {
			continue
		}
		if err := s.alloc(pairBytes); err != nil {
			return nil, err
		}
		if err := seen.put(s, key, nil); err != nil {
			return nil, err
		}
		g.items = append(g.items, item)
	}
	return g, nil
}

// extreme is the first of the smallest or largest items.
func (s *state) extreme(self value, a []value, sign int) (value, error) {
	items, err := s.collect(self)
	if err != nil {
		return nil, err
	}
	var best, bestKey value = undefined{name: "an item of an empty sequence"}, nil
	for i, item := range items {
		key := item
		if a[1] != (absent{}) && a[1] != nil {
			if key, err = s.path(item, a[1], absent{}); err != nil {
				return nil, err
			}
		}
		if key, err = s.folded(key, a[0]); err != nil {
			return nil, err
		}
		if i > 0 {
			order, err := s.order(key, bestKey)
			if err != nil {
				return nil, err
			}
			if order == unordered || order*sign <= 0 {
				continue
			}
		}
		best, bestKey = item, key
	}
	return best, nil
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

package chat

import (
	"slices"
	"strings"
)

// folded is a key of sort and unique: strings in small letters unless case
// matters.
func (s *state) folded(v value, caseSensitive value) (value, error) {
	str, ok := v.(string)
	if !ok || caseSensitive != (absent{}) && truth(caseSensitive) {
		return v, nil
	}
	if err := s.work(len(str)); err != nil {
		return nil, err
	}
	return s.mapped(str, toLower)
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
		key, err := s.itemKey(item, a)
		if err != nil {
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
		key, err := s.itemKey(item, a)
		if err != nil {
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

// itemKey is what an item is compared by: the attribute a[1] of it, or the item
// itself, in one case unless a[0] says otherwise.
func (s *state) itemKey(item value, a []value) (value, error) {
	if a[1] != (absent{}) && a[1] != nil {
		var err error
		if item, err = s.path(item, a[1], absent{}); err != nil {
			return nil, err
		}
	}
	return s.folded(item, a[0])
}

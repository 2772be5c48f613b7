package chat

import (
	"strconv"
	"strings"
	"time"
)

// globals are the functions that templates find by name.
var globals = map[string]builtin{
	"raise_exception": def("message", func(s *state, _ value, a []value) (value, error) {
		message, err := s.asText(a[0])
		if err != nil {
			return nil, err
		}
		if len(message) > maxMessage {
			message = message[:maxMessage] + "..."
		}
		return nil, s.errorf("%s", message)
	}),
	"strftime_now": def("format", func(s *state, _ value, a []value) (value, error) {
		format, err := s.wantText("strftime_now", a[0])
		if err != nil {
			return nil, err
		}
		out := &text{s: s}
		err = out.strftime(format, s.now())
		return out.b.String(), err
	}),
	"range": def("start stop? step?", makeRange),
	"dict": func(s *state, _ value, args []value, kw []keyword) (value, error) {
		return s.makeDict(args, kw)
	},
	"namespace": func(s *state, _ value, args []value, kw []keyword) (value, error) {
		d, err := s.makeDict(args, kw)
		if err != nil {
			return nil, err
		}
		ns := &namespace{vars: make(map[string]value, len(d.keys))}
		for i, key := range d.keys {
			name, err := s.wantText("namespace", key)
			if err != nil {
				return nil, err
			}
			if err := ns.set(s, name, d.vals[i]); err != nil {
				return nil, err
			}
		}
		return ns, nil
	},
	"cycler": func(s *state, _ value, args []value, kw []keyword) (value, error) {
		if len(args) == 0 || len(kw) > 0 {
			return nil, s.errorf("cycler: expected at least one value and no names")
		}
		return &cycler{items: args}, nil
	},
	"joiner": def("sep?", func(_ *state, _ value, a []value) (value, error) {
		if a[0] == (absent{}) {
			return &joiner{sep: ", "}, nil
		}
		return &joiner{sep: a[0]}, nil
	}),
}

func makeRange(s *state, _ value, a []value) (value, error) {
	n := [3]int64{0, 0, 1}
	for i, v := range a {
		if v == (absent{}) {
			continue
		}
		x, _, isInt, _ := number(v)
		if !isInt {
			return nil, s.unfit("range", v)
		}
		n[i] = x
	}
	if a[1] == (absent{}) {
		n[0], n[1] = 0, n[0]
	}
	start, stop, step := n[0], n[1], n[2]
	if step == 0 {
		return nil, s.errorf("range: the step is zero")
	}
	r := &numbers{start: start, step: step}
	// Distances are unsigned, because they can be larger than any int64.
	var distance, stride uint64
	if step > 0 && stop > start {
		distance, stride = uint64(stop)-uint64(start), uint64(step)
	} else if step < 0 && stop < start {
		distance, stride = uint64(start)-uint64(stop), -uint64(step)
	}
	if distance > 0 {
		count := (distance-1)/stride + 1
		if count > maxRange {
			return nil, s.errorf("range of %d numbers, expected at most %d", count, maxRange)
		}
		r.n = int64(count)
	}
	return r, nil
}

// makeDict is dict(): of a dict or pairs, and named members.
func (s *state) makeDict(args []value, kw []keyword) (*dict, error) {
	if len(args) > 1 {
		return nil, s.errorf("dict: %d arguments, expected at most 1", len(args))
	}
	if err := s.alloc((len(kw) + 1) * pairBytes); err != nil {
		return nil, err
	}
	d := newDict(len(kw))
	if len(args) == 1 {
		if from, ok := args[0].(*dict); ok {
			if err := s.alloc(len(from.keys) * pairBytes); err != nil {
				return nil, err
			}
			for i, key := range from.keys {
				if err := d.put(s, key, from.vals[i]); err != nil {
					return nil, err
				}
			}
		} else if err := s.putPairs(d, args[0]); err != nil {
			return nil, err
		}
	}
	for _, k := range kw {
		if err := d.put(s, k.name, k.v); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (s *state) putPairs(d *dict, v value) error {
	pairs, err := s.collect(v)
	if err != nil {
		return err
	}
	if err := s.alloc(min(len(pairs), s.limits.made) * pairBytes); err != nil {
		return err
	}
	for _, pair := range pairs {
		items, err := s.collect(pair)
		if err != nil {
			return err
		}
		if len(items) != 2 {
			return s.errorf("dict: %d values in a pair", len(items))
		}
		if err := d.put(s, items[0], items[1]); err != nil {
			return err
		}
	}
	return nil
}

// dateLayouts are strftime's verbs in Go's terms.
var dateLayouts = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'B': "January", 'b': "Jan", 'h': "Jan",
	'A': "Monday", 'a': "Mon", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'j': "002",
	'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06", 'R': "15:04",
}

// strftime writes a date. %-d is %d without leading zeros; unknown verbs stay.
func (t *text) strftime(format string, now time.Time) error {
	for format != "" {
		before, after, found := strings.Cut(format, "%")
		if err := t.write(before); err != nil || !found {
			return err
		}
		verb, bare := "%", strings.HasPrefix(after, "-")
		if bare {
			verb, after = "%-", after[1:]
		}
		if after == "" {
			return t.write(verb)
		}
		shown := verb + after[:1]
		if layout, ok := dateLayouts[after[0]]; ok {
			shown = now.Format(layout)
			if n, err := strconv.Atoi(strings.TrimSpace(shown)); bare && err == nil {
				shown = strconv.Itoa(n)
			}
		} else if after[0] == '%' {
			shown = "%"
		}
		if err := t.write(shown); err != nil {
			return err
		}
		format = after[1:]
	}
	return nil
}

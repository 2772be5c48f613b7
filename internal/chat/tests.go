package chat

// is makes a test of a value alone.
func is(fn func(v value) bool) builtin {
	return def("", func(_ *state, self value, _ []value) (value, error) { return fn(self), nil })
}

// named makes a test of a name, which any string can be: looking it up is work.
func named(known func(name string) bool) builtin {
	return def("", func(s *state, self value, _ []value) (value, error) {
		name, ok := self.(string)
		return ok && known(name), s.work(len(name))
	})
}

// compares makes a test of an operator.
func compares(op string) builtin {
	return def("other", func(s *state, self value, a []value) (value, error) { return s.compare(op, self, a[0]) })
}

// remainder makes a test of what is left after a division.
func remainder(by, want int64) builtin {
	return def("", func(s *state, self value, _ []value) (value, error) {
		left, err := s.arith("%", self, by)
		if err != nil {
			return nil, err
		}
		return s.equal(left, want)
	})
}

// tests are what can stand after "is". The map is filled in init because
// filters refer to it and it to them.
var tests map[string]builtin

func init() {
	tests = map[string]builtin{
		"defined":   is(func(v value) bool { _, ok := v.(undefined); return !ok }),
		"undefined": is(func(v value) bool { _, ok := v.(undefined); return ok }),
		"none":      is(func(v value) bool { return v == nil }),
		"true":      is(func(v value) bool { return v == true }),
		"false":     is(func(v value) bool { return v == false }),
		"boolean":   is(func(v value) bool { _, ok := v.(bool); return ok }),
		"integer":   is(func(v value) bool { _, ok := v.(int64); return ok }),
		"float":     is(func(v value) bool { _, ok := v.(float64); return ok }),
		"number":    is(func(v value) bool { _, _, _, ok := number(v); return ok }),
		"string":    is(func(v value) bool { _, ok := v.(string); return ok }),
		"mapping":   is(func(v value) bool { _, ok := v.(*dict); return ok }),
		"iterable":  is(isIterable),
		"sequence":  is(isSequence),
		"callable":  is(isCallable),
		"escaped":   is(func(value) bool { return false }),
		"odd":       remainder(2, 1),
		"even":      remainder(2, 0),
		"divisibleby": def("num", func(s *state, self value, a []value) (value, error) {
			left, err := s.arith("%", self, a[0])
			if err != nil {
				return nil, err
			}
			return s.equal(left, int64(0))
		}),
		"in": compares("in"), "==": compares("=="), "eq": compares("=="), "equalto": compares("=="),
		"!=": compares("!="), "ne": compares("!="),
		">": compares(">"), "gt": compares(">"), "greaterthan": compares(">"),
		"<": compares("<"), "lt": compares("<"), "lessthan": compares("<"),
		">=": compares(">="), "ge": compares(">="), "<=": compares("<="), "le": compares("<="),
		"sameas": def("other", func(s *state, self value, a []value) (value, error) {
			str, _ := self.(string)
			return self == a[0], s.work(len(str))
		}),
		"upper": def("", func(s *state, self value, _ []value) (value, error) {
			str, err := s.asText(self)
			if err != nil {
				return nil, err
			}
			return stringMethods["isupper"](s, str, nil, nil)
		}),
		"lower": def("", func(s *state, self value, _ []value) (value, error) {
			str, err := s.asText(self)
			if err != nil {
				return nil, err
			}
			return stringMethods["islower"](s, str, nil, nil)
		}),
		"filter": named(func(name string) bool { _, known := filters[name]; return known }),
		"test":   named(func(name string) bool { _, known := tests[name]; return known }),
	}
}

func isIterable(v value) bool {
	switch v.(type) {
	case string, *list, *dict, *view, *numbers, *generator, undefined, *loop:
		return true
	}
	return false
}

func isSequence(v value) bool {
	switch v.(type) {
	case string, *list, *dict, *numbers, undefined:
		return true
	}
	return false
}

func isCallable(v value) bool {
	switch v.(type) {
	case *function, *macro, *joiner, undefined, *loop:
		return true
	}
	return false
}

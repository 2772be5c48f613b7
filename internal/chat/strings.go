package chat

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// stringMethod makes a method of strings; looking at the string is work.
func stringMethod(spec string, fn func(s *state, self string, a []value) (value, error)) builtin {
	return def(spec, func(s *state, self value, a []value) (value, error) {
		str, ok := self.(string)
		if !ok {
			return nil, s.unfit("a string's method", self)
		}
		if err := s.work(len(str)); err != nil {
			return nil, err
		}
		return fn(s, str, a)
	})
}

// remade is a stringMethod without arguments that gives a new string of about
// the same size.
func remade(fn func(string) string) builtin {
	return stringMethod("", func(s *state, self string, _ []value) (value, error) {
		return s.mapped(self, fn)
	})
}

// mapped gives a new string of about the same size. Changing the case can make
// it up to three times as long, which is paid afterwards.
func (s *state) mapped(self string, fn func(string) string) (value, error) {
	if err := s.alloc(len(self)); err != nil {
		return nil, err
	}
	made := fn(self)
	return made, s.alloc(max(len(made)-len(self), 0))
}

// asks is a stringMethod about every character of a string that is not empty.
func asks(fn func(rune) bool) builtin {
	return stringMethod("", func(_ *state, self string, _ []value) (value, error) {
		return self != "" && strings.IndexFunc(self, func(r rune) bool { return !fn(r) }) < 0, nil
	})
}

var stringMethods = map[string]builtin{
	"strip":      stringMethod("chars?", func(s *state, self string, a []value) (value, error) { return s.strip(self, a[0], true, true) }),
	"lstrip":     stringMethod("chars?", func(s *state, self string, a []value) (value, error) { return s.strip(self, a[0], true, false) }),
	"rstrip":     stringMethod("chars?", func(s *state, self string, a []value) (value, error) { return s.strip(self, a[0], false, true) }),
	"split":      stringMethod("sep? maxsplit?", func(s *state, self string, a []value) (value, error) { return s.split(self, a, false) }),
	"rsplit":     stringMethod("sep? maxsplit?", func(s *state, self string, a []value) (value, error) { return s.split(self, a, true) }),
	"splitlines": stringMethod("keepends?", splitLines),
	"upper":      remade(toUpper),
	"lower":      remade(toLower),
	"title":      remade(toTitle),
	"capitalize": remade(capitalize),
	"startswith": stringMethod("prefix", func(s *state, self string, a []value) (value, error) {
		return s.affix(self, a[0], strings.HasPrefix)
	}),
	"endswith": stringMethod("suffix", func(s *state, self string, a []value) (value, error) {
		return s.affix(self, a[0], strings.HasSuffix)
	}),
	"removeprefix": stringMethod("prefix", func(s *state, self string, a []value) (value, error) {
		part, err := s.wantText("removeprefix", a[0])
		return strings.TrimPrefix(self, part), err
	}),
	"removesuffix": stringMethod("suffix", func(s *state, self string, a []value) (value, error) {
		part, err := s.wantText("removesuffix", a[0])
		return strings.TrimSuffix(self, part), err
	}),
	"replace": stringMethod("old new count?", func(s *state, self string, a []value) (value, error) {
		return s.replace(self, a[0], a[1], a[2])
	}),
	"join": stringMethod("iterable", func(s *state, self string, a []value) (value, error) { return s.join(self, a[0]) }),
	"find": stringMethod("sub", func(s *state, self string, a []value) (value, error) {
		return s.find(self, a[0], strings.Index)
	}),
	"rfind": stringMethod("sub", func(s *state, self string, a []value) (value, error) {
		return s.find(self, a[0], strings.LastIndex)
	}),
	"index": stringMethod("sub", func(s *state, self string, a []value) (value, error) {
		at, err := s.find(self, a[0], strings.Index)
		if err == nil && at == int64(-1) {
			err = s.errorf("index: the string is not there")
		}
		return at, err
	}),
	"count": stringMethod("sub", func(s *state, self string, a []value) (value, error) {
		part, err := s.wantText("count", a[0])
		return int64(strings.Count(self, part)), err
	}),
	"partition": stringMethod("sep", func(s *state, self string, a []value) (value, error) {
		return s.partition(self, a[0], false)
	}),
	"rpartition": stringMethod("sep", func(s *state, self string, a []value) (value, error) {
		return s.partition(self, a[0], true)
	}),
	"isdigit": asks(unicode.IsDigit),
	"isalpha": asks(unicode.IsLetter),
	"isalnum": asks(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
	"isspace": asks(isSpace),
	"isupper": stringMethod("", func(_ *state, self string, _ []value) (value, error) { return cased(self, unicode.IsUpper), nil }),
	"islower": stringMethod("", func(_ *state, self string, _ []value) (value, error) { return cased(self, unicode.IsLower), nil }),
	"format":  formatMethod,
}

// wantText takes a string and nothing else.
func (s *state) wantText(what string, v value) (string, error) {
	if str, ok := v.(string); ok {
		return str, nil
	}
	return "", s.unfit(what, v)
}

func (s *state) strip(self string, chars value, left, right bool) (value, error) {
	drop := isSpace
	switch c := chars.(type) {
	case absent, nil:
	case string:
		// Looking every character up in the set is work of both sizes.
		const most = 256
		if len(c) > most {
			return nil, s.errorf("strip: more than %d bytes of characters", most)
		}
		drop = func(r rune) bool { return strings.ContainsRune(c, r) }
		if err := s.work(len(self) * len(c) / 8); err != nil {
			return nil, err
		}
	default:
		return nil, s.unfit("strip", chars)
	}
	if left {
		self = strings.TrimLeftFunc(self, drop)
	}
	if right {
		self = strings.TrimRightFunc(self, drop)
	}
	return self, nil
}

// affix tests for a prefix or suffix, or any of a tuple of them.
func (s *state) affix(self string, v value, has func(string, string) bool) (value, error) {
	if part, ok := v.(string); ok {
		return has(self, part), nil
	}
	l, ok := v.(*list)
	if !ok || !l.tuple {
		return nil, s.unfit("startswith or endswith", v)
	}
	for _, item := range l.items {
		part, err := s.wantText("startswith or endswith", item)
		if err != nil {
			return nil, err
		}
		if err := s.work(len(part)); err != nil || has(self, part) {
			return err == nil, err
		}
	}
	return false, nil
}

// replace counts first, so that nothing too large is made.
func (s *state) replace(self string, from, to, count value) (value, error) {
	old, err := s.wantText("replace", from)
	if err != nil {
		return nil, err
	}
	fresh, err := s.wantText("replace", to)
	if err != nil {
		return nil, err
	}
	n := strings.Count(self, old)
	if count != (absent{}) && count != nil {
		most, _, isInt, _ := number(count)
		if !isInt {
			return nil, s.unfit("replace's count", count)
		}
		if most >= 0 && most < int64(n) {
			n = int(most)
		}
	}
	if n == 0 {
		return self, nil
	}
	if len(fresh) > s.limits.made/n {
		return nil, s.alloc(-1)
	}
	if err := s.alloc(len(self) + n*len(fresh)); err != nil {
		return nil, err
	}
	return strings.Replace(self, old, fresh, n), nil
}

// join is Python's str.join, which takes strings only.
func (s *state) join(sep string, v value) (value, error) {
	items, err := s.collect(v)
	if err != nil {
		return nil, err
	}
	out := &text{s: s}
	for i, item := range items {
		part, err := s.wantText("join", item)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			if err := out.write(sep); err != nil {
				return nil, err
			}
		}
		if err := out.write(part); err != nil {
			return nil, err
		}
	}
	return out.b.String(), nil
}

// find gives the character where a string is found, or -1.
func (s *state) find(self string, sub value, index func(string, string) int) (value, error) {
	part, err := s.wantText("find", sub)
	if err != nil {
		return nil, err
	}
	at := index(self, part)
	if at < 0 {
		return int64(-1), nil
	}
	return int64(utf8.RuneCountInString(self[:at])), nil
}

func toUpper(s string) string { return cases.Upper(language.Und).String(s) }

func toLower(s string) string { return cases.Lower(language.Und).String(s) }

// toTitle is str.title: a letter after none begins a word.
func toTitle(s string) string {
	within := false
	return strings.Map(func(r rune) rune {
		letter := unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r)
		defer func() { within = letter }()
		switch {
		case !letter:
			return r
		case within:
			return unicode.ToLower(r)
		}
		return unicode.ToTitle(r)
	}, s)
}

// capitalize makes the first letter large and all others small.
func capitalize(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	if size == 0 || r == utf8.RuneError {
		return toLower(s)
	}
	return string(unicode.ToTitle(r)) + toLower(s[size:])
}

// cased says whether all letters with a case are of one kind, and there are any.
func cased(s string, kind func(rune) bool) bool {
	found := false
	for _, r := range s {
		if unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r) {
			if !kind(r) {
				return false
			}
			found = true
		}
	}
	return found
}

package chat

import (
	"strings"
	"unicode/utf8"
)

// split is Python's split, or its rsplit from the right.
func (s *state) split(self string, a []value, right bool) (value, error) {
	most := int64(-1)
	if a[1] != (absent{}) {
		n, _, isInt, _ := number(a[1])
		if !isInt {
			return nil, s.unfit("split's maxsplit", a[1])
		}
		most = n
	}
	sep, bySep := a[0].(string)
	if !bySep && a[0] != nil && a[0] != (absent{}) {
		return nil, s.unfit("split", a[0])
	}
	if bySep && sep == "" {
		return nil, s.errorf("split: an empty separator")
	}
	var parts []value
	add := func(part string) error {
		parts = append(parts, part)
		return s.allocItems(2)
	}
	rest := self
	for ; most != 0; most-- {
		part, after, found := cut(rest, sep, bySep, right)
		if !found {
			break
		}
		if err := add(part); err != nil {
			return nil, err
		}
		rest = after
	}
	if !bySep {
		if right {
			rest = strings.TrimRightFunc(rest, isSpace)
		} else {
			rest = strings.TrimLeftFunc(rest, isSpace)
		}
	}
	if bySep || rest != "" {
		if err := add(rest); err != nil {
			return nil, err
		}
	}
	if right {
		for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
			parts[i], parts[j] = parts[j], parts[i]
		}
	}
	return &list{items: parts}, nil
}

// cut takes the first part of s, or the last from the right, off at a
// separator or at white space.
func cut(s, sep string, bySep, right bool) (part, rest string, found bool) {
	switch {
	case bySep && right:
		i := strings.LastIndex(s, sep)
		if i < 0 {
			return "", s, false
		}
		return s[i+len(sep):], s[:i], true
	case bySep:
		return cutLeft(s, sep)
	case right:
		s = strings.TrimRightFunc(s, isSpace)
		i := strings.LastIndexFunc(s, isSpace)
		if s == "" {
			return "", "", false
		}
		if i < 0 {
			return s, "", true
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		return s[i+size:], s[:i], true
	}
	s = strings.TrimLeftFunc(s, isSpace)
	if s == "" {
		return "", "", false
	}
	if i := strings.IndexFunc(s, isSpace); i >= 0 {
		return s[:i], s[i:], true
	}
	return s, "", true
}

func cutLeft(s, sep string) (part, rest string, found bool) {
	part, rest, found = strings.Cut(s, sep)
	if !found {
		return "", s, false
	}
	return part, rest, true
}

// lines cuts a string at what Python calls the end of a line.
func (s *state) lines(self string, keep bool) ([]value, error) {
	var lines []value
	for self != "" {
		end := strings.IndexFunc(self, func(r rune) bool {
			return r >= '\n' && r <= '\r' || r >= 0x1c && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
		})
		size := 0
		if end < 0 {
			end = len(self)
		} else if _, size = utf8.DecodeRuneInString(self[end:]); strings.HasPrefix(self[end:], "\r\n") {
			size = 2
		}
		line := self[:end]
		if keep {
			line = self[:end+size]
		}
		if err := s.allocItems(2); err != nil {
			return nil, err
		}
		lines = append(lines, line)
		self = self[end+size:]
	}
	return lines, nil
}

func splitLines(s *state, self string, a []value) (value, error) {
	lines, err := s.lines(self, a[0] != absent{} && truth(a[0]))
	return &list{items: lines}, err
}

func (s *state) partition(self string, sep value, right bool) (value, error) {
	part, err := s.wantText("partition", sep)
	if err != nil {
		return nil, err
	}
	if part == "" {
		return nil, s.errorf("partition: an empty separator")
	}
	at := strings.Index(self, part)
	if right {
		at = strings.LastIndex(self, part)
	}
	items := []value{self, "", ""}
	if at >= 0 {
		items = []value{self[:at], part, self[at+len(part):]}
	} else if right {
		items = []value{"", "", self}
	}
	return &list{items, true}, s.allocItems(3)
}

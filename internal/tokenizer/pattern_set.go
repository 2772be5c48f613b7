package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// controls holds the escapes of single characters.
var controls = map[byte]rune{'a': 7, 'e': 27, 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}

// escape reads a \ and the set or character that it stands for.
func (p *patternParser) escape() (charset, error) {
	at := p.rest
	p.next()
	if p.rest == "" {
		return nil, fmt.Errorf("nothing after the last \\")
	}
	one := func(r rune) (charset, error) { return charset{r, r}, nil }
	c := p.rest[0]
	if c < utf8.RuneSelf {
		p.rest = p.rest[1:]
	}
	switch {
	case strings.IndexByte("dsw", c) >= 0:
		set, _ := property(string(c))
		return set, nil
	case strings.IndexByte("DSW", c) >= 0:
		set, _ := property(strings.ToLower(string(c)))
		return set.not(), nil
	case c == 'p' || c == 'P':
		name, rest, ok := strings.Cut(p.rest, "}")
		if ok && strings.HasPrefix(name, "{") {
			p.rest = rest
			name, inverse := strings.CutPrefix(name[1:], "^")
			if set, ok := property(name); ok && (c == 'P') != inverse {
				return set.not(), nil
			} else if ok {
				return set, nil
			}
		}
	case c == 'x' || c == 'u':
		if r, ok := p.hex(c); ok {
			return one(r)
		}
	case controls[c] != 0:
		return one(controls[c])
	case c < utf8.RuneSelf && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z'):
		return one(rune(c))
	}
	p.rest = at
	return nil, p.unknown("no known escape")
}

// hex reads the digits of \xHH, \x{H...} and \uHHHH.
func (p *patternParser) hex(kind byte) (rune, bool) {
	n, limit := 4, uint64(utf8.MaxRune)
	if kind == 'x' {
		n, limit = 2, utf8.RuneSelf-1 // beyond, it is a byte and no character
	}
	digits, rest := p.rest[:min(n, len(p.rest))], p.rest[min(n, len(p.rest)):]
	if inside, ok := strings.CutPrefix(p.rest, "{"); ok && kind == 'x' {
		limit = utf8.MaxRune
		if digits, rest, ok = strings.Cut(inside, "}"); !ok {
			return 0, false
		}
		n = len(digits)
	}
	v, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || len(digits) != n || v > limit || !utf8.ValidRune(rune(v)) {
		return 0, false
	}
	p.rest = rest
	return rune(v), true
}

// set reads [...].
func (p *patternParser) set() (charset, error) {
	if p.depth++; p.depth > maxGroups {
		return nil, fmt.Errorf("sets nested more than %d deep", maxGroups)
	}
	defer func() { p.depth-- }()
	at := p.rest
	p.next()
	negated := p.take("^")
	var sets []charset
	for !p.take("]") {
		switch {
		case p.rest == "":
			return nil, fmt.Errorf("no ] for %.20q", at)
		case strings.HasPrefix(p.rest, "[:"), strings.HasPrefix(p.rest, "&&"):
			return nil, p.unknown("no known set")
		case p.rest[0] == '[':
			inner, err := p.set()
			if err != nil {
				return nil, err
			}
			sets = append(sets, inner)
			continue
		}
		first, err := p.member()
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(p.rest, "-") && !strings.HasPrefix(p.rest, "-]") {
			before := p.rest
			p.next()
			if p.rest == "" || p.rest[0] == '[' {
				p.rest = before
				return nil, p.unknown("no known range")
			}
			last, err := p.member()
			if err != nil {
				return nil, err
			}
			a, b := len(first) == 2 && first[0] == first[1], len(last) == 2 && last[0] == last[1]
			if !a || !b || first[0] > last[0] {
				p.rest = before
				return nil, p.unknown("no known range")
			}
			first = charset{first[0], last[0]}
		}
		sets = append(sets, first)
	}
	if sets == nil {
		return nil, fmt.Errorf("an empty set %.20q", at)
	}
	set := union(sets...)
	if negated {
		if p.fold {
			return nil, fmt.Errorf("a negated set without case %.20q", at)
		}
		return set.not(), nil
	}
	return p.folded(set)
}

// fractions are ² ³ ¹ ¼ ½ ¾.
var fractions = charset{0xB2, 0xB3, 0xB9, 0xB9, 0xBC, 0xBE}

// member reads one character or escape of a set. \b is a backspace there, and refused with other escapes.
func (p *patternParser) member() (charset, error) {
	if p.rest[0] == '\\' {
		word := len(p.rest) > 1 && p.rest[1]|0x20 == 'w'
		set, err := p.escape()
		if word && err == nil { // fractions and the like are word characters, but not inside a set
			if set.has(fractions[0]) {
				return union(set.not(), fractions).not(), nil
			}
			return union(set, fractions), nil
		}
		return set, err
	}
	r := p.next()
	return charset{r, r}, nil
}

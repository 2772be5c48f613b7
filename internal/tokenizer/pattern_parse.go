package tokenizer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// patternParser reads the part of Oniguruma's syntax that means the same to our matcher: what it does not
// know is refused, for a guess would give other ids than the model was trained with.
type patternParser struct {
	rest  string
	depth int
	fold  bool // inside (?i: )
}

// Bounds that keep a small hostile pattern small.
const (
	maxPattern = 4096 // bytes
	maxGroups  = 50   // groups and sets inside each other
	maxRepeat  = 500  // {n}
)

func parsePattern(pattern string) (tree, error) {
	if !utf8.ValidString(pattern) {
		return nil, fmt.Errorf("invalid UTF-8")
	}
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("%d bytes, expected at most %d", len(pattern), maxPattern)
	}
	p := &patternParser{rest: pattern}
	t, err := p.choice()
	if err == nil && p.rest != "" {
		err = fmt.Errorf("a ) without a matching (")
	}
	return t, err
}

func (p *patternParser) take(prefix string) bool {
	rest, ok := strings.CutPrefix(p.rest, prefix)
	if ok {
		p.rest = rest
	}
	return ok
}

func (p *patternParser) next() rune {
	r, n := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[n:]
	return r
}

// unknown names the beginning of what is left.
func (p *patternParser) unknown(what string) error {
	return fmt.Errorf("%s at %.20q", what, p.rest)
}

// choice reads alternatives up to the end or a ).
func (p *patternParser) choice() (tree, error) {
	if p.depth++; p.depth > maxGroups {
		return nil, fmt.Errorf("groups nested more than %d deep", maxGroups)
	}
	defer func(fold bool) { p.depth, p.fold = p.depth-1, fold }(p.fold)
	if p.take("(?i)") { // elsewhere than at the beginning it would tear alternatives apart
		p.fold = true
	}
	var parts choiceTree
	for {
		part, err := p.chain()
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
		if !p.take("|") {
			break
		}
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return parts, nil
}

func (p *patternParser) chain() (tree, error) {
	var parts chainTree
	for p.rest != "" && p.rest[0] != '|' && p.rest[0] != ')' {
		first := p.rest[0]
		t, err := p.atom()
		if err != nil {
			return nil, err
		}
		if p.fold && p.rest != "" && strings.IndexByte("sSfF(\\", first) >= 0 && strings.IndexByte("stfilSTFIL({\\", p.rest[0]) >= 0 {
			return nil, p.unknown("without case, what may be a single character (as ss is ß, fi is ﬁ)")
		}
		if t, err = p.repeats(t); err != nil {
			return nil, err
		}
		parts = append(parts, t)
	}
	return parts, nil
}

// repeats reads the quantifier after an atom, if there is one.
func (p *patternParser) repeats(body tree) (tree, error) {
	r := repeatTree{body: body, max: -1}
	counted := false
	switch {
	case p.take("*"):
	case p.take("+"):
		r.min = 1
	case p.take("?"):
		r.max = 1
	case strings.HasPrefix(p.rest, "{"):
		counted = true
		inside, rest, ok := strings.Cut(p.rest[1:], "}")
		low, high, two := strings.Cut(inside, ",")
		if !two {
			high = low
		}
		if two && low == "" {
			low = "0"
		}
		var err1, err2 error
		r.min, err1 = strconv.Atoi(low)
		if high != "" {
			r.max, err2 = strconv.Atoi(high)
		}
		if !ok || !two && low == "" || err1 != nil || err2 != nil || strings.ContainsAny(inside, "+-") || r.max >= 0 && r.max < r.min || max(r.min, r.max) > maxRepeat {
			return nil, p.unknown(fmt.Sprintf("no count up to %d", maxRepeat))
		}
		p.rest = rest
		counted = !two
	default:
		return body, nil
	}
	switch body.(type) {
	case aheadTree, behindTree:
		return nil, p.unknown("a repeated assertion")
	}
	if !counted { // after {n} a ? is a quantifier of its own
		r.lazy = p.take("?")
		if set, ok := oneChar(body); ok && !r.lazy && p.take("+") {
			// Never to give back a character means that none of them may follow.
			none := aheadTree{charTree{set}, true}
			if r.max == 1 {
				return choiceTree{body, none}, nil
			}
			return chainTree{r, none}, nil
		}
	}
	if p.rest != "" && strings.IndexByte("*+?{", p.rest[0]) >= 0 {
		return nil, p.unknown("a second quantifier")
	}
	return r, nil
}

// groups holds what may stand after a ( and what it makes of its inside.
var groups = []struct {
	open string
	make func(inside tree) (tree, error)
}{
	{"(?:", group}, {"(?i:", group},
	{"(?=", func(t tree) (tree, error) { return aheadTree{t, false}, nil }},
	{"(?!", func(t tree) (tree, error) { return aheadTree{t, true}, nil }},
	{"(?<=", func(t tree) (tree, error) { return behind(t, false) }},
	{"(?<!", func(t tree) (tree, error) { return behind(t, true) }},
}

func group(t tree) (tree, error) { return t, nil }

func behind(t tree, not bool) (tree, error) {
	s, ok := oneChar(t)
	if !ok {
		return nil, fmt.Errorf("a lookbehind that is not exactly one character long")
	}
	return behindTree{s, not}, nil
}

func (p *patternParser) group() (tree, error) {
	outer, at := p.fold, p.rest
	build := group
	found := false
	for _, g := range groups {
		if p.take(g.open) {
			build, found = g.make, true
			p.fold = p.fold || g.open == "(?i:"
			break
		}
	}
	if !found && (strings.HasPrefix(p.rest, "(?") || strings.HasPrefix(p.rest, "(*") || !p.take("(")) {
		return nil, p.unknown("no known group")
	}
	t, err := p.choice()
	if err != nil {
		return nil, err
	}
	if p.fold = outer; !p.take(")") {
		return nil, fmt.Errorf("no ) for %.20q", at)
	}
	return build(t)
}

// atom reads one character, set, group or assertion.
func (p *patternParser) atom() (tree, error) {
	switch p.rest[0] {
	case '(':
		return p.group()
	case '[':
		set, err := p.set()
		return charTree{set}, err
	case '.':
		p.next()
		return charTree{newline.not()}, nil
	case '^':
		p.next()
		return atLineBegin, nil
	case '$':
		p.next()
		return atLineEnd, nil
	case '*', '+', '?', '{':
		return nil, p.unknown("nothing to repeat")
	case '\\':
		if t := p.assertion(); t != nil {
			return t, nil
		}
		set, err := p.escape()
		if err == nil {
			set, err = p.folded(set)
		}
		return charTree{set}, err
	}
	r := p.next()
	set, err := p.folded(charset{r, r})
	return charTree{set}, err
}

// folded is the set as it is meant where it stands.
func (p *patternParser) folded(set charset) (charset, error) {
	if !p.fold {
		return set, nil
	}
	folded, ok := set.fold()
	if !ok {
		return nil, p.unknown("other than ASCII without case, just before what stands")
	}
	return folded, nil
}

// assertion reads an escape that matches no character; nil if there is none.
func (p *patternParser) assertion() tree {
	switch {
	case p.take(`\b`):
		return wordBoundary(false)
	case p.take(`\B`):
		return wordBoundary(true)
	case p.take(`\A`):
		return atBegin
	case p.take(`\z`):
		return atEnd
	}
	return nil
}

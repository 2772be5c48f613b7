package tokenizer

import (
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// charset is a set of characters: first and last code point of each range, in turn, in order and apart.
type charset []rune

var anyChar = charset{0, utf8.MaxRune}

func (s charset) has(r rune) bool {
	i := sort.Search(len(s)/2, func(i int) bool { return s[2*i+1] >= r })
	return 2*i < len(s) && s[2*i] <= r
}

// union is every character that is in one of the sets.
func union(sets ...charset) charset {
	var ranges [][2]rune
	for _, s := range sets {
		for i := 0; i < len(s); i += 2 {
			ranges = append(ranges, [2]rune{s[i], s[i+1]})
		}
	}
	slices.SortFunc(ranges, func(a, b [2]rune) int { return int(a[0]) - int(b[0]) })
	var out charset
	for _, r := range ranges {
		if n := len(out); n > 0 && r[0] <= out[n-1]+1 {
			out[n-1] = max(out[n-1], r[1])
		} else {
			out = append(out, r[0], r[1])
		}
	}
	return out
}

// not is every character that is not in the set.
func (s charset) not() charset {
	var out charset
	next := rune(0)
	for i := 0; i < len(s); i += 2 {
		if next < s[i] {
			out = append(out, next, s[i]-1)
		}
		next = s[i+1] + 1
	}
	if next <= utf8.MaxRune {
		out = append(out, next, utf8.MaxRune)
	}
	return out
}

// fold adds the other cases of a set of ASCII characters; ok is false for other sets, whose folding by
// the reference has rules of its own.
func (s charset) fold() (folded charset, ok bool) {
	if len(s) == 0 || s[len(s)-1] >= utf8.RuneSelf {
		return nil, false
	}
	sets := []charset{s}
	for i := 0; i < len(s); i += 2 {
		for r := s[i]; r <= s[i+1]; r++ {
			for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
				sets = append(sets, charset{other, other})
			}
		}
	}
	return union(sets...), true
}

// property finds what \p{name} names, or d, s and w.
func property(name string) (charset, bool) {
	set, ok := properties()[name]
	return set, ok
}

// properties holds propertyTables by name, and by a single letter every category that begins with it.
var properties = sync.OnceValue(func() map[string]charset {
	sets := map[string]charset{}
	for _, t := range propertyTables {
		sets[t.name] = t.ranges
	}
	var assigned []charset
	for _, letter := range []string{"L", "M", "N", "P", "S", "Z"} {
		sets[letter] = prefixed(letter)
		assigned = append(assigned, sets[letter])
	}
	sets["C"] = union(assigned...).not() // among them the code points that nobody has assigned
	return sets
})

// prefixed is every character of the general categories that begin with a letter.
func prefixed(letter string) charset {
	var sets []charset
	for _, t := range propertyTables {
		if len(t.name) == 2 && strings.HasPrefix(t.name, letter) {
			sets = append(sets, t.ranges)
		}
	}
	return union(sets...)
}

// category is every character of one general category.
func category(name string) charset {
	for _, t := range propertyTables {
		if t.name == name {
			return t.ranges
		}
	}
	return nil
}

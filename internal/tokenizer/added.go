package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// addedToken is a token that is matched in the text as a whole, before the model sees it.
type addedToken struct {
	content                    string
	id                         int32
	special                    bool // left out by Decode when asked, and matched only with ParseSpecial
	normalized                 bool // matched after normalization, in its normalized spelling
	singleWord, lstrip, rstrip bool
}

// maxAddedToken bounds an added token's length in bytes: matching may cost text times this.
const maxAddedToken = 4096

// addedTokens holds the two sets that a text is cut by, before and after normalization.
type addedTokens struct {
	raw, normalized matcher
	byID            map[int32]*addedToken
}

func newAddedTokens(list []addedToken, norm normalizer, v *vocab) (*addedTokens, error) {
	a := &addedTokens{byID: make(map[int32]*addedToken, len(list))}
	for i := range list {
		t := &list[i]
		if len(t.content) > maxAddedToken {
			return nil, fmt.Errorf("an added token is %d bytes long, expected at most %d", len(t.content), maxAddedToken)
		}
		a.byID[t.id] = t
		if !t.normalized {
			a.raw.add(t.content, t)
			continue
		}
		pattern := t.content
		if norm != nil {
			pattern = string(norm.normalize(nil, []byte(pattern), new(Scratch)))
			v.tokens[t.id] = pattern // and so the reference spells it when decoding
		}
		a.normalized.add(pattern, t)
	}
	return a, nil
}

func (a *addedTokens) isSpecial(id int32) bool {
	t := a.byID[id]
	return t != nil && t.special
}

// matcher finds the leftmost longest of its tokens: a trie whose edges are hashed.
type matcher struct {
	first [256]bool             // bytes that some token begins with
	edges map[uint64]int32      // node<<8 | byte -> node; node 0 is the root
	ends  map[int32]*addedToken // nodes where a token ends
}

func (m *matcher) add(pattern string, t *addedToken) {
	if pattern == "" {
		return
	}
	if m.edges == nil {
		m.edges, m.ends = make(map[uint64]int32), make(map[int32]*addedToken)
	}
	m.first[pattern[0]] = true
	node := int32(0)
	for i := 0; i < len(pattern); i++ {
		key := uint64(node)<<8 | uint64(pattern[i])
		next, ok := m.edges[key]
		if !ok {
			next = int32(len(m.edges) + 1)
			m.edges[key] = next
		}
		node = next
	}
	if m.ends[node] == nil {
		m.ends[node] = t
	}
}

// find gives the next match at or after from, or a nil token.
func (m *matcher) find(text []byte, from int) (start, end int, t *addedToken) {
	for start = from; start < len(text); start++ {
		if !m.first[text[start]] {
			continue
		}
		node := int32(0)
		for i := start; i < len(text); i++ {
			next, ok := m.edges[uint64(node)<<8|uint64(text[i])]
			if !ok {
				break
			}
			node = next
			if hit := m.ends[node]; hit != nil {
				end, t = i+1, hit
			}
		}
		if t != nil {
			return start, end, t
		}
	}
	return 0, 0, nil
}

// scan appends the ids of the tokens that it finds and hands the stretches between them to rest.
func (m *matcher) scan(dst []int32, text []byte, parseSpecial bool, rest func([]int32, []byte) []int32) []int32 {
	if m.edges == nil {
		if len(text) > 0 {
			dst = rest(dst, text)
		}
		return dst
	}
	done := 0 // everything before it is encoded
	for from := 0; from < len(text); {
		start, end, t := m.find(text, from)
		if t == nil {
			break
		}
		from = end
		if t.special && !parseSpecial {
			continue
		}
		if t.singleWord && (endsWithWord(text[:start]) || startsWithWord(text[end:])) {
			continue
		}
		if t.lstrip {
			start = max(start-spaceBefore(text[:start]), done)
		}
		if t.rstrip {
			end += spaceAfter(text[end:])
		}
		if done < start {
			dst = rest(dst, text[done:start])
		}
		dst = append(dst, t.id)
		done = end
	}
	if done < len(text) {
		dst = rest(dst, text[done:])
	}
	return dst
}

func startsWithWord(text []byte) bool {
	r, n := utf8.DecodeRune(text)
	return n > 0 && isWord(r)
}

func endsWithWord(text []byte) bool {
	r, n := utf8.DecodeLastRune(text)
	return n > 0 && isWord(r)
}

// spaceBefore is the number of bytes of whitespace that text ends with.
func spaceBefore(text []byte) int {
	end := len(text)
	for end > 0 {
		r, n := utf8.DecodeLastRune(text[:end])
		if !isSpace(r) {
			break
		}
		end -= n
	}
	return len(text) - end
}

// spaceAfter is the number of bytes of whitespace that text begins with.
func spaceAfter(text []byte) int {
	end := 0
	for end < len(text) {
		r, n := utf8.DecodeRune(text[end:])
		if !isSpace(r) {
			break
		}
		end += n
	}
	return end
}

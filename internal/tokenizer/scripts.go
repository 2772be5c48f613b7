package tokenizer

import (
	"sort"
	"unicode/utf8"
)

// scriptRange is a run of characters of one script, as the UnicodeScripts pre-tokenizer sees it: kana
// count as Han. Characters that are in no range go with any script.
type scriptRange struct {
	first, last rune
	script      uint8
}

// scriptOf gives a character's script, 0 for those that go with any.
func scriptOf(r rune) uint8 {
	i := sort.Search(len(scriptTable), func(i int) bool { return scriptTable[i].last >= r })
	if i < len(scriptTable) && scriptTable[i].first <= r {
		return scriptTable[i].script
	}
	return 0
}

// cutScripts cuts where the script changes. What goes with any script belongs to the piece before; before
// the first piece it is dropped, as the reference does.
func cutScripts(text []byte, p span, out []span) []span {
	start, last := -1, uint8(0)
	for i := p.start; i < p.end; {
		r, n := utf8.DecodeRune(text[i:p.end])
		if script := scriptOf(r); script != 0 && script != last {
			if start >= 0 {
				out = append(out, span{start, i})
			}
			start, last = i, script
		}
		i += n
	}
	if start >= 0 {
		out = append(out, span{start, p.end})
	}
	return out
}

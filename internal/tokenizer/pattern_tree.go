package tokenizer

// tree is a node of a regular expression. Groups leave no node: nobody asks what they matched.
type tree interface{}

type (
	// charTree is one character of a set.
	charTree struct{ set charset }
	// chainTree is one part after the other; an empty chain matches everywhere.
	chainTree []tree
	// choiceTree is the first of its parts that leads to a match.
	choiceTree []tree
	// repeatTree is body at least min and at most max times, as often as possible or, if lazy, as seldom.
	repeatTree struct {
		body     tree
		min, max int // max is -1 where there is no end
		lazy     bool
	}
	// aheadTree matches no character, where body matches (or, with not, does not) from here on.
	aheadTree struct {
		body tree
		not  bool
	}
	// behindTree matches no character, where the one before is (or, with not, is not) of a set.
	behindTree struct {
		set charset
		not bool
	}
)

// Assertions, spelled out in those of above.
var (
	newline     = charset{'\n', '\n'}
	atBegin     = behindTree{anyChar, true}
	atEnd       = aheadTree{charTree{anyChar}, true}
	atLineBegin = choiceTree{atBegin, chainTree{behindTree{newline, false}, aheadTree{atEnd, true}}}
	atLineEnd   = choiceTree{aheadTree{charTree{newline}, false}, atEnd}
)

// wordBoundary is \b or, with not, \B.
func wordBoundary(not bool) tree {
	w, _ := property("w")
	word := charTree{w}
	return choiceTree{
		chainTree{behindTree{w, false}, aheadTree{word, !not}},
		chainTree{behindTree{w, true}, aheadTree{word, not}},
	}
}

// oneChar gives the set of a tree that is one character.
func oneChar(t tree) (charset, bool) {
	switch t := t.(type) {
	case charTree:
		return t.set, true
	case chainTree:
		if len(t) == 1 {
			return oneChar(t[0])
		}
	case choiceTree:
		var sets []charset
		for _, part := range t {
			s, ok := oneChar(part)
			if !ok {
				return nil, false
			}
			sets = append(sets, s)
		}
		return union(sets...), true
	}
	return nil, false
}

package tokenizer

import (
	"fmt"

	"golang.org/x/text/unicode/norm"
)

// A file's settings can make text grow: a Replace writes 1 KB for each "a", and
// a chain of them multiplies. So every stage (normalizer, pre-tokenizer, model,
// decoder) states how much it can make of its input, the growths of a pipeline
// are multiplied when it is read, and one that passes maxGrowth is refused then.
// No text has to be looked at, so Encode and Decode still cannot fail. What a
// post-processor puts around a text has a bound of its own, maxFrame.

// growth bounds what a stage makes of n bytes: per*n + plus. A normalizer's n is
// a stretch between added tokens, a decoder's a token.
type growth struct{ per, plus float64 }

// same is the growth of a stage that never makes more than it gets.
var same = growth{per: 1}

// maxFrame is how many ids a post-processor may put around a text.
const maxFrame = 1024

// maxGrowth is how many bytes (or ids) a pipeline may make of one byte of text.
// The largest of a known model is 726 (ALBERT: NFKD, lowercase, a charsmap and
// Metaspace in a row), which real texts stay far below.
const maxGrowth = 1024

// then is the growth of g followed by next.
func (g growth) then(next growth) growth {
	return growth{next.per * g.per, next.per*g.plus + next.plus}
}

// within refuses a pipeline that grows too much with the part p, its last one.
func (p *jsonPart) within(g growth) error {
	if err := g.check(); err != nil {
		return fmt.Errorf("%s: %s: with this %s %w", p.file, p.path, p.kind, err)
	}
	return nil
}

func (g growth) check() error {
	if most := g.per + g.plus; most > maxGrowth {
		return fmt.Errorf("the text can grow to %.4g times its size, expected at most %d times", most, maxGrowth)
	}
	return nil
}

// replacing is the growth of a stage that writes content in the place of matches
// of at least so many bytes. An empty match can be between any two characters.
func replacing(matched int, content string) growth {
	n := float64(len(content))
	if matched == 0 {
		return growth{1 + n, n}
	}
	return growth{per: max(1, n/float64(matched))}
}

// shortest is how many bytes a match has at least.
func (l literal) shortest() int { return len(l) }

func (p *pattern) shortest() int { return p.least }

// shortestMatch is how many characters a match of t has at least.
func shortestMatch(t tree) int {
	switch t := t.(type) {
	case charTree:
		return 1
	case chainTree:
		n := 0
		for _, part := range t {
			n += shortestMatch(part)
		}
		return n
	case choiceTree:
		n := shortestMatch(t[0])
		for _, part := range t[1:] {
			n = min(n, shortestMatch(part))
		}
		return n
	case repeatTree:
		return t.min * shortestMatch(t.body)
	}
	return 0
}

func (c normalizerChain) growth() growth {
	g := same
	for _, n := range c {
		g = g.then(n.growth())
	}
	return g
}

func (c decoderChain) growth() growth {
	g := same
	for _, d := range c {
		g = g.then(d.growth())
	}
	return g
}

// growthOf is the growth of steps after what comes before them.
func growthOf(before growth, steps []step) growth {
	for _, st := range steps {
		before = before.then(st.growth())
	}
	return before
}

// The normalization forms grow as Unicode (UAX #15) says.
func (n form) growth() growth {
	if n.f == norm.NFKC || n.f == norm.NFKD {
		return growth{per: 11}
	}
	return growth{per: 3}
}

func (lowercase) growth() growth { return growth{per: 1.5} } // two bytes become three

func (stripMarks) growth() growth     { return same }
func (strip) growth() growth          { return same }
func (nmt) growth() growth            { return same }
func (collapseSpaces) growth() growth { return same }

// growth: spaces around a character of three bytes, its accents apart, its case.
func (b bertNormalizer) growth() growth { return growth{per: 5. / 3 * 3 * 1.5} }

func (n prepend) growth() growth { return growth{1, float64(len(n))} }

func (n replace) growth() growth {
	if n.finder == finder(literal("")) {
		return same // found nowhere
	}
	return replacing(n.finder.shortest(), n.content)
}

func (c charsmap) growth() growth { return c.grows }

// measure looks at keys of one and two bytes and takes the longest text for all
// others. SentencePiece's own tables come to 11, as NFKC does.
func (c *charsmap) measure() growth {
	longest, from := 0, 0
	for i, b := range c.texts {
		if b == 0 {
			from = i + 1
		}
		longest = max(longest, i+1-from)
	}
	g := growth{per: max(1, float64(longest)/3)}
	for key := range 1 << 16 {
		one, two := byte(key>>8), byte(key)
		if to, ok := c.find([]byte{one, two}); ok {
			g.per = max(g.per, float64(len(to))/2)
		}
		if two == 0 {
			to, _ := c.find([]byte{one})
			g.per = max(g.per, float64(len(to)))
		}
	}
	return g
}

func (spellBytes) growth() growth  { return growth{per: 2} }
func (prefixSpace) growth() growth { return growth{per: 2} } // a piece has a byte at least
func (cutter) growth() growth      { return same }
func (classCut) growth() growth    { return same }
func (splitStep) growth() growth   { return same }
func (fixedLength) growth() growth { return same }
func (*breakCut) growth() growth   { return same }

// growth: every byte may be a space, and one that begins a piece has the
// character before it.
func (m metaspace) growth() growth { return growth{per: 1 + float64(len(m.char))} }

// growth of a model is in ids. BPE spells a character with its prefix and suffix,
// and byte fallback makes an id of each byte of that.
func (m *bpe) growth() growth {
	return growth{per: 1 + float64(len(m.prefix)+len(m.suffix))}
}

func (*unigram) growth() growth   { return same }
func (*wordPiece) growth() growth { return same }
func (*wordLevel) growth() growth { return same }

func (byteLevelDecoder) growth() growth    { return same }
func (spaceDecoder) growth() growth        { return growth{1, 1} }
func (d eachDecoder) growth() growth       { return d.grows }
func (ctcDecoder) growth() growth          { return same }
func (bpeDecoder) growth() growth          { return same }
func (byteFallbackDecoder) growth() growth { return same }
func (fuseDecoder) growth() growth         { return same }
func (stripDecoder) growth() growth        { return same }
func (gatherDecoder) growth() growth       { return growth{per: 3} } // broken UTF-8 becomes U+FFFD

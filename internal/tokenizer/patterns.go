package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Hand-written matchers for the patterns that models are trained with. Each cuts a piece completely.

// patterns holds the known Split expressions of tokenizer.json.
var patterns = map[string]struct {
	cut   cutter // the expression matches every character of a text
	class class  // the expression is one character of a class
}{
	gpt2Pattern:   {cut: cutGPT2},
	llama3Pattern: {cut: cutLlama3},
	qwen2Pattern:  {cut: cutQwen2},
	gpt4oPattern:  {cut: cutGPT4o},
	tekkenPattern: {cut: cutTekken},
	`\p{N}`:       {class: classNumber},
}

const (
	gpt2Pattern   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Pattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// reader walks over a piece.
type reader struct {
	text []byte
	end  int
}

// at gives the classes and the length of the character at i; past the end its length is 0 and it is
// of no class.
func (t reader) at(i int) (c class, n int) {
	if i >= t.end {
		return 0, 0
	}
	if b := t.text[i]; b < utf8.RuneSelf {
		return pages[0][b], 1
	}
	r, n := utf8.DecodeRune(t.text[i:t.end])
	return classOf(r), n
}

// runEnd is the end of the longest run from i on whose characters are (or, with not, are not) of a class.
func (t reader) runEnd(i int, of class, not bool) int {
	for {
		c, n := t.at(i)
		if n == 0 || c.is(of) == not {
			return i
		}
		i += n
	}
}

const classText = classSpace | classLetter | classNumber // what [^\s\p{L}\p{N}] is not

// contraction is the length of 's 't 're 've 'm 'll 'd at i, or 0.
func (t reader) contraction(i int, fold bool) int {
	if i+1 >= t.end || t.text[i] != '\'' {
		return 0
	}
	letter := func(i int) byte {
		if i >= t.end {
			return 0
		}
		if c := t.text[i]; !fold || c < 'A' || c > 'Z' {
			return c
		}
		return t.text[i] + 'a' - 'A'
	}
	switch a, b := letter(i+1), letter(i+2); {
	case a == 's', a == 't', a == 'm', a == 'd':
		return 2
	case a == 'r' && b == 'e', a == 'v' && b == 'e', a == 'l' && b == 'l':
		return 3
	case fold && a == 0xC5 && b == 0xBF: // ſ is an s without case
		return 3
	}
	return 0
}

// spaces is the end of what \s+(?!\S)|\s+ matches at i, where a space stands: the run of spaces, less
// the last one if text follows.
func (t reader) spaces(i int) int {
	end := t.runEnd(i, classSpace, false)
	if end == t.end {
		return end
	}
	last := end - 1
	for !utf8.RuneStart(t.text[last]) {
		last--
	}
	if last > i {
		return last
	}
	return end
}

// cutGPT2 cuts by gpt2Pattern.
func cutGPT2(text []byte, p span, out []span) []span {
	t := reader{text, p.end}
	for i := p.start; i < p.end; {
		end := i + t.contraction(i, false)
		if end == i {
			begin := i
			if text[i] == ' ' {
				begin++
			}
			switch c, n := t.at(begin); {
			case n == 0 || c.is(classSpace):
				end = t.spaces(i)
			case c.is(classLetter):
				end = t.runEnd(begin+n, classLetter, false)
			case c.is(classNumber):
				end = t.runEnd(begin+n, classNumber, false)
			default:
				end = t.runEnd(begin+n, classText, true)
			}
		}
		out = append(out, span{i, end})
		i = end
	}
	return out
}

func cutLlama3(text []byte, p span, out []span) []span { return cutCL100K(text, p, out, 3) }

func cutQwen2(text []byte, p span, out []span) []span { return cutCL100K(text, p, out, 1) }

// cutCL100K cuts by llama3Pattern or qwen2Pattern: numbers have at most maxDigits.
func cutCL100K(text []byte, p span, out []span, maxDigits int) []span {
	t := reader{text, p.end}
	for i := p.start; i < p.end; {
		end := i + t.contraction(i, true)
		if end == i {
			end = t.cl100k(i, maxDigits)
		}
		out = append(out, span{i, end})
		i = end
	}
	return out
}

// cl100k is the end of the match at i that is no contraction.
func (t reader) cl100k(i, maxDigits int) int {
	c, n := t.at(i)
	if c.is(classLetter) {
		return t.runEnd(i+n, classLetter, false)
	}
	if c.is(classNumber) {
		return t.digits(i+n, maxDigits)
	}
	newline := t.text[i] == '\n' || t.text[i] == '\r'
	next, m := t.at(i + n)
	if !newline && next.is(classLetter) {
		return t.runEnd(i+n+m, classLetter, false)
	}
	mark := i // where [^\s\p{L}\p{N}]+ would begin
	if t.text[i] == ' ' {
		mark, c, n = i+1, next, m
	}
	if n > 0 && !c.is(classText) {
		end := t.runEnd(mark+n, classText, true)
		for end < t.end && (t.text[end] == '\n' || t.text[end] == '\r') {
			end++
		}
		return end
	}
	// \s*[\r\n]+ reaches to the last line break of the run of spaces.
	run := t.runEnd(i, classSpace, false)
	for last := run; last > i; last-- {
		if b := t.text[last-1]; b == '\n' || b == '\r' {
			return last
		}
	}
	return t.spaces(i)
}

// cutPunctRuns cuts around runs of [\p{P}\$\+<=>\^~\|].
func cutPunctRuns(text []byte, p span, out []span) []span {
	t := reader{text, p.end}
	in := func(i int) (bool, int) {
		c, n := t.at(i)
		return c.is(classRegexPunct) || n == 1 && strings.IndexByte("$+<=>^~|", text[i]) >= 0, n
	}
	for i := p.start; i < p.end; {
		start := i
		punct, n := in(i)
		for i += n; i < p.end; i += n {
			var next bool
			if next, n = in(i); next != punct {
				break
			}
		}
		out = append(out, span{start, i})
	}
	return out
}

// cutThreeDigits cuts around [0-9][0-9][0-9].
func cutThreeDigits(text []byte, p span, out []span) []span {
	digit := func(i int) bool { return i < p.end && text[i] >= '0' && text[i] <= '9' }
	start := p.start
	for i := p.start; i < p.end; {
		if !digit(i) || !digit(i+1) || !digit(i+2) {
			i++
			continue
		}
		if start < i {
			out = append(out, span{start, i})
		}
		out = append(out, span{i, i + 3})
		i += 3
		start = i
	}
	if start < p.end {
		out = append(out, span{start, p.end})
	}
	return out
}

// digits is the end of the numbers of \p{N}{1,maxDigits} whose first ends at end.
func (t reader) digits(end, maxDigits int) int {
	for range maxDigits - 1 {
		c, n := t.at(end)
		if !c.is(classNumber) {
			break
		}
		end += n
	}
	return end
}

package chat

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEnd      tokenKind = iota
	tokText               // between tags
	tokPrint              // {{
	tokPrintEnd           // }}
	tokTag                // {%
	tokTagEnd             // %}
	tokName
	tokString
	tokInt
	tokFloat
	tokOp
)

type token struct {
	kind tokenKind
	line int
	text string // of a string: its value
	num  value  // of a number
}

// String is how errors call a token.
func (t token) String() string {
	switch t.kind {
	case tokEnd:
		return "the end of the template"
	case tokText:
		return "text"
	case tokString:
		return fmt.Sprintf("string %q", short(t.text))
	case tokInt, tokFloat:
		return fmt.Sprintf("number %v", t.num)
	}
	return fmt.Sprintf("%q", short(t.text))
}

// lexer cuts a source into tokens, as Jinja does with trim_blocks and
// lstrip_blocks: the newline after a tag goes, and so do spaces and tabs
// before one on its line.
type lexer struct {
	name, src string
	at, line  int
	lineStart bool // what was read last ended a line
	tokens    []token
	open      []byte // brackets to be closed in this tag
}

func (l *lexer) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: line %d: %s", l.name, l.line, fmt.Sprintf(format, args...))
}

// lex gives the tokens of a source. The last is tokEnd.
func lex(name, src string) ([]token, error) {
	src = strings.ReplaceAll(src, "\r\n", "\n")
	src = strings.ReplaceAll(src, "\r", "\n")
	src = strings.TrimSuffix(src, "\n")
	l := &lexer{name: name, src: src, line: 1, lineStart: true}
	for l.at < len(l.src) {
		if err := l.root(); err != nil {
			return nil, err
		}
	}
	l.emit(tokEnd, "")
	return l.tokens, nil
}

func (l *lexer) emit(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind: kind, line: l.line, text: text})
}

// skip moves on by n bytes and counts their lines.
func (l *lexer) skip(n int) {
	passed := l.src[l.at : l.at+n]
	l.line += strings.Count(passed, "\n")
	if n > 0 {
		l.lineStart = passed[n-1] == '\n'
	}
	l.at += n
}

func (l *lexer) skipSpace() {
	l.skip(len(l.src) - l.at - len(strings.TrimLeftFunc(l.src[l.at:], isSpace)))
}

// root reads text and the tag after it.
func (l *lexer) root() error {
	start := l.at
	open := -1
	for i := start; i+1 < len(l.src); i++ {
		if l.src[i] == '{' && (l.src[i+1] == '{' || l.src[i+1] == '%' || l.src[i+1] == '#') {
			open = i
			break
		}
	}
	if open < 0 {
		l.emit(tokText, l.src[start:])
		l.skip(len(l.src) - start)
		return nil
	}
	kind := l.src[open+1]
	body, sign := open+2, byte(0)
	if body < len(l.src) && (l.src[body] == '-' || l.src[body] == '+') {
		sign = l.src[body]
		body++
	}
	if text := l.before(l.src[start:open], sign, kind == '{'); text != "" {
		l.emit(tokText, text)
	}
	l.skip(open - start)
	switch {
	case kind == '#':
		l.skip(body - open)
		return l.comment()
	case kind == '{':
		l.emit(tokPrint, "{{")
		l.skip(body - open)
		return l.tag("}}")
	}
	if n := rawTag(l.src[body:], "raw"); n > 0 {
		l.skip(body + n - open)
		if l.src[l.at-3] == '-' {
			l.skipSpace()
		}
		return l.raw()
	}
	l.emit(tokTag, "{%")
	l.skip(body - open)
	return l.tag("%}")
}

// before is what stays of the text before a tag.
func (l *lexer) before(text string, sign byte, printed bool) string {
	if sign == '-' {
		return strings.TrimRightFunc(text, isSpace)
	}
	if sign == '+' || printed {
		return text
	}
	line := strings.LastIndexByte(text, '\n') + 1
	if (line > 0 || l.lineStart) && strings.TrimLeftFunc(text[line:], isSpace) == "" {
		return text[:line]
	}
	return text
}

// after skips what a tag's end takes with it; sign stood before the end.
func (l *lexer) after(sign byte) {
	switch {
	case sign == '-':
		l.skipSpace()
	case sign != '+' && l.at < len(l.src) && l.src[l.at] == '\n':
		l.skip(1)
	}
}

func (l *lexer) comment() error {
	end := strings.Index(l.src[l.at:], "#}")
	if end < 0 {
		return l.errorf("a comment without end")
	}
	sign := byte(0)
	if end > 0 {
		sign = l.src[l.at+end-1]
	}
	l.skip(end + 2)
	l.after(sign)
	return nil
}

// rawTag gives the length of a raw or endraw tag's rest: name and end.
func rawTag(s, name string) int {
	rest := strings.TrimLeftFunc(s, isSpace)
	if !strings.HasPrefix(rest, name) {
		return 0
	}
	rest = strings.TrimLeftFunc(rest[len(name):], isSpace)
	for _, end := range []string{"%}", "-%}", "+%}"} {
		if strings.HasPrefix(rest, end) && (name != "raw" || end != "+%}") {
			return len(s) - len(rest) + len(end)
		}
	}
	return 0
}

// raw reads up to endraw.
func (l *lexer) raw() error {
	for from := l.at; ; {
		next := strings.Index(l.src[from:], "{%")
		if next < 0 {
			return l.errorf("raw without endraw")
		}
		open := from + next
		body, sign := open+2, byte(0)
		if body < len(l.src) && (l.src[body] == '-' || l.src[body] == '+') {
			sign = l.src[body]
			body++
		}
		n := rawTag(l.src[body:], "endraw")
		if n == 0 {
			from = open + 2
			continue
		}
		if text := l.before(l.src[l.at:open], sign, false); text != "" {
			l.emit(tokText, text)
		}
		l.skip(body + n - l.at)
		l.after(l.src[l.at-3])
		return nil
	}
}

// operators, the long ones first.
var operators = []string{
	"//", "**", "==", "!=", ">=", "<=",
	"+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",",
}

// tag reads the inside of a tag up to its end.
func (l *lexer) tag(end string) error {
	kind := tokTagEnd
	if end == "}}" {
		kind = tokPrintEnd
	}
	l.open = l.open[:0]
	for {
		l.skipSpace()
		rest := l.src[l.at:]
		if rest == "" {
			return l.errorf("the template ends within a tag, expected %q", end)
		}
		if len(l.open) == 0 {
			sign, at := byte(0), rest
			if rest[0] == '-' || rest[0] == '+' && kind == tokTagEnd {
				sign, at = rest[0], rest[1:]
			}
			if strings.HasPrefix(at, end) {
				l.emit(kind, end)
				l.skip(len(rest) - len(at) + len(end))
				if kind == tokTagEnd || sign == '-' {
					l.after(sign)
				}
				return nil
			}
		}
		if err := l.inside(rest); err != nil {
			return err
		}
	}
}

// inside reads one token of a tag.
func (l *lexer) inside(rest string) error {
	c, size := utf8.DecodeRuneInString(rest)
	switch {
	case '0' <= c && c <= '9':
		return l.number(rest)
	case c == '"' || c == '\'':
		return l.quoted(rest)
	case c == '_' || unicode.IsLetter(c):
		n := size
		for n < len(rest) {
			c, size := utf8.DecodeRuneInString(rest[n:])
			if c != '_' && !unicode.In(c, unicode.L, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc) {
				break
			}
			n += size
		}
		l.emit(tokName, rest[:n])
		l.skip(n)
		return nil
	}
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			if err := l.balance(op[0]); err != nil {
				return err
			}
			l.emit(tokOp, op)
			l.skip(len(op))
			return nil
		}
	}
	return l.errorf("unexpected character %q", rest[:size])
}

// balance keeps track of brackets, within which a tag does not end.
func (l *lexer) balance(c byte) error {
	switch c {
	case '(':
		l.open = append(l.open, ')')
		return nil
	case '[', '{':
		l.open = append(l.open, c+2) // as ASCII has it
		return nil
	case ')', ']', '}':
	default:
		return nil
	}
	if len(l.open) == 0 || l.open[len(l.open)-1] != c {
		return l.errorf("unexpected %q", string(c))
	}
	l.open = l.open[:len(l.open)-1]
	return nil
}

// isSpace is Python's str.isspace for one character.
func isSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

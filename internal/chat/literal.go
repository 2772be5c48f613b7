package chat

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// number reads an int or a float.
func (l *lexer) number(rest string) error {
	n := digits(rest, "0123456789")
	after := rest[n:]
	if len(after) > 0 && rest[0] == '0' && n == 1 && strings.ContainsAny(after[:1], "xXoObB") {
		all := map[byte]string{'x': "0123456789abcdefABCDEF", 'o': "01234567", 'b': "01"}[after[0]|0x20]
		if d := digits(strings.TrimPrefix(after[1:], "_"), all); d > 0 {
			n = len(rest) - len(strings.TrimPrefix(after[1:], "_")) + d
		}
		return l.emitInt(rest[:n])
	}
	if f := floatEnd(rest, n); f > n && !l.afterDot() {
		v, err := strconv.ParseFloat(strings.ReplaceAll(rest[:f], "_", ""), 64)
		if err != nil {
			return l.errorf("number %s: beyond 64 bits", short(rest[:f]))
		}
		l.tokens = append(l.tokens, token{kind: tokFloat, line: l.line, num: v, text: rest[:f]})
		l.skip(f)
		return nil
	}
	if rest[0] == '0' {
		if n = digits(rest, "0"); n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			return l.errorf("number %s: decimal numbers do not begin with 0", short(rest[:n+1]))
		}
	}
	return l.emitInt(rest[:n])
}

// afterDot says whether the number is an index as in x.0.1.
func (l *lexer) afterDot() bool {
	return len(l.tokens) > 0 && l.tokens[len(l.tokens)-1].text == "." && l.tokens[len(l.tokens)-1].kind == tokOp
}

func (l *lexer) emitInt(s string) error {
	v, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		return l.errorf("number %s: beyond 64 bits", short(s))
	}
	l.tokens = append(l.tokens, token{kind: tokInt, line: l.line, num: v, text: s})
	l.skip(len(s))
	return nil
}

// digits is the length of the digits that s begins with; single underscores
// may stand between them.
func digits(s, all string) int {
	n := 0
	for i := 0; i < len(s); i++ {
		if strings.IndexByte(all, s[i]) >= 0 {
			n = i + 1
		} else if s[i] != '_' || i != n || n == 0 {
			break
		}
	}
	return n
}

// floatEnd is where a float ends whose digits before the point end at n, or n.
func floatEnd(s string, n int) int {
	end := n
	if n < len(s) && s[n] == '.' {
		if d := digits(s[n+1:], "0123456789"); d > 0 {
			end = n + 1 + d
		}
	}
	if end < len(s) && s[end]|0x20 == 'e' {
		at := end + 1
		if at < len(s) && (s[at] == '+' || s[at] == '-') {
			at++
		}
		if d := digits(s[at:], "0123456789"); d > 0 {
			end = at + d
		}
	}
	return end
}

// quoted reads a string.
func (l *lexer) quoted(rest string) error {
	end := 1
	for ; ; end++ {
		if end >= len(rest) {
			return l.errorf("a string without end")
		}
		if rest[end] == rest[0] {
			break
		}
		if rest[end] == '\\' {
			end++
		}
	}
	v, err := l.unescape(rest[1:end])
	if err != nil {
		return err
	}
	l.emit(tokString, v)
	l.skip(end + 1)
	return nil
}

// escapes of one letter.
var escapes = map[byte]byte{
	'n': '\n', 't': '\t', 'r': '\r', '\\': '\\', '\'': '\'', '"': '"',
	'a': '\a', 'b': '\b', 'f': '\f', 'v': '\v',
}

// hexEscapes are the escapes of a code point and their numbers of digits.
var hexEscapes = map[byte]int{'x': 2, 'u': 4, 'U': 8}

// unescape reads a string's escapes as Python does: unknown ones stay.
func (l *lexer) unescape(s string) (string, error) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		c := s[i]
		if plain, ok := escapes[c]; ok {
			b.WriteByte(plain)
		} else if n := hexEscapes[c]; n > 0 {
			if len(s)-i-1 < n {
				return "", l.errorf("escape \\%c: expected %d hexadecimal digits", c, n)
			}
			code, err := strconv.ParseUint(s[i+1:i+1+n], 16, 32)
			if err != nil || code > utf8.MaxRune {
				return "", l.errorf("escape \\%c: %q is not the number of a character", c, s[i+1:i+1+n])
			}
			b.WriteRune(rune(code))
			i += n
		} else if c >= '0' && c <= '7' {
			code, n := rune(0), 0
			for ; n < 3 && i+n < len(s) && s[i+n] >= '0' && s[i+n] <= '7'; n++ {
				code = code*8 + rune(s[i+n]-'0')
			}
			b.WriteRune(code)
			i += n - 1
		} else if c == 'N' {
			return "", l.errorf("escape \\N: names of characters are not read")
		} else if c != '\n' {
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

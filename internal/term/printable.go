// Package term makes text from files safe to show on a terminal. Names, keys,
// tokens and error messages can hold escape codes, which would move the cursor,
// change colours or hide lines. Whatever prints such text for people passes it
// through here; JSON and other formats for programs have their own escapes.
//
// The package imports nothing of ours; the packages that print import it.
package term

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable gives s as one line without control characters: they, broken UTF-8
// and what changes the direction of text are shown as Go would quote them (\x1b,
// \n, \u202e). Everything else stays as it is.
func Printable(s string) string {
	if i := strings.IndexFunc(s, steers); i < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case strings.HasPrefix(s[i:], string(utf8.RuneError)):
			b.WriteRune(r)
		case r == utf8.RuneError: // of a byte that begins no character
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[i]), 16))
		case steers(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Lines is Printable of every line of s.
func Lines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = Printable(line)
	}
	return strings.Join(lines, "\n")
}

// steers says whether a terminal may take a character for an order. An invalid
// byte, which terminals read as they like, comes as RuneError.
func steers(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError || unicode.Is(unicode.Bidi_Control, r)
}

package term

import "testing"

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"":                            "",
		"plain text, größer: 漢字 ▁a ←": "plain text, größer: 漢字 ▁a ←",
		"👩\u200d👩\ufe0f\u00a0":        "👩\u200d👩\ufe0f\u00a0", // joined emoji and wide spaces are text
		"a\x1b[31mred\x1b[0m":         `a\x1b[31mred\x1b[0m`,
		"\x1b]0;title\a":              `\x1b]0;title\a`,
		"a\nb\r\tc\x00\x7f":           `a\nb\r\tc\x00\x7f`,
		"\u009b31m":                   `\u009b31m`,
		"\xff\x9b\xc3":                `\xff\x9b\xc3`,
		"\ufffd":                      "\ufffd",
		"a\u202eb\u2066\u200f":        `a\u202eb\u2066\u200f`,
		"\u2028":                      `\u2028`,
		`a\x1b`:                       `a\x1b`,
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q: %q, expected %q", in, got, want)
		}
	}
	if got, want := Lines("a\x1b\n\tb\n"), "a\\x1b\n\\tb\n"; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
}

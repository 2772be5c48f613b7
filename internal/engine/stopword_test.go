package engine

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestStopWordsNeverShow(t *testing.T) {
	for _, c := range []struct {
		words, pieces []string
		want          string
		stop          bool
	}{
		{[]string{"END"}, []string{"a E", "N", "D b"}, "a ", true},
		{[]string{"END"}, []string{"a E", "N", "X b"}, "a ENX b", false},
		{[]string{"END"}, []string{"a EN"}, "a EN", false},
		{[]string{"aab"}, []string{"a", "a", "a", "b"}, "a", true},
		{[]string{"\n\n", "###"}, []string{"x\n", "#", "##"}, "x\n", true},
		{[]string{"bc", "abcd"}, []string{"xabcd"}, "xa", true},
		{[]string{"c", "abc"}, []string{"xabc"}, "x", true},
		{[]string{"", "z"}, []string{"ab", "z"}, "ab", true},
		{nil, []string{"ab", "c"}, "abc", false},
	} {
		w := NewStopWords(c.words)
		var got strings.Builder
		stop := false
		for _, p := range c.pieces {
			var text string
			text, stop = w.Push(p)
			got.WriteString(text)
			if stop {
				break
			}
		}
		if !stop {
			got.WriteString(w.Flush())
		}
		if got.String() != c.want || stop != c.stop {
			t.Errorf("%q in %q: %q, %v, expected %q, %v", c.words, c.pieces, got.String(), stop, c.want, c.stop)
		}
	}
}

// However a text is cut, the filter shows the same.
func TestStopWordsDoNotDependOnTheCuts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		letters := func(n int) string {
			b := make([]byte, n)
			for i := range b {
				b[i] = "ab"[r.IntN(2)]
			}
			return string(b)
		}
		text, words := letters(r.IntN(12)), []string{letters(1 + r.IntN(4)), letters(1 + r.IntN(4))}
		show := func(cut func() int) string {
			w := NewStopWords(words)
			out := ""
			for rest := text; rest != ""; {
				n := min(cut(), len(rest))
				piece, stop := w.Push(rest[:n])
				out += piece
				if rest = rest[n:]; stop {
					return out + "|"
				}
			}
			return out + w.Flush()
		}
		whole := show(func() int { return 1 })
		if got := show(func() int { return 1 + r.IntN(4) }); got != whole {
			t.Fatalf("%q with %q: %q in pieces, %q letter by letter", text, words, got, whole)
		}
		for _, w := range words {
			if strings.Contains(whole, w) {
				t.Fatalf("%q with %q shows %q", text, words, whole)
			}
		}
	}
}

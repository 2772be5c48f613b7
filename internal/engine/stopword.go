package engine

import "strings"

// StopWords finds stop strings in a stream of pieces of text. It withholds a
// possible beginning of a stop string, so that no part of one is ever emitted.
// The zero value has no stop strings.
type StopWords struct {
	words []string
	held  string
	found bool
}

// NewStopWords makes a filter; empty strings are ignored.
func NewStopWords(words []string) *StopWords {
	w := &StopWords{}
	for _, s := range words {
		if s != "" {
			w.words = append(w.words, s)
		}
	}
	return w
}

// Push adds the next piece. It returns the text that is certain, and whether a
// stop string was found. If so, the returned text ends before the stop string and
// nothing follows.
func (w *StopWords) Push(piece string) (text string, stop bool) {
	if w.found || len(w.words) == 0 {
		return piece, w.found
	}
	text = w.held + piece
	// The stop string that is complete first wins. If two end at the same
	// position, the longer one wins, because it begins earlier.
	end, begin := len(text)+1, 0
	for _, s := range w.words {
		if i := strings.Index(text, s); i >= 0 && (i+len(s) < end || i+len(s) == end && i < begin) {
			end, begin = i+len(s), i
		}
	}
	if end <= len(text) {
		w.found, w.held = true, ""
		return text[:begin], true
	}
	hold := 0
	for _, s := range w.words {
		for n := min(len(s)-1, len(text)); n > hold; n-- {
			if strings.HasSuffix(text, s[:n]) {
				hold = n
				break
			}
		}
	}
	w.held = text[len(text)-hold:]
	return text[:len(text)-hold], false
}

// Flush returns the withheld text, at the end of a text without a stop string.
func (w *StopWords) Flush() string {
	text := w.held
	w.held = ""
	return text
}

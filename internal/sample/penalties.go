package sample

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Penalties make tokens of the text so far less probable, prompt included. They
// change logits before anything else looks at them, as llama.cpp does. The zero
// value changes nothing.
type Penalties struct {
	Repeat    float32 // divides a positive logit, multiplies a negative one; 0 or 1 change nothing
	Presence  float32 // is subtracted from the logit of each token that occurs
	Frequency float32 // is subtracted as often as the token occurs
	LastN     int     // how many of the last tokens count: 0 for 64, -1 for all
}

// penalizedTokens is how many of the last tokens count unless LastN says so.
const penalizedTokens = 64

// None reports whether no logit would change.
func (p Penalties) None() bool {
	return (p.Repeat == 0 || p.Repeat == 1) && p.Presence == 0 && p.Frequency == 0
}

// check reports a penalty that makes no sense.
func (p Penalties) check() error {
	most := func(v float32) bool { return v >= -100 && v <= 100 }
	switch {
	case p.Repeat != 0 && !(p.Repeat >= 0.01 && p.Repeat <= 100): // smaller ones make logits infinite
		return fmt.Errorf("sample: repeat penalty %v, expected 0.01 to 100, or 0 for none", p.Repeat)
	case !most(p.Presence):
		return fmt.Errorf("sample: presence penalty %v, expected -100 to 100", p.Presence)
	case !most(p.Frequency):
		return fmt.Errorf("sample: frequency penalty %v, expected -100 to 100", p.Frequency)
	case p.LastN < -1:
		return fmt.Errorf("sample: %d last tokens for penalties, expected -1 or more", p.LastN)
	}
	return nil
}

// window is how many of the last tokens count.
func (p Penalties) window() int {
	switch p.LastN {
	case 0:
		return penalizedTokens
	case -1:
		return math.MaxInt
	}
	return p.LastN
}

// counted is a token and how often it occurs.
type counted struct{ id, n int32 }

// history counts the last tokens of a text that grows at its end.
type history struct {
	tokens []counted // by id
	// Tokens [from,to) of the text were looked at.
	from, to int
}

func (h *history) at(id int32) (int, bool) {
	return slices.BinarySearchFunc(h.tokens, id, func(c counted, id int32) int { return cmp.Compare(c.id, id) })
}

// count reads on to the end of the text and forgets what left the window. It
// allocates at its first call for a text.
func (h *history) count(text []int32, window int) {
	if h.to == 0 {
		h.from = len(text) - min(window, len(text))
		h.to = h.from
		h.tokens = slices.Grow(h.tokens, min(window, cap(text))+1)
	}
	for ; h.to < len(text); h.to++ {
		if i, ok := h.at(text[h.to]); ok {
			h.tokens[i].n++
		} else {
			h.tokens = slices.Insert(h.tokens, i, counted{text[h.to], 1})
		}
		if h.to-h.from < window {
			continue
		}
		i, _ := h.at(text[h.from])
		if h.from++; h.tokens[i].n > 1 {
			h.tokens[i].n--
		} else {
			h.tokens = slices.Delete(h.tokens, i, i+1)
		}
	}
}

// Penalize changes logits by the tokens of the text that they continue. The text
// of a sequence only grows from call to call.
func (s *Sampler) Penalize(logits []float32, text []int32) {
	p := s.params.Penalties
	if p.None() {
		return
	}
	s.history.count(text, p.window())
	for _, c := range s.history.tokens {
		if int(c.id) >= len(logits) || c.id < 0 {
			continue
		}
		v := logits[c.id]
		if p.Repeat != 0 {
			if v <= 0 {
				v *= p.Repeat
			} else {
				v /= p.Repeat
			}
		}
		logits[c.id] = v - float32(c.n)*p.Frequency - p.Presence
	}
}

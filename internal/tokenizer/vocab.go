package tokenizer

import "fmt"

// vocab is the two-way table of tokens and ids. Ids may have holes.
type vocab struct {
	ids    map[string]int32 // what the model knows
	more   map[string]int32 // added tokens that it does not: no piece of text may become one
	tokens []string         // by id
	used   []bool           // by id: false for a hole
	limit  int64            // ids are below it
}

// maxHoles bounds how far ids may run ahead of the number of tokens, so that a small hostile file
// cannot ask for a large table.
const maxHoles = 1 << 20

// newVocab makes room for capacity tokens, which must be what a file really holds.
func newVocab(capacity int) *vocab {
	return &vocab{ids: make(map[string]int32, capacity), tokens: make([]string, 0, capacity), used: make([]bool, 0, capacity), limit: int64(capacity) + maxHoles}
}

// add enters a token of the model. The first token of an id and the first id of a token win.
func (v *vocab) add(token string, id int64) error { return v.enter(v.ids, token, id) }

// addMore enters a token that the model does not know.
func (v *vocab) addMore(token string, id int64) error {
	if v.more == nil {
		v.more = make(map[string]int32)
	}
	return v.enter(v.more, token, id)
}

func (v *vocab) enter(ids map[string]int32, token string, id int64) error {
	if id < 0 || id >= v.limit {
		return fmt.Errorf("token %.100q has id %d, expected 0..%d for a vocabulary of this size", token, id, v.limit-1)
	}
	for int64(len(v.tokens)) <= id {
		v.tokens = append(v.tokens, "")
		v.used = append(v.used, false)
	}
	if _, ok := ids[token]; !ok {
		ids[token] = int32(id)
	}
	if !v.used[id] {
		v.used[id] = true
		v.tokens[id] = token
	}
	return nil
}

func (v *vocab) token(id int32) (string, bool) {
	if id < 0 || int(id) >= len(v.tokens) || !v.used[id] {
		return "", false
	}
	return v.tokens[id], true
}

func (v *vocab) id(token string) (int32, bool) {
	id, ok := v.ids[token]
	if !ok {
		id, ok = v.more[token]
	}
	return id, ok
}

package tokenizer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
)

// tokenList is a list of added tokens in the form of added_tokens of
// tokenizer.json, and what errors call its items.
type tokenList struct {
	file, field string
	raw         []byte
	names       []string // of the items in place of field, where they have their own
}

// item names an item of the list in errors.
func (l *tokenList) item(i int) string {
	if i < len(l.names) {
		return l.file + ": " + l.names[i]
	}
	return fmt.Sprintf("%s: %s[%d]", l.file, l.field, i)
}

// configFile names tokenizer_config.json, which lies beside tokenizer.json.
func configFile(file string) string {
	return filepath.Join(filepath.Dir(file), "tokenizer_config.json")
}

// configTokens are the tokens that tokenizer_config.json adds; none in most
// files, which have them in both places, and what tokenizer.json says of a token
// counts. First come those with ids, then those with names, then lists, of which
// the newer takes the place of the older: so the reference numbers them.
func configTokens(file string, config []byte) (tokenList, error) {
	l := tokenList{file: configFile(file)}
	if len(config) == 0 || checkJSON(config) != nil {
		return l, nil // readConfig says what is wrong
	}
	const decoder, older, newer = "added_tokens_decoder", "additional_special_tokens", "extra_special_tokens"
	raw := pick(config, decoder, newer, older)
	var items []json.RawMessage
	if !isNull(raw[0]) {
		var byID map[string]json.RawMessage
		if err := json.Unmarshal(raw[0], &byID); err != nil {
			return l, fmt.Errorf("%s: %s: expected an object", l.file, decoder)
		}
		type numbered struct {
			id   int
			item json.RawMessage
		}
		var list []numbered
		for key, item := range byID {
			id, err := strconv.Atoi(key)
			if err != nil || id < 0 {
				return l, fmt.Errorf("%s: %s: %.40q, expected an id", l.file, decoder, key)
			}
			list = append(list, numbered{id, item})
		}
		slices.SortFunc(list, func(a, b numbered) int { return cmp.Compare(a.id, b.id) })
		for _, n := range list {
			items = append(items, n.item)
			l.names = append(l.names, fmt.Sprintf("%s.%d", decoder, n.id))
		}
	}
	listed := false // a list had tokens
	add := func(name string, item []byte) error {
		text, ok := tokenText(item)
		if !ok {
			return fmt.Errorf("%s: %s: expected a token of at most %d bytes", l.file, name, maxName)
		}
		if text == "" {
			return nil
		}
		quoted, err := json.Marshal(map[string]any{"content": text, "special": true})
		items, l.names = append(items, quoted), append(l.names, name)
		return err
	}
	for i, field := range []string{newer, older} {
		value := raw[1+i]
		if isNull(value) || listed {
			continue
		}
		object, err := eachField(value, func(key, item []byte) error {
			return add(fmt.Sprintf("%s.%.40s", field, bytes.Trim(key, `"`)), item)
		})
		if err != nil {
			return l, err
		}
		list, err := eachItem(value, func(n int, item []byte) error {
			listed = true
			return add(fmt.Sprintf("%s[%d]", field, n), item)
		})
		if err == nil && !object && !list {
			err = fmt.Errorf("%s: %s: expected an array or an object", l.file, field)
		}
		if err != nil {
			return l, err
		}
	}
	var err error
	if items != nil {
		l.raw, err = json.Marshal(items)
	}
	return l, err
}

// appendNew adds those tokens to a list that it does not have.
func appendNew(list, more []addedToken) []addedToken {
	have := make(map[int32]bool, len(list))
	for _, t := range list {
		have[t.id] = true
	}
	for _, t := range more {
		if !have[t.id] {
			have[t.id] = true
			list = append(list, t)
		}
	}
	return list
}

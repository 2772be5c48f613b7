package tokenizer

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
)

// tokenFields are views of an added token's fields in a file, nil for those
// that it lacks: its id, its content and those of addedFields.
type tokenFields [7][]byte

// tokenName is how errors call an added token.
type tokenName struct {
	file, field string
	key         []byte // in an object
	index       int    // in a list
}

func (n tokenName) String() string {
	if n.key != nil {
		return fmt.Sprintf("%s: %s.%.40s", n.file, n.field, n.key)
	}
	return fmt.Sprintf("%s: %s[%d]", n.file, n.field, n.index)
}

// tokenList gives the added tokens of a file in order. Nothing is copied: a
// token takes as little as four bytes of a file.
type tokenList func(f func(name tokenName, t *tokenFields) error) error

// ownTokens are those of tokenizer.json.
func ownTokens(file string, raw []byte) tokenList {
	const field = "added_tokens"
	return func(f func(tokenName, *tokenFields) error) error {
		var t tokenFields
		ok, err := eachItem(raw, func(i int, item []byte) error {
			t.read(item)
			return f(tokenName{file: file, field: field, index: i}, &t)
		})
		if err == nil && !ok && !isNull(raw) {
			err = fmt.Errorf("%s: %s: expected an array", file, field)
		}
		return err
	}
}

func (t *tokenFields) read(item []byte) {
	pickInto(t[:], item, "id", "content", addedFields[0].name, addedFields[1].name, addedFields[2].name, addedFields[3].name, addedFields[4].name)
}

// configFile names tokenizer_config.json, which lies beside tokenizer.json.
func configFile(file string) string {
	return filepath.Join(filepath.Dir(file), "tokenizer_config.json")
}

// configTokens are the tokens that tokenizer_config.json adds; none in most
// files, which have them in both places, and what tokenizer.json says of a token
// counts. First come those with ids, then those with names, then lists, of which
// the newer takes the place of the older: so the reference numbers them.
func configTokens(file string, config []byte) tokenList {
	const decoder, older, newer = "added_tokens_decoder", "additional_special_tokens", "extra_special_tokens"
	file = configFile(file)
	return func(f func(tokenName, *tokenFields) error) error {
		if len(config) == 0 || checkJSON(config) != nil {
			return nil // readConfig says what is wrong
		}
		raw := pick(config, decoder, newer, older)
		if err := numberedTokens(file, decoder, raw[0], f); err != nil {
			return err
		}
		listed := false // a list had tokens
		var t tokenFields
		t[len(t)-1] = []byte("true") // special
		special := func(name tokenName, item []byte) error {
			content := item
			if len(item) > 0 && item[0] == '{' {
				var field [1][]byte
				pickInto(field[:], item, "content")
				content = field[0]
			}
			if len(content) < 2 || content[0] != '"' || len(content) > maxName {
				return fmt.Errorf("%v: expected a token of at most %d bytes", name, maxName)
			}
			if len(content) == 2 { // ""
				return nil
			}
			t[1] = content
			return f(name, &t)
		}
		for i, field := range []string{newer, older} {
			value := raw[1+i]
			if isNull(value) || listed {
				continue
			}
			object, err := eachField(value, func(key, item []byte) error {
				return special(tokenName{file: file, field: field, key: bytes.Trim(key, `"`)}, item)
			})
			if err != nil {
				return err
			}
			list, err := eachItem(value, func(n int, item []byte) error {
				listed = true
				return special(tokenName{file: file, field: field, index: n}, item)
			})
			if err == nil && !object && !list {
				err = fmt.Errorf("%s: %s: expected an array or an object", file, field)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// numberedTokens gives the tokens of {"id": token, ...} by their ids. The last
// one of an id counts.
func numberedTokens(file, field string, raw []byte, f func(tokenName, *tokenFields) error) error {
	if isNull(raw) {
		return nil
	}
	type numbered struct {
		id        int64
		key, item []byte
	}
	count := 0
	eachField(raw, func(_, _ []byte) error { count++; return nil })
	list := make([]numbered, 0, count)
	ok, err := eachField(raw, func(key, item []byte) error {
		key = key[1 : len(key)-1]
		id, ok := asID(key)
		if !ok {
			return fmt.Errorf("%s: %s: %.40q, expected an id", file, field, key)
		}
		list = append(list, numbered{id, key, item})
		return nil
	})
	if err == nil && !ok {
		err = fmt.Errorf("%s: %s: expected an object", file, field)
	}
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b numbered) int { return cmp.Compare(a.id, b.id) })
	var t tokenFields
	for i, n := range list {
		if i+1 < len(list) && list[i+1].id == n.id {
			continue
		}
		t.read(n.item)
		t[0] = nil // the key says it, and the reference does not read it either
		if err := f(tokenName{file: file, field: field, key: n.key}, &t); err != nil {
			return err
		}
	}
	return nil
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

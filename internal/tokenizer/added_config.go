package tokenizer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// configTokens are the tokens that tokenizer_config.json adds, in the form of
// added_tokens of tokenizer.json; nil where there are none. Most files have them
// in both places, and what tokenizer.json says of a token counts.
func configTokens(file string, config []byte) ([]byte, error) {
	if len(config) == 0 || checkJSON(config) != nil {
		return nil, nil // readConfig says what is wrong
	}
	raw := pick(config, "added_tokens_decoder", "additional_special_tokens", "extra_special_tokens")
	var items []json.RawMessage
	if decoder := raw[0]; !isNull(decoder) {
		var byID map[string]json.RawMessage
		if err := json.Unmarshal(decoder, &byID); err != nil {
			return nil, fmt.Errorf("%s: tokenizer_config.json: added_tokens_decoder: expected an object", file)
		}
		type numbered struct {
			id   int
			item json.RawMessage
		}
		var list []numbered
		for key, item := range byID {
			id, err := strconv.Atoi(key)
			if err != nil || id < 0 {
				return nil, fmt.Errorf("%s: tokenizer_config.json: added_tokens_decoder: %.40q, expected an id", file, key)
			}
			list = append(list, numbered{id, item})
		}
		slices.SortFunc(list, func(a, b numbered) int { return cmp.Compare(a.id, b.id) })
		for _, n := range list {
			items = append(items, n.item)
		}
	}
	for _, more := range raw[1:] {
		eachItem(more, func(_ int, item []byte) error {
			if text, ok := tokenText(item); ok && text != "" {
				quoted, err := json.Marshal(map[string]any{"content": text, "special": true})
				if err != nil {
					return err
				}
				items = append(items, quoted)
			}
			return nil
		})
	}
	if items == nil {
		return nil, nil
	}
	return json.Marshal(items)
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

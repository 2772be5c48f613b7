package train

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds the parts of "a.b.c", because each part copies the object around it.
const maxDepth = 8

// override replaces fields by assignments "a.b=value". A value that is not JSON is a
// string, so that paths need no quotes. Unknown fields stay in raw, whose reader
// refuses them. If an assignment replaces a part of a field that raw lacks, the other
// parts come from defaults.
func override(raw map[string]json.RawMessage, defaults map[string]any, sets []string) error {
	for _, set := range sets {
		path, text, ok := strings.Cut(set, "=")
		if !ok || path == "" || !utf8.ValidString(set) || strings.Count(path, ".") > maxDepth {
			return fmt.Errorf("set %.*q: expected field=value in UTF-8, with at most %d dots before the =: %w", maxShown, set, maxDepth, ErrConfig)
		}
		value := json.RawMessage(text)
		if !json.Valid(value) {
			value, _ = json.Marshal(text) // a string always has an encoding
		}
		name, rest, nested := strings.Cut(path, ".")
		if nested {
			var err error
			if whole := defaults[name]; raw[name] == nil && whole != nil {
				if raw[name], err = json.Marshal(whole); err != nil {
					return err
				}
			}
			if value, err = replace(raw[name], strings.Split(rest, "."), value); err != nil {
				return fmt.Errorf("set %.*q: %w: %w", maxShown, set, err, ErrConfig)
			}
		}
		raw[name] = value
	}
	return nil
}

// replace is in with what lies at path, keys of objects and indices of lists,
// replaced by value.
func replace(in json.RawMessage, path []string, value json.RawMessage) (json.RawMessage, error) {
	if len(path) == 0 {
		return value, nil
	}
	var list []json.RawMessage
	if json.Unmarshal(in, &list) == nil && list != nil {
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(list) {
			return nil, fmt.Errorf("%.*q, expected an index below %d", maxShown, path[0], len(list))
		}
		if list[i], err = replace(list[i], path[1:], value); err != nil {
			return nil, err
		}
		return json.Marshal(list)
	}
	object := map[string]json.RawMessage{}
	if in != nil && (json.Unmarshal(in, &object) != nil || object == nil) { // nil is null
		return nil, fmt.Errorf("%.*q, expected an object or a list above it", maxShown, path[0])
	}
	inner, err := replace(object[path[0]], path[1:], value)
	if err != nil {
		return nil, err
	}
	object[path[0]] = inner
	return json.Marshal(object)
}

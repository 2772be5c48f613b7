package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// bytesOf is about what a variable holds: its texts, or its JSON.
func bytesOf(v any) int {
	n := 0
	switch v := v.(type) {
	case string:
		return len(v)
	case json.RawMessage:
		return len(v)
	case []string:
		for _, s := range v {
			n += len(s)
		}
	case []any:
		for _, item := range v {
			n += bytesOf(item)
		}
	case []map[string]any:
		for _, item := range v {
			n += bytesOf(item)
		}
	case map[string]any:
		for key, item := range v {
			n += len(key) + bytesOf(item)
		}
	}
	return n
}

// fromGo makes a value of what the caller of Render gave.
func fromGo(v any, depth int) (value, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("values nested more than %d deep", maxNesting)
	}
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		return v, nil
	case int:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case float32:
		return float64(v), nil
	case json.RawMessage:
		return fromJSON(v)
	case []string:
		return listOf(v, depth)
	case []any:
		return listOf(v, depth)
	case []map[string]any:
		return listOf(v, depth)
	case map[string]any:
		d := newDict(len(v))
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			member, err := fromGo(v[key], depth+1)
			if err != nil {
				return nil, err
			}
			d.addKey(key, member)
		}
		return d, nil
	}
	return nil, fmt.Errorf("a %T, expected a string, number, boolean, slice or map", v)
}

func listOf[T any](from []T, depth int) (value, error) {
	l := &list{items: make([]value, len(from))}
	for i, item := range from {
		var err error
		if l.items[i], err = fromGo(item, depth+1); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// addKey sets a member outside of any rendering.
func (d *dict) addKey(key string, v value) {
	if i, ok := d.strings[key]; ok {
		d.vals[i] = v
		return
	}
	d.strings[key] = len(d.keys)
	d.keys, d.vals = append(d.keys, key), append(d.vals, v)
}

// fromJSON reads one JSON value and keeps the order of members.
func fromJSON(raw []byte) (value, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	v, err := jsonValue(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("text after the JSON value")
	}
	return v, nil
}

func jsonValue(dec *json.Decoder, depth int) (value, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("JSON nested more than %d deep", maxNesting)
	}
	token, err := dec.Token()
	if err != nil {
		return nil, fmt.Errorf("JSON: %w", err)
	}
	switch token := token.(type) {
	case json.Number:
		if !strings.ContainsAny(token.String(), ".eE") {
			return token.Int64()
		}
		return token.Float64()
	case json.Delim:
		if token == '[' {
			l := &list{}
			for dec.More() {
				item, err := jsonValue(dec, depth+1)
				if err != nil {
					return nil, err
				}
				l.items = append(l.items, item)
			}
			_, err = dec.Token()
			return l, err
		}
		d := newDict(0)
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, fmt.Errorf("JSON: %w", err)
			}
			member, err := jsonValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			name, _ := key.(string) // the decoder gives no other key
			d.addKey(name, member)
		}
		_, err = dec.Token()
		return d, err
	}
	return token, nil
}

package tokenizer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hotpath/internal/format"
)

// jsonPart is one object of tokenizer.json with a type, and where it stands.
type jsonPart struct {
	file  string
	path  string // e.g. pre_tokenizer.pretokenizers[1]
	depth int
	kind  string
	raw   json.RawMessage
}

// maxDepth bounds how deep parts may lie in each other.
const maxDepth = 8

// newPart reads a part's type; ok is false for null and for a field that is not there.
func newPart(file, path string, depth int, raw json.RawMessage) (p *jsonPart, ok bool, err error) {
	p = &jsonPart{file: file, path: path, depth: depth, raw: raw}
	if len(raw) == 0 || string(raw) == "null" {
		return p, false, nil
	}
	if depth > maxDepth {
		return p, false, fmt.Errorf("%s: %s: parts lie more than %d deep in each other", file, path, maxDepth)
	}
	var head struct{ Type string }
	if err := p.decode(&head); err != nil {
		return p, false, err
	}
	p.kind = head.Type
	return p, true, nil
}

func (p *jsonPart) errorf(field, message string, args ...any) error {
	return fmt.Errorf("%s: %s.%s: %w", p.file, p.path, field, fmt.Errorf(message, args...))
}

func (p *jsonPart) decode(v any) error {
	if err := json.Unmarshal(p.raw, v); err != nil {
		return fmt.Errorf("%s: %s: %w", p.file, p.path, err)
	}
	return nil
}

// list reads a field that is an array of parts.
func (p *jsonPart) list(field string) ([]*jsonPart, error) {
	var object map[string]json.RawMessage
	if err := p.decode(&object); err != nil {
		return nil, err
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(object[field], &raws); err != nil {
		return nil, p.errorf(field, "expected an array of parts")
	}
	var parts []*jsonPart
	for i, raw := range raws {
		part, ok, err := newPart(p.file, fmt.Sprintf("%s.%s[%d]", p.path, field, i), p.depth+1, raw)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, p.errorf(field, "entry %d is null, expected a part", i)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// lookup makes a part by its type's row in a table.
func lookup[T any](table map[string]func(*jsonPart) (T, error), p *jsonPart) (T, error) {
	make, ok := table[p.kind]
	if !ok {
		var zero T
		return zero, p.errorf("type", "is %q, expected one of %s: %w", p.kind, names(table), format.ErrUnsupported)
	}
	return make(p)
}

// names lists a table's keys for an error.
func names[V any](table map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(table)), ", ")
}

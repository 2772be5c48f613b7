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
	parts *int // all parts of the same root, so far
	kind  string
	raw   []byte
}

const (
	// maxDepth bounds how deep parts may lie in each other.
	maxDepth = 8
	// maxParts bounds how many parts a normalizer, pre-tokenizer, post-processor or decoder may have in all.
	maxParts = 256
	// maxPart bounds the text of a part's settings, without the tables of a model or normalizer.
	maxPart = 1 << 18
	// maxName bounds the text of a token that a part names.
	maxName = 1 << 14
)

// newPart reads a part's type; ok is false for null and for a field that is not there.
func newPart(file, path string, depth int, raw []byte) (p *jsonPart, ok bool, err error) {
	p = &jsonPart{file: file, path: path, depth: depth, raw: raw, parts: new(int)}
	if isNull(raw) {
		return p, false, nil
	}
	if depth > maxDepth {
		return p, false, fmt.Errorf("%s: %s: parts are nested more than %d deep", file, path, maxDepth)
	}
	if raw[0] != '{' {
		return p, false, fmt.Errorf("%s: %s: expected an object", file, path)
	}
	if kind := pick(raw, "type")[0]; !isNull(kind) {
		if p.kind, ok = asText(kind, maxName); !ok {
			return p, false, p.errorf("type", "expected a short string")
		}
	}
	return p, true, nil
}

func (p *jsonPart) errorf(field, message string, args ...any) error {
	return fmt.Errorf("%s: %s.%s: %w", p.file, p.path, field, fmt.Errorf(message, args...))
}

// decode reads the settings of a small part.
func (p *jsonPart) decode(v any) error {
	if len(p.raw) > maxPart {
		return fmt.Errorf("%s: %s: takes %d bytes, expected at most %d", p.file, p.path, len(p.raw), maxPart)
	}
	if err := json.Unmarshal(p.raw, v); err != nil {
		return fmt.Errorf("%s: %s: %w", p.file, p.path, err)
	}
	return nil
}

// list reads a field that is an array of parts.
func (p *jsonPart) list(field string) ([]*jsonPart, error) {
	var parts []*jsonPart
	ok, err := eachItem(pick(p.raw, field)[0], func(i int, raw []byte) error {
		if *p.parts++; *p.parts > maxParts {
			return p.errorf(field, "makes it more than %d parts in all", maxParts)
		}
		part, ok, err := newPart(p.file, fmt.Sprintf("%s.%s[%d]", p.path, field, i), p.depth+1, raw)
		if err == nil && !ok {
			err = p.errorf(field, "entry %d is null, expected a part", i)
		}
		part.parts = p.parts
		parts = append(parts, part)
		return err
	})
	if err == nil && !ok {
		err = p.errorf(field, "expected an array of parts")
	}
	return parts, err
}

// text reads a field that is a string or null.
func (p *jsonPart) text(field string, raw []byte) (text string, ok bool, err error) {
	if isNull(raw) {
		return "", false, nil
	}
	if text, ok = asText(raw, maxName); !ok {
		return "", false, p.errorf(field, "expected a string of at most %d bytes", maxName)
	}
	return text, true, nil
}

// flag reads a field that is true, false or null.
func (p *jsonPart) flag(field string, raw []byte) (bool, error) {
	switch {
	case isNull(raw), string(raw) == "false":
		return false, nil
	case string(raw) == "true":
		return true, nil
	}
	return false, p.errorf(field, "expected true or false")
}

// lookup makes a part by its type's row in a table.
func lookup[T any](table map[string]func(*jsonPart) (T, error), p *jsonPart) (T, error) {
	build, ok := table[p.kind]
	if !ok {
		var zero T
		return zero, p.errorf("type", "is %.100q, expected one of %s: %w", p.kind, names(table), format.ErrUnsupported)
	}
	return build(p)
}

// names lists a table's keys for an error.
func names[V any](table map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(table)), ", ")
}

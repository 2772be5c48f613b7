package weights

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"hotpath/internal/format"
)

const (
	maxConfig = 16 << 20 // bytes
	maxFields = 1 << 14
	maxNested = 64
)

// Config is a JSON object of a model's description, config.json above all.
// Fields are decoded when somebody asks. A field that is null counts as
// absent. Errors name the file, the field and what was expected.
type Config struct {
	file   string
	prefix string // of field names: "rope_scaling." within that object
	fields map[string]json.RawMessage
}

// ParseConfig checks data, one JSON object. file is for errors.
func ParseConfig(file string, data []byte) (*Config, error) {
	if len(data) > maxConfig {
		return nil, fmt.Errorf("%s: %d bytes, expected at most %d: %w", file, len(data), maxConfig, format.ErrInvalid)
	}
	c := &Config{file: file}
	if err := c.parse(data); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

func (c *Config) parse(data []byte) error {
	if err := checkNesting(data); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if open, err := dec.Token(); err != nil {
		return fmt.Errorf("expected a JSON object: %v: %w", err, format.ErrInvalid)
	} else if open != json.Delim('{') {
		return fmt.Errorf("expected a JSON object, found %v: %w", open, format.ErrInvalid)
	}
	c.fields = map[string]json.RawMessage{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return fmt.Errorf("%v: %w", err, format.ErrInvalid)
		}
		name, _ := key.(string) // a key is always a string here
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return fmt.Errorf("field %s: %v: %w", name, err, format.ErrInvalid)
		}
		if _, dup := c.fields[name]; dup {
			return fmt.Errorf("field %s appears twice: %w", name, format.ErrInvalid)
		}
		if len(c.fields) == maxFields {
			return fmt.Errorf("more than %d fields: %w", maxFields, format.ErrInvalid)
		}
		c.fields[name] = raw
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("%v: %w", err, format.ErrInvalid)
	}
	if rest := bytes.TrimSpace(data[dec.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("%d bytes after the JSON object, expected nothing: %w", len(rest), format.ErrInvalid)
	}
	return nil
}

// checkNesting refuses JSON that is nested deeper than any description is.
func checkNesting(data []byte) error {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch b := data[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			if depth++; depth > maxNested {
				return fmt.Errorf("nested more than %d deep: %w", maxNested, format.ErrInvalid)
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return nil
}

// File is the name of the file, as errors spell it.
func (c *Config) File() string { return c.file }

// Keys are the names of the fields, sorted.
func (c *Config) Keys() []string { return slices.Sorted(maps.Keys(c.fields)) }

// Has reports whether a field is there and not null.
func (c *Config) Has(key string) bool {
	raw, ok := c.fields[key]
	return ok && string(raw) != "null"
}

// Raw is the JSON of a field.
func (c *Config) Raw(key string) (json.RawMessage, bool) {
	return c.fields[key], c.Has(key)
}

// Int is a positive integer: a count or a width.
func (c *Config) Int(key string) (int, error) {
	return required(c, key, "a positive integer", positive)
}

// IntOr is a positive integer, or def where the field is absent.
func (c *Config) IntOr(key string, def int) (int, error) {
	return optional(c, key, "a positive integer", positive, def)
}

// ID is an integer from 0: the id of a token.
func (c *Config) ID(key string) (int, error) {
	return required(c, key, "an integer from 0", natural)
}

// IDOr is an integer from 0, or def where the field is absent.
func (c *Config) IDOr(key string, def int) (int, error) {
	return optional(c, key, "an integer from 0", natural, def)
}

// IDs is an integer from 0 or a list of them; none where the field is absent.
func (c *Config) IDs(key string) ([]int, error) {
	return optional(c, key, "an integer from 0 or a list of them", func(raw []byte) ([]int, bool) {
		if id, ok := natural(raw); ok {
			return []int{id}, true
		}
		ids, ok := decode[[]int](raw)
		return ids, ok && !slices.ContainsFunc(ids, func(id int) bool { return id < 0 })
	}, nil)
}

// Float is a finite number.
func (c *Config) Float(key string) (float64, error) {
	return required(c, key, "a number", decode[float64])
}

// FloatOr is a finite number, or def where the field is absent.
func (c *Config) FloatOr(key string, def float64) (float64, error) {
	return optional(c, key, "a number", decode[float64], def)
}

// Bool is true or false.
func (c *Config) Bool(key string) (bool, error) {
	return required(c, key, "true or false", decode[bool])
}

// BoolOr is true or false, or def where the field is absent.
func (c *Config) BoolOr(key string, def bool) (bool, error) {
	return optional(c, key, "true or false", decode[bool], def)
}

// String is a text.
func (c *Config) String(key string) (string, error) {
	return required(c, key, "a string", decode[string])
}

// StringOr is a text, or def where the field is absent.
func (c *Config) StringOr(key, def string) (string, error) {
	return optional(c, key, "a string", decode[string], def)
}

// Strings is a list of texts; none where the field is absent.
func (c *Config) Strings(key string) ([]string, error) {
	return optional(c, key, "a list of strings", decode[[]string], nil)
}

// Floats is a list of numbers; none where the field is absent.
func (c *Config) Floats(key string) ([]float64, error) {
	return optional(c, key, "a list of numbers", decode[[]float64], nil)
}

// Object is a nested object, nil where the field is absent. Errors about its
// fields name them with their path, as in rope_scaling.factor.
func (c *Config) Object(key string) (*Config, error) {
	if !c.Has(key) {
		return nil, nil
	}
	fields, ok := decode[map[string]json.RawMessage](c.fields[key])
	if !ok || len(fields) > maxFields {
		return nil, c.fault(key, "an object")
	}
	return &Config{file: c.file, prefix: c.prefix + key + ".", fields: fields}, nil
}

func required[T any](c *Config, key, want string, as func([]byte) (T, bool)) (T, error) {
	if !c.Has(key) {
		var zero T
		return zero, fmt.Errorf("%s: field %s%s: expected %s, but it is missing: %w", c.file, c.prefix, key, want, format.ErrInvalid)
	}
	var zero T
	return optional(c, key, want, as, zero)
}

func optional[T any](c *Config, key, want string, as func([]byte) (T, bool), def T) (T, error) {
	if !c.Has(key) {
		return def, nil
	}
	v, ok := as(c.fields[key])
	if !ok {
		var zero T
		return zero, c.fault(key, want)
	}
	return v, nil
}

func (c *Config) fault(key, want string) error {
	found := c.fields[key]
	if len(found) > 60 {
		found = append(found[:57:57], "..."...)
	}
	return fmt.Errorf("%s: field %s%s: expected %s, found %s: %w", c.file, c.prefix, key, want, found, format.ErrInvalid)
}

func decode[T any](raw []byte) (T, bool) {
	var v T
	err := json.Unmarshal(raw, &v)
	return v, err == nil
}

// natural takes 32.0 for 32 too, since some exporters write every number so,
// and stays within 32 bits, so that products of two sizes cannot overflow.
func natural(raw []byte) (int, bool) {
	f, ok := decode[float64](raw)
	if !ok || f < 0 || f > math.MaxInt32 || f != math.Trunc(f) {
		return 0, false
	}
	return int(f), true
}

func positive(raw []byte) (int, bool) {
	n, ok := natural(raw)
	return n, ok && n > 0
}

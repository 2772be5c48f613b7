package weights

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"hotpath/internal/format"
	"hotpath/internal/format/jsonview"
)

// Bounds of a description. What one costs beyond the bytes of its file is 8
// bytes a field, so at most 128 KiB, and as much again for each object in it
// that somebody asks for.
const (
	maxConfig  = 16 << 20 // bytes
	maxFields  = 1 << 14
	maxStrings = 1 << 16 // bytes of a field's texts
	maxNumbers = 1 << 16 // of a field
)

// Config is a JSON object of a model's description, config.json above all.
// Fields are decoded when somebody asks. A field that is null counts as
// absent. Errors name the file, the field and what was expected.
type Config struct {
	file   string
	prefix string // of field names: "rope_scaling." within that object
	object jsonview.Value
	fields []field // sorted by name
}

// field is where a field's name and value begin in the object.
type field struct{ key, value uint32 }

// ParseConfig checks data, one JSON object, and keeps views of it. file is for
// errors.
func ParseConfig(file string, data []byte) (*Config, error) {
	if len(data) > maxConfig {
		return nil, fmt.Errorf("%s: %d bytes, expected at most %d: %w", file, len(data), maxConfig, format.ErrInvalid)
	}
	object, err := jsonview.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return newConfig(file, "", object)
}

func newConfig(file, prefix string, object jsonview.Value) (*Config, error) {
	c := &Config{file: file, prefix: prefix, object: object}
	where := file
	if prefix != "" {
		where += ": field " + strings.TrimSuffix(prefix, ".")
	}
	if object.Kind() != jsonview.Object {
		return nil, fmt.Errorf("%s: expected a JSON object, found %s: %w", where, object.Kind(), format.ErrInvalid)
	}
	n := object.Len()
	if n > maxFields {
		return nil, fmt.Errorf("%s: more than %d fields: %w", where, maxFields, format.ErrInvalid)
	}
	c.fields = make([]field, 0, n)
	for key, value := range object.Members() {
		c.fields = append(c.fields, field{uint32(object.Offset(key)), uint32(object.Offset(value))})
	}
	slices.SortFunc(c.fields, func(a, b field) int { return c.key(a).Compare(c.key(b)) })
	for i := 1; i < n; i++ {
		if c.key(c.fields[i-1]).Compare(c.key(c.fields[i])) == 0 {
			return nil, fmt.Errorf("%s: field %s%.60s appears twice: %w", file, prefix, c.key(c.fields[i]).Raw(), format.ErrInvalid)
		}
	}
	return c, nil
}

func (c *Config) key(f field) jsonview.Value { return c.object.At(int(f.key)) }

// value is what a field holds, of kind Invalid where it is absent or null.
func (c *Config) value(key string) jsonview.Value {
	if v := c.find(key); v.Kind() != jsonview.Null {
		return v
	}
	return jsonview.Value{}
}

// find is what a field holds, of kind Invalid where it is absent.
func (c *Config) find(key string) jsonview.Value {
	i, ok := sort.Find(len(c.fields), func(i int) int { return -c.key(c.fields[i]).CompareText(key) })
	if !ok {
		return jsonview.Value{}
	}
	return c.object.At(int(c.fields[i].value))
}

// File is the name of the file, as errors spell it.
func (c *Config) File() string { return c.file }

// Bytes is the JSON of the whole object, a view.
func (c *Config) Bytes() []byte { return c.object.Raw() }

// Keys are the names of the fields, sorted.
func (c *Config) Keys() []string {
	out := make([]string, len(c.fields))
	for i, f := range c.fields {
		out[i], _ = c.key(f).Text()
	}
	return out
}

// Has reports whether a field is there and not null.
func (c *Config) Has(key string) bool { return c.value(key).Kind() != jsonview.Invalid }

// Null reports whether a field is there and null. Where a missing field means
// a usual value, null means none.
func (c *Config) Null(key string) bool { return c.find(key).Kind() == jsonview.Null }

// Raw is the JSON of a field, a view; null and false where it is absent or null.
func (c *Config) Raw(key string) (json.RawMessage, bool) {
	if v := c.value(key); v.Kind() != jsonview.Invalid {
		return v.Raw(), true
	}
	return json.RawMessage("null"), false
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
	return optional(c, key, "an integer from 0 or a list of them", func(v jsonview.Value) ([]int, bool) {
		if id, ok := natural(v); ok {
			return []int{id}, true
		}
		return list(v, natural)
	}, nil)
}

// Float is a finite number.
func (c *Config) Float(key string) (float64, error) {
	return required(c, key, "a number", jsonview.Value.Float)
}

// FloatOr is a finite number, or def where the field is absent.
func (c *Config) FloatOr(key string, def float64) (float64, error) {
	return optional(c, key, "a number", jsonview.Value.Float, def)
}

// BoolOr is true or false, or def where the field is absent.
func (c *Config) BoolOr(key string, def bool) (bool, error) {
	return optional(c, key, "true or false", jsonview.Value.Bool, def)
}

// String is a text.
func (c *Config) String(key string) (string, error) {
	return required(c, key, "a string", text)
}

// StringOr is a text, or def where the field is absent.
func (c *Config) StringOr(key, def string) (string, error) {
	return optional(c, key, "a string", text, def)
}

// Strings is a list of texts; none where the field is absent.
func (c *Config) Strings(key string) ([]string, error) {
	return optional(c, key, "a list of strings", texts, nil)
}

// Floats is a list of numbers; none where the field is absent.
func (c *Config) Floats(key string) ([]float64, error) {
	return optional(c, key, "a list of numbers", floats, nil)
}

// Object is a nested object, nil where the field is absent. Errors about its
// fields name them with their path, as in rope_scaling.factor.
func (c *Config) Object(key string) (*Config, error) {
	if !c.Has(key) {
		return nil, nil
	}
	v := c.value(key)
	if v.Kind() != jsonview.Object {
		return nil, c.fault(key, "an object")
	}
	return newConfig(c.file, c.prefix+key+".", v)
}

func required[T any](c *Config, key, want string, as func(jsonview.Value) (T, bool)) (T, error) {
	if !c.Has(key) {
		var zero T
		return zero, fmt.Errorf("%s: field %s%s: expected %s, but it is missing: %w", c.file, c.prefix, key, want, format.ErrInvalid)
	}
	var zero T
	return optional(c, key, want, as, zero)
}

func optional[T any](c *Config, key, want string, as func(jsonview.Value) (T, bool), def T) (T, error) {
	if !c.Has(key) {
		return def, nil
	}
	v, ok := as(c.value(key))
	if !ok {
		var zero T
		return zero, c.fault(key, want)
	}
	return v, nil
}

func (c *Config) fault(key, want string) error {
	found := string(c.value(key).Raw()[:min(60, len(c.value(key).Raw()))])
	if len(found) == 60 {
		found = found[:57] + "..."
	}
	if f, ok := c.value(key).Float(); ok && f > math.MaxInt32 && strings.Contains(want, "integer") { // see natural
		want += fmt.Sprintf(", at most %d", math.MaxInt32)
	}
	return fmt.Errorf("%s: field %s%s: expected %s, found %s: %w", c.file, c.prefix, key, want, found, format.ErrInvalid)
}

// text is a string that is not out of all proportion.
func text(v jsonview.Value) (string, bool) {
	if v.TextLen() > maxStrings {
		return "", false
	}
	return v.Text()
}

func texts(v jsonview.Value) ([]string, bool) {
	total := 0
	for item := range v.Items() {
		total += item.TextLen()
	}
	if total > maxStrings {
		return nil, false
	}
	return list(v, text)
}

func floats(v jsonview.Value) ([]float64, bool) { return list(v, jsonview.Value.Float) }

// list decodes an array.
func list[T any](v jsonview.Value, as func(jsonview.Value) (T, bool)) ([]T, bool) {
	n := v.Len()
	if v.Kind() != jsonview.Array || n > maxNumbers {
		return nil, false
	}
	out := make([]T, 0, n)
	for item := range v.Items() {
		x, ok := as(item)
		if !ok {
			return nil, false
		}
		out = append(out, x)
	}
	return out, true
}

// natural takes 32.0 for 32 too, since some exporters write every number so,
// and stays within 32 bits, so that products of two sizes cannot overflow.
func natural(v jsonview.Value) (int, bool) {
	f, ok := v.Float()
	if !ok || f < 0 || f > math.MaxInt32 || f != math.Trunc(f) {
		return 0, false
	}
	return int(f), true
}

func positive(v jsonview.Value) (int, bool) {
	n, ok := natural(v)
	return n, ok && n > 0
}

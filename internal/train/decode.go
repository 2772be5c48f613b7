package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ParseConfig is ReadConfig of bytes; file is for errors.
func ParseConfig(file string, data []byte, sets []string) (Config, error) {
	c := DefaultConfig()
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // which some editors of Windows write
	if !utf8.Valid(data) {                          // the decoder would put other letters into a path
		return c, fmt.Errorf("%s: expected UTF-8: %w", file, ErrConfig)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil || raw == nil {
		return c, fmt.Errorf("%s: expected a JSON object%s: %w", file, noObject(data, err), ErrConfig)
	}
	if name := repeated(json.NewDecoder(bytes.NewReader(data)), ""); name != "" {
		return c, fmt.Errorf("%s: field %.*s: expected it once, found it twice: %w", file, maxShown, name, ErrConfig)
	}
	to := c.fields()
	if err := override(raw, to, sets); err != nil {
		return c, err
	}
	if err := decode(raw, to, ""); err != nil {
		return c, fmt.Errorf("%s: %w", file, err)
	}
	if _, said := raw["init"]; c.Shape != nil && !said {
		c.Init = "random"
	}
	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// noObject says where a text stops being JSON, or what it is in place of an
// object. Of null the decoder makes a nil map, without an error.
func noObject(data []byte, err error) string {
	if err == nil {
		return ", found null"
	}
	var other *json.UnmarshalTypeError
	if errors.As(err, &other) {
		return ", found " + found[other.Value]
	}
	var at *json.SyntaxError
	if !errors.As(err, &at) || at.Offset > int64(len(data)) {
		return fmt.Sprintf(": %v", err)
	}
	before := data[:at.Offset]
	line := 1 + bytes.Count(before, []byte("\n"))
	return fmt.Sprintf(" of fields: line %d, column %d: %v", line, len(before)-1-bytes.LastIndexByte(before, '\n'), err)
}

// found are the decoder's names of JSON values, in words.
var found = map[string]string{"array": "an array", "string": "a string", "number": "a number", "bool": "true or false"}

// repeated is the first field that an object of a valid JSON text has twice, of
// which the decoder would take the last; "" without one. prefix stands before
// the names of the value that follows.
func repeated(d *json.Decoder, prefix string) string {
	t, _ := d.Token() // the text is valid
	if t != json.Delim('{') && t != json.Delim('[') {
		return ""
	}
	seen := map[string]bool{}
	for n := 0; d.More(); n++ {
		name := prefix + strconv.Itoa(n)
		if t == json.Delim('{') {
			key, _ := d.Token()
			name = prefix + fmt.Sprint(key)
		}
		if seen[name] {
			return name
		}
		seen[name] = true
		if inner := repeated(d, name+"."); inner != "" {
			return inner
		}
	}
	_, _ = d.Token() // the end of it
	return ""
}

// fields are the JSON fields of a configuration and where each is kept.
func (c *Config) fields() map[string]any {
	to := tagged(c)
	to["model"] = &modelField{c}
	return to
}

// tagged are pointers to the fields of a struct by the names of their JSON tags.
func tagged(to any) map[string]any {
	v, out := reflect.ValueOf(to).Elem(), map[string]any{}
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); name != "-" {
			out[name] = v.Field(i).Addr().Interface()
		}
	}
	return out
}

// group is the struct behind to whose fields are fields of an object; nil where
// to is a plain value. A struct that to points to through a nil pointer is made.
func group(to any) any {
	if _, own := to.(json.Unmarshaler); own {
		return nil
	}
	v := reflect.ValueOf(to)
	if p := v.Elem(); p.Kind() == reflect.Pointer {
		if p.IsNil() {
			p.Set(reflect.New(p.Type().Elem()))
		}
		v = p
	}
	if v.Elem().Kind() != reflect.Struct {
		return nil
	}
	return v.Interface()
}

// modelField is "model": a path or an object.
type modelField struct{ c *Config }

func (m *modelField) MarshalJSON() ([]byte, error) {
	if m.c.Shape != nil {
		return json.Marshal(m.c.Shape)
	}
	return json.Marshal(m.c.Model)
}

// decode fills to from raw. prefix stands before names in errors.
func decode(raw map[string]json.RawMessage, to map[string]any, prefix string) error {
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if to[name] == nil {
			return unknown(prefix, name, slices.Sorted(maps.Keys(to)))
		}
		if err := decodeField(raw[name], to[name], prefix+name); err != nil {
			return err
		}
	}
	return nil
}

func decodeField(raw json.RawMessage, to any, name string) error {
	raw = bytes.TrimSpace(raw)
	if string(raw) == "null" { // which the decoder takes for nothing
		return fmt.Errorf("field %s: expected a value, found null: %w", name, ErrConfig)
	}
	if m, ok := to.(*modelField); ok {
		if raw[0] != '{' {
			m.c.Shape = nil
			return decodeField(raw, &m.c.Model, name)
		}
		shape := DefaultShape()
		m.c.Model, m.c.Shape, to = "", &shape, &shape
	}
	if group := group(to); group != nil {
		if s, ok := group.(interface{ short(name string) }); ok && raw[0] == '"' { // the name stands for the object
			var text string
			if err := json.Unmarshal(raw, &text); err != nil {
				return fmt.Errorf("field %s: %s: %w", name, reason(err, raw), ErrConfig)
			}
			s.short(text)
			return nil
		}
		var inner map[string]json.RawMessage
		if err := json.Unmarshal(raw, &inner); err != nil {
			return fmt.Errorf("field %s: %s: %w", name, reason(err, raw), ErrConfig)
		}
		return decode(inner, tagged(group), name+".")
	}
	if err := json.Unmarshal(raw, to); err != nil {
		return fmt.Errorf("field %s: %s: %w", name, reason(err, raw), ErrConfig)
	}
	return nil
}

// kinds are types in words that JSON and people share.
var kinds = map[reflect.Kind]string{
	reflect.Int: "an integer", reflect.Uint64: "an integer from 0", reflect.Float64: "a number", reflect.Bool: "true or false",
	reflect.String: "a string", reflect.Map: "an object", reflect.Struct: "an object",
}

// reason says what was expected of a field without the decoder's own vocabulary.
func reason(err error, raw json.RawMessage) string {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return fmt.Sprintf("%v, found %.*s", err, maxShown, raw)
	}
	want := kinds[wrong.Type.Kind()]
	if want == "" {
		want = "a value of type " + wrong.Type.String()
	}
	number := strings.HasPrefix(wrong.Value, "number ")
	switch kind := wrong.Type.Kind(); {
	case number && kind != reflect.Float64 && bytes.ContainsAny(raw, ".eE"):
		want += " in digits"
	case number:
		want += " that fits 64 bits"
	}
	return fmt.Sprintf("expected %s, found %.*s", want, maxShown, raw)
}

// unknown is the error of a field that there is not.
func unknown(prefix, name string, names []string) error {
	if flag := flagFields[name]; flag != "" && prefix == "" {
		return fmt.Errorf("unknown field %.*q: it is a flag of the command, --%s: %w", maxShown, name, flag, ErrConfig)
	}
	if prefix == "" {
		if inner := innerField(name); inner != "" {
			return fmt.Errorf("unknown field %.*q, did you mean %s?: %w", maxShown, name, inner, ErrConfig)
		}
	}
	if near := nearest(name, names, synonyms); near != "" {
		return fmt.Errorf("unknown field %s%.*q, did you mean %s%s?: %w", prefix, maxShown, name, prefix, near, ErrConfig)
	}
	return fmt.Errorf("unknown field %s%.*q, expected one of %s: %w", prefix, maxShown, name, strings.Join(names, ", "), ErrConfig)
}

// innerField is the path of a field of an object whose name, or a synonym of it,
// stands outside of the object; "" if no object has it, or several do.
func innerField(name string) string {
	if meant, ok := synonyms[name]; ok {
		name = meant
	}
	found := ""
	for object, fields := range map[string]map[string]any{
		"model": tagged(&Shape{}), "objective": tagged(&ObjectiveConfig{}), "lora": tagged(&LoRAConfig{}),
		"validation": tagged(&ValidationConfig{}), "sample": tagged(&SampleConfig{}),
	} {
		if fields[name] == nil {
			continue
		}
		if found != "" {
			return ""
		}
		found = object + "." + name
	}
	if (&Config{}).fields()[name] != nil { // a synonym of a field that there is
		return ""
	}
	return found
}

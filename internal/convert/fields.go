package convert

import (
	"fmt"

	"hotpath/internal/weights"
)

// maxCount is beyond every size that a model has, and keeps products of two
// sizes far from overflow.
const maxCount = 1 << 28

// fields reads config.json, whose fields have several names each, and keeps
// the first error.
type fields struct {
	c   *weights.Config
	err *error
}

func (f fields) keep(err error) {
	if *f.err == nil {
		*f.err = err
	}
}

func (f fields) invalid(key, format string, args ...any) {
	f.keep(fmt.Errorf("%s: field %s: %s: %w", f.c.File(), key, fmt.Sprintf(format, args...), weights.ErrInvalid))
}

func (f fields) unsupported(key, format string, args ...any) {
	f.keep(fmt.Errorf("%s: field %s: %s: %w", f.c.File(), key, fmt.Sprintf(format, args...), weights.ErrUnsupported))
}

// has is the first name that is there.
func (f fields) has(names ...string) (string, bool) {
	for _, name := range names {
		if f.c.Has(name) {
			return name, true
		}
	}
	return names[0], false
}

// count is a positive number that must be there.
func (f fields) count(names ...string) int {
	name, _ := f.has(names...)
	n, err := f.c.Int(name)
	return f.bounded(name, n, err)
}

// countOr is a positive number, or def.
func (f fields) countOr(def int, names ...string) int {
	name, ok := f.has(names...)
	if !ok {
		return def
	}
	n, err := f.c.IDOr(name, def)
	return f.bounded(name, n, err)
}

func (f fields) bounded(name string, n int, err error) int {
	if err != nil {
		f.keep(err)
		return 1
	}
	if n < 0 || n > maxCount {
		f.invalid(name, "expected a number up to %d, found %d", maxCount, n)
		return 1
	}
	return n
}

func (f fields) float(names ...string) (float64, bool) {
	name, ok := f.has(names...)
	if !ok {
		return 0, false
	}
	v, err := f.c.Float(name)
	f.keep(err)
	return v, err == nil
}

func (f fields) floatOr(def float64, names ...string) float64 {
	if v, ok := f.float(names...); ok {
		return v
	}
	return def
}

func (f fields) flag(def bool, names ...string) bool {
	name, _ := f.has(names...)
	v, err := f.c.BoolOr(name, def)
	f.keep(err)
	return v
}

func (f fields) text(def string, names ...string) string {
	name, _ := f.has(names...)
	v, err := f.c.StringOr(name, def)
	f.keep(err)
	return v
}

// object is a nested object; ok is false where there is none.
func (f fields) object(name string) (fields, bool) {
	if !f.c.Has(name) {
		return fields{}, false
	}
	o, err := f.c.Object(name)
	if err != nil || o == nil {
		f.keep(err)
		return fields{}, false
	}
	return fields{o, f.err}, true
}

// ints is a list of numbers, nil where there is none.
func (f fields) ints(name string) []int {
	if !f.c.Has(name) {
		return nil
	}
	list, err := f.c.IDs(name)
	f.keep(err)
	return list
}

// floats is a list of numbers, nil where there is none.
func (f fields) floats(name string) []float32 {
	if !f.c.Has(name) {
		return nil
	}
	list, err := f.c.Floats(name)
	f.keep(err)
	out := make([]float32, len(list))
	for i, v := range list {
		out[i] = float32(v)
	}
	return out
}

package model

import (
	"fmt"

	"hotpath/internal/format/gguf"
	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// Largest sizes that a configuration may claim. They are beyond every model
// there is, and keep products of sizes far from overflow and the work of a
// hostile file small.
const (
	maxLayers  = 1 << 10
	maxDim     = 1 << 18
	maxFFN     = 1 << 20
	maxHeads   = 1 << 12
	maxHeadDim = 1 << 12
	maxVocab   = 1 << 24
	maxContext = 1 << 28
)

// source is what GGUF metadata and config.json have in common. Errors name the
// file, the field and what was expected.
type source interface {
	Has(key string) bool
	Int(key string) (int, error)
	IntOr(key string, def int) (int, error)
	FloatOr(key string, def float64) (float64, error)
	BoolOr(key string, def bool) (bool, error)
	StringOr(key, def string) (string, error)
}

// fields reads a configuration and keeps the first error, so that a reader is
// a list of fields. After an error sizes are 1 and others their defaults.
type fields struct {
	source source
	file   string
	field  string // how the format calls a field
	prefix string // of names in errors
	err    *error // shared with nested objects

	gguf *gguf.File      // nil for Hugging Face
	hf   *weights.Config // nil for GGUF
}

// metadata is GGUF metadata of one architecture: keys are below its name.
type metadata struct {
	*gguf.File
	prefix string
}

func (m metadata) Has(key string) bool {
	_, ok := m.Value(m.prefix + key)
	return ok
}
func (m metadata) Int(key string) (int, error)            { return m.NeedInt(m.prefix + key) }
func (m metadata) IntOr(key string, def int) (int, error) { return m.File.IntOr(m.prefix+key, def) }
func (m metadata) FloatOr(key string, def float64) (float64, error) {
	return m.File.FloatOr(m.prefix+key, def)
}
func (m metadata) BoolOr(key string, def bool) (bool, error) { return m.File.BoolOr(m.prefix+key, def) }
func (m metadata) StringOr(key, def string) (string, error) {
	return m.File.StringOr(m.prefix+key, def)
}

func ggufFields(f *gguf.File, arch string) *fields {
	return &fields{metadata{f, arch + "."}, f.Name(), "key", arch + ".", new(error), f, nil}
}

func hfFields(c *weights.Config) *fields {
	return &fields{c, c.File(), "field", "", new(error), nil, c}
}

func (r *fields) failed() error { return *r.err }

func (r *fields) keep(err error) {
	if *r.err == nil {
		*r.err = err
	}
}

// invalid records a field that contradicts itself or another one.
func (r *fields) invalid(key, format string, args ...any) {
	r.fault(key, weights.ErrInvalid, format, args...)
}

// unsupported records a sound field that asks for what is not there.
func (r *fields) unsupported(key, format string, args ...any) {
	r.fault(key, weights.ErrUnsupported, format, args...)
}

func (r *fields) fault(key string, kind error, format string, args ...any) {
	r.keep(fmt.Errorf("%s: %s %s%s: %s: %w", r.file, r.field, r.prefix, key, fmt.Sprintf(format, args...), kind))
}

func (r *fields) has(key string) bool { return r.source.Has(key) }

// size is a count from 1 to most.
func (r *fields) size(key string, most int) int {
	v, err := r.source.Int(key)
	return r.bounded(key, v, most, err)
}

// sizeOr is a count from 1 to most, or def where the field is absent.
func (r *fields) sizeOr(key string, most, def int) int {
	v, err := r.source.IntOr(key, def)
	return r.bounded(key, v, most, err)
}

func (r *fields) bounded(key string, v, most int, err error) int {
	switch {
	case err != nil:
		r.keep(err)
	case v < 1 || v > most:
		r.invalid(key, "expected a number from 1 to %d, found %d", most, v)
	}
	if r.failed() != nil {
		return 1
	}
	return v
}

// natural is a count from 0 to most, or def where the field is absent.
func (r *fields) natural(key string, most, def int) int {
	var v int
	var err error
	if r.gguf != nil {
		v, err = r.gguf.IDOr(r.prefix+key, def)
	} else {
		v, err = r.hf.IDOr(key, def)
	}
	switch {
	case err != nil:
		r.keep(err)
		return def
	case v > most:
		r.invalid(key, "expected a number from 0 to %d, found %d", most, v)
		return def
	}
	return v
}

// positive is a number above 0, or def.
func (r *fields) positive(key string, def float64) float64 {
	v, err := r.source.FloatOr(key, def)
	if err != nil {
		r.keep(err)
		return def
	}
	if !(v > 0) {
		r.invalid(key, "expected a number above 0, found %g", v)
		return def
	}
	return v
}

// optional is a number above 0, or 0 where the field is absent or 0.
func (r *fields) optional(key string) float64 {
	v, err := r.source.FloatOr(key, 0)
	if err != nil {
		r.keep(err)
		return 0
	}
	if v < 0 {
		r.invalid(key, "expected a number from 0, found %g", v)
	}
	return v
}

func (r *fields) flag(key string, def bool) bool {
	v, err := r.source.BoolOr(key, def)
	r.keep(err)
	return v
}

func (r *fields) text(key, def string) string {
	v, err := r.source.StringOr(key, def)
	r.keep(err)
	return v
}

// window is a number of tokens, 0 for none where the field is null, and def
// where it is absent: that is not the same in config.json.
func (r *fields) window(key string, def int) int {
	if r.hf.Null(key) {
		return 0
	}
	n, err := r.hf.IDOr(key, def)
	r.keep(err)
	return min(n, maxContext)
}

// refuse records a flag that asks for what is not there.
func (r *fields) refuse(key string) {
	if r.flag(key, false) {
		r.unsupported(key, "true, expected false")
	}
}

// factor is a number other than 0, or def.
func (r *fields) factor(key string, def float64) float32 {
	v, err := r.source.FloatOr(key, def)
	r.keep(err)
	if err == nil && (v == 0 || v != v) {
		r.invalid(key, "expected a number other than 0, found %g", v)
	}
	return float32(v)
}

// activation is the name of a row of the graph's table of activations.
func (r *fields) activation(key, def string) graph.ActKind {
	k, err := graph.ParseActivation(r.text(key, def))
	if err != nil {
		r.unsupported(key, "%v", err)
	}
	return k
}

// multiple demands that whole is a multiple of part, which key holds.
func (r *fields) multiple(key, what string, whole, part int) {
	if r.failed() == nil && whole%part != 0 {
		r.invalid(key, "expected a divisor of %s (%d), found %d", what, whole, part)
	}
}

// object reads a nested object of config.json; nil where it is absent.
func (r *fields) object(key string) *fields {
	if r.failed() != nil || !r.has(key) {
		return nil
	}
	o, err := r.hf.Object(key)
	if err != nil {
		r.keep(err)
		return nil
	}
	return &fields{o, r.file, r.field, r.prefix + key + ".", r.err, nil, o}
}

// hasTensor reports whether a GGUF file has a tensor.
func (r *fields) hasTensor(name string) bool {
	_, ok := r.gguf.Tensor(name)
	return ok
}

// vocabulary is the height of a GGUF file's token table: the metadata may
// count otherwise, or not at all.
func (r *fields) vocabulary() int { return r.height("token_embd.weight") }

// height is the number of rows of a table in a GGUF file.
func (r *fields) height(key string) int {
	t, ok := r.gguf.Tensor(key)
	if !ok {
		r.keep(fmt.Errorf("%s: tensor %q: %w", r.file, key, weights.ErrNoTensor))
		return 1
	}
	if d := t.Dims(); len(d) != 2 || d[0] < 1 || d[0] > maxVocab {
		r.keep(fmt.Errorf("%s: tensor %q: dimensions %v, expected [rows, width]: %w", r.file, key, d, weights.ErrInvalid))
		return 1
	} else {
		return d[0]
	}
}

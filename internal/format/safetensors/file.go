// Package safetensors reads and writes safetensors files, and reads the index
// of a model that is split over several of them.
//
// Parse works on the bytes of a whole file, usually a memory map, and checks
// every length and offset in it once; tensor data are views of those bytes.
//
// weights imports it, and train writes checkpoints with it. Errors name the
// file, the tensor and what was expected, and wrap an error of package format.
package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"hotpath/internal/format"
	"hotpath/internal/tensor"
)

const (
	maxHeader  = 100_000_000 // the limit of the reference implementation
	maxTensors = 1 << 18
	maxRank    = 8
	maxNumbers = 1 << 10 // bytes of a shape in the header
	maxMeta    = 1 << 22 // bytes of the metadata in the header
	metaKey    = "__metadata__"
)

// dtypes has a row for every encoding of the format;
// those without a tensor.DType are listed but cannot be read. dtype is one
// more than the tensor.DType.
var dtypes = map[string]struct {
	size  int // bytes
	dtype tensor.DType
}{
	"F32": {4, 1 + tensor.F32}, "F16": {2, 1 + tensor.F16}, "BF16": {2, 1 + tensor.BF16},
	"I32": {4, 1 + tensor.I32}, "F64": {8, 0}, "I64": {8, 0}, "U64": {8, 0}, "U32": {4, 0},
	"I16": {2, 0}, "U16": {2, 0}, "I8": {1, 0}, "U8": {1, 0}, "BOOL": {1, 0},
	"F8_E4M3": {1, 0}, "F8_E5M2": {1, 0}, "F8_E8M0": {1, 0}, "C64": {8, 0},
}

// File is a parsed file. It is never changed after Parse, so many goroutines
// may read it.
type File struct {
	name    string
	meta    map[string]string
	data    []byte
	names   []string // sorted
	tensors map[string]Tensor
}

// Tensor describes one tensor of a File.
type Tensor struct {
	Type       string // as the file spells it
	Dims       []int  // outermost first; none for a scalar
	begin, end int
}

// Name is the name that Parse was given.
func (f *File) Name() string { return f.name }

// Metadata is the value of a key of the file's __metadata__.
func (f *File) Metadata(key string) (string, bool) {
	v, ok := f.meta[key]
	return v, ok
}

// Names are the names of the tensors, sorted.
func (f *File) Names() []string { return slices.Clone(f.names) }

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (Tensor, bool) {
	t, ok := f.tensors[name]
	return t, ok
}

// Data is the encoding and the bytes of a tensor, a view of the file. It fails
// if hotpath does not know the encoding.
func (f *File) Data(name string) (tensor.DType, []byte, error) {
	t, ok := f.tensors[name]
	if !ok {
		return 0, nil, fmt.Errorf("%s: no tensor %q", f.name, name)
	}
	d := dtypes[t.Type].dtype
	if d == 0 {
		return 0, nil, fmt.Errorf("%s: tensor %q: encoding %q, expected F32, F16, BF16 or I32: %w", f.name, name, t.Type, format.ErrUnsupported)
	}
	return d - 1, f.data[t.begin:t.end:t.end], nil
}

// Parse checks data, the bytes of a whole file. name is for errors.
func Parse(name string, data []byte) (*File, error) {
	f := &File{name: name, tensors: map[string]Tensor{}}
	if err := f.parse(data); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

func (f *File) parse(data []byte) error {
	if len(data) < 8 {
		return fmt.Errorf("%d bytes, expected the 8 bytes of the header's length: %w", len(data), format.ErrTruncated)
	}
	n := binary.LittleEndian.Uint64(data)
	if n < 2 || n > maxHeader {
		return fmt.Errorf("header of %d bytes, expected 2 to %d: %w", n, maxHeader, format.ErrInvalid)
	}
	if n > uint64(len(data)-8) {
		return fmt.Errorf("header of %d bytes, but only %d are left: %w", n, len(data)-8, format.ErrTruncated)
	}
	header := data[8 : 8+n]
	f.data = data[8+n:]
	if err := f.parseHeader(header); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	f.names = slices.Sorted(maps.Keys(f.tensors))
	spans := make([]format.Span, 0, len(f.names))
	for _, name := range f.names {
		if t := f.tensors[name]; t.end > t.begin {
			spans = append(spans, format.Span{Name: name, Begin: t.begin, End: t.end})
		}
	}
	return format.Disjoint(spans)
}

// entry is one tensor of the header.
type entry struct {
	DType   *string `json:"dtype"` // nil where it is missing
	Shape   numbers `json:"shape"`
	Offsets numbers `json:"data_offsets"`
}

// numbers is a short list of integers: a long one is refused before it is
// decoded into eight bytes an element.
type numbers []int

func (n *numbers) UnmarshalJSON(b []byte) error {
	if len(b) > maxNumbers {
		return fmt.Errorf("a list of numbers of %d bytes, expected at most %d", len(b), maxNumbers)
	}
	return json.Unmarshal(b, (*[]int)(n))
}

// parseHeader walks the header one entry at a time, so that no more is decoded
// at once than one tensor's description.
func (f *File) parseHeader(header []byte) error {
	if header[0] != '{' {
		return fmt.Errorf("begins with %q, expected a JSON object: %w", header[0], format.ErrInvalid)
	}
	dec := json.NewDecoder(bytes.NewReader(header))
	if _, err := dec.Token(); err != nil {
		return invalidJSON(err)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return invalidJSON(err)
		}
		name, _ := key.(string) // a key is always a string here
		if name == metaKey {
			if f.meta != nil {
				return fmt.Errorf("%s appears twice: %w", metaKey, format.ErrInvalid)
			}
			if f.meta, err = decodeMeta(dec); err != nil {
				return fmt.Errorf("%s: expected an object of strings: %w", metaKey, invalidJSON(err))
			}
			continue
		}
		if _, dup := f.tensors[name]; dup {
			return fmt.Errorf("tensor %q appears twice: %w", name, format.ErrInvalid)
		}
		if len(f.tensors) == maxTensors {
			return fmt.Errorf("more than %d tensors: %w", maxTensors, format.ErrInvalid)
		}
		var e entry
		if err := dec.Decode(&e); err != nil {
			return fmt.Errorf("tensor %q: expected dtype, shape and data_offsets: %w", name, invalidJSON(err))
		}
		t, err := e.check(len(f.data))
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		f.tensors[name] = t
	}
	if _, err := dec.Token(); err != nil {
		return invalidJSON(err)
	}
	if rest := bytes.TrimSpace(header[dec.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("%d bytes after the JSON object, expected spaces only: %w", len(rest), format.ErrInvalid)
	}
	return nil
}

func decodeMeta(dec *json.Decoder) (map[string]string, error) {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return nil, err
	}
	if len(raw) > maxMeta {
		return nil, fmt.Errorf("%d bytes, expected at most %d", len(raw), maxMeta)
	}
	meta := map[string]string{}
	err := json.Unmarshal(raw, &meta)
	return meta, err
}

// check bounds a tensor within a data part of n bytes.
func (e entry) check(n int) (Tensor, error) {
	if e.DType == nil || e.Shape == nil || len(e.Offsets) != 2 {
		return Tensor{}, fmt.Errorf("expected dtype, shape and two data_offsets: %w", format.ErrInvalid)
	}
	if len(e.Shape) > maxRank {
		return Tensor{}, fmt.Errorf("shape has %d dimensions, expected at most %d: %w", len(e.Shape), maxRank, format.ErrInvalid)
	}
	t := Tensor{Type: *e.DType, Dims: e.Shape, begin: e.Offsets[0], end: e.Offsets[1]}
	if t.begin < 0 || t.end < t.begin {
		return Tensor{}, fmt.Errorf("data_offsets %v, expected a range: %w", e.Offsets, format.ErrInvalid)
	}
	if t.end > n {
		return Tensor{}, fmt.Errorf("data_offsets %v, but the file has only %d bytes of tensors: %w", e.Offsets, n, format.ErrTruncated)
	}
	d, ok := dtypes[t.Type]
	if !ok { // an encoding of tomorrow: its size is not ours to check
		return t, nil
	}
	size, err := format.ByteSize(t.Dims, 1, d.size)
	if err != nil {
		return Tensor{}, fmt.Errorf("shape: %w", err)
	}
	if size != t.end-t.begin {
		return Tensor{}, fmt.Errorf("data_offsets %v hold %d bytes, expected %d for %s %v: %w",
			e.Offsets, t.end-t.begin, size, t.Type, t.Dims, format.ErrInvalid)
	}
	return t, nil
}

func invalidJSON(err error) error { return fmt.Errorf("%v: %w", err, format.ErrInvalid) }

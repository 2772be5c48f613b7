// Package safetensors reads and writes safetensors files, and reads the index
// of a model that is split over several of them.
//
// Parse works on the bytes of a whole file, usually a memory map, and checks
// every length and offset in it once. Names, shapes and data are views of those
// bytes: what Parse allocates is 24 bytes a tensor, half of the least that a
// tensor takes in a header, and less than a kilobyte besides.
//
// weights imports it, and train writes checkpoints with it. Errors name the
// file, the tensor and what was expected, and wrap an error of package format.
package safetensors

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"hotpath/internal/format"
	"hotpath/internal/format/jsonview"
	"hotpath/internal/tensor"
)

const (
	maxHeader  = 100_000_000 // the limit of the reference implementation
	maxTensors = 1 << 18
	maxName    = 1 << 12 // bytes
	maxType    = 1 << 6  // bytes of an encoding's name
	maxRank    = 8
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
	name   string
	header jsonview.Value
	meta   jsonview.Value // of kind Invalid where there is none
	data   []byte
	table  []place // sorted by name
}

// place is where one tensor is described and where it lies.
type place struct {
	key, value uint32 // in the header
	begin, end int    // in the data
}

// Tensor describes one tensor of a File.
type Tensor struct {
	Type string // as the file spells it
	Dims []int  // outermost first; none for a scalar
}

// Name is the name that Parse was given.
func (f *File) Name() string { return f.name }

// Metadata is the value of a key of the file's __metadata__.
func (f *File) Metadata(key string) (string, bool) {
	v, _ := f.meta.Get(key)
	return v.Text()
}

// Len is the number of tensors.
func (f *File) Len() int { return len(f.table) }

// key is the name of the tensor that is i-th in the order of names.
func (f *File) key(i int) jsonview.Value { return f.header.At(int(f.table[i].key)) }

// Names are the names of the tensors, sorted.
func (f *File) Names() []string {
	out := make([]string, len(f.table))
	for i := range out {
		out[i], _ = f.key(i).Text()
	}
	return out
}

func (f *File) find(name string) (int, bool) {
	return sort.Find(len(f.table), func(i int) int { return -f.key(i).CompareText(name) })
}

func (f *File) hasKey(name jsonview.Value) bool {
	_, ok := slices.BinarySearchFunc(f.table, name, func(p place, name jsonview.Value) int {
		return f.header.At(int(p.key)).Compare(name)
	})
	return ok
}

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.find(name)
	if !ok {
		return Tensor{}, false
	}
	e, _ := readEntry(f.header.At(int(f.table[i].value))) // checked by Parse
	return Tensor{Type: e.typ, Dims: slices.Clone(e.dims[:e.rank])}, true
}

// Data is the encoding and the bytes of a tensor, a view of the file. It fails
// if hotpath does not know the encoding.
func (f *File) Data(name string) (tensor.DType, []byte, error) {
	i, ok := f.find(name)
	if !ok {
		return 0, nil, fmt.Errorf("%s: no tensor %q", f.name, name)
	}
	e, _ := readEntry(f.header.At(int(f.table[i].value))) // checked by Parse
	d := dtypes[e.typ].dtype
	if d == 0 {
		return 0, nil, fmt.Errorf("%s: tensor %q: encoding %q, expected F32, F16, BF16 or I32: %w", f.name, name, e.typ, format.ErrUnsupported)
	}
	return d - 1, f.data[e.begin:e.end:e.end], nil
}

// Parse checks data, the bytes of a whole file. name is for errors.
func Parse(name string, data []byte) (*File, error) {
	f := &File{name: name}
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
	if header[0] != '{' {
		return fmt.Errorf("header: begins with %q, expected a JSON object: %w", header[0], format.ErrInvalid)
	}
	var err error
	if f.header, err = jsonview.Parse(header); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	if err := f.readHeader(); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	return f.checkPlaces()
}

// readHeader fills the table, in the order of the header.
func (f *File) readHeader() error {
	n := f.header.Len()
	if n > maxTensors {
		return fmt.Errorf("%d tensors, expected at most %d: %w", n, maxTensors, format.ErrInvalid)
	}
	f.table = make([]place, 0, n)
	for key, value := range f.header.Members() {
		if key.Is(metaKey) {
			if err := f.readMeta(value); err != nil {
				return err
			}
			continue
		}
		if n := key.TextLen(); n > maxName {
			return fmt.Errorf("name of a tensor of %d bytes, expected at most %d: %w", n, maxName, format.ErrInvalid)
		}
		e, err := readEntry(value)
		if err == nil {
			err = e.check(len(f.data))
		}
		if err != nil {
			name, _ := key.Text()
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		f.table = append(f.table, place{uint32(f.header.Offset(key)), uint32(f.header.Offset(value)), e.begin, e.end})
	}
	return nil
}

func (f *File) readMeta(value jsonview.Value) error {
	if f.meta.Kind() != jsonview.Invalid {
		return fmt.Errorf("%s appears twice: %w", metaKey, format.ErrInvalid)
	}
	sound := value.Kind() == jsonview.Object
	for _, v := range value.Members() {
		sound = sound && v.Kind() == jsonview.String
	}
	if !sound {
		return fmt.Errorf("%s: expected an object of strings: %w", metaKey, format.ErrInvalid)
	}
	f.meta = value
	return nil
}

// Package weights opens a model, a GGUF file or a Hugging Face directory, and
// hands out its tensors and its description. It owns the memory map: tensors
// are views of it until Close.
//
// It imports tensor and format; model and everything after it import it. A
// file is hostile until checked, so Open reads every header in full and fails
// with one error that names the file, the field and what was expected. Errors
// wrap those of package format, repeated here for callers to match.
package weights

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"hotpath/internal/builtin"
	"hotpath/internal/format"
	"hotpath/internal/format/gguf"
	"hotpath/internal/format/safetensors"
	"hotpath/internal/tensor"
)

var (
	// ErrNotModel reports a path that holds no model.
	ErrNotModel = errors.New("not a model")
	// ErrNoTensor reports a tensor that the model does not have.
	ErrNoTensor = errors.New("no such tensor")
	// ErrTruncated reports a file that ends before what it announces.
	ErrTruncated = format.ErrTruncated
	// ErrInvalid reports a file that contradicts its format.
	ErrInvalid = format.ErrInvalid
	// ErrUnsupported reports a sound file that holds what hotpath does not read.
	ErrUnsupported = format.ErrUnsupported
	// ErrClosed reports the use of a Store after Close.
	ErrClosed = errors.New("model is closed")
)

// Format is the kind of a model's files.
type Format uint8

const (
	GGUF Format = iota
	HuggingFace
)

func (f Format) String() string { return [...]string{"GGUF", "Hugging Face"}[f] }

// Store is an open model. Everything but Close may be called by many
// goroutines at once; Close must come after all of them.
type Store struct {
	path   string
	maps   []*mapping
	gguf   *gguf.File // of a split model the first part, which describes it
	hf     *HFDir
	parts  []part
	index  *safetensors.Index // of a model that is split over several files
	closed bool
}

// Open opens a .gguf file, a Hugging Face directory, or, where the path leads
// nowhere, the model inside the program that has it as its name.
func Open(path string) (*Store, error) {
	info, err := os.Stat(path)
	if err != nil {
		if data, ok := builtin.Find(path); ok && errors.Is(err, fs.ErrNotExist) {
			return openBuiltin(path, data)
		}
		var at *fs.PathError
		if errors.Is(err, fs.ErrNotExist) && errors.As(err, &at) {
			return nil, fmt.Errorf("%s: %w: %w", path, ErrNotModel, at.Err)
		}
		return nil, err
	}
	s := &Store{path: path}
	switch {
	case !info.IsDir():
		err = s.openGGUF()
	case holdsGGUF(path):
		s.path = filepath.Join(path, GGUFFile)
		err = s.openGGUF()
	default:
		err = s.openDir()
	}
	if err != nil {
		return nil, errors.Join(Damage(err), s.Close())
	}
	return s, nil
}

// openBuiltin opens a model that is part of the program.
func openBuiltin(name string, data []byte) (*Store, error) {
	f, err := gguf.Parse(name, data)
	if err != nil {
		return nil, err
	}
	return &Store{path: name, maps: []*mapping{{data: data, path: name, inside: true}}, gguf: f, parts: []part{{file: ggufFile{f}}}}, nil
}

// GGUFFile is the name of the model in a directory that holds a GGUF file in
// place of a Hugging Face model: a checkpoint of training.
const GGUFFile = "model.gguf"

func holdsGGUF(dir string) bool {
	has := func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
	return has(GGUFFile) && !has("config.json") && !has("modules.json")
}

// mapFile maps a file for as long as the Store is open.
func (s *Store) mapFile(path string) (*mapping, error) {
	m, err := openMapping(path)
	if err != nil {
		return nil, err
	}
	m.path = path
	s.maps = append(s.maps, m)
	return m, pointer(path, m.data)
}

// pointer says that a file stands for another one that Git LFS keeps, as a clone
// without it leaves them.
func pointer(path string, data []byte) error {
	if !bytes.HasPrefix(data, []byte("version https://git-lfs.github.com/spec/")) {
		return nil
	}
	return fmt.Errorf("%s: %w: a Git LFS pointer, not the file itself: run `git lfs pull` where it was cloned, or download the file", path, ErrNotModel)
}

// Files are the paths of the files that the model's weights lie in.
func (s *Store) Files() []string {
	var out []string
	for _, m := range s.maps {
		out = append(out, m.path)
	}
	return out
}

// Bytes is the size of those files.
func (s *Store) Bytes() int64 {
	var n int64
	for _, m := range s.maps {
		n += int64(len(m.data))
	}
	return n
}

// EachMapping calls f with the memory of each of those files, and a name for it.
func (s *Store) EachMapping(f func(name string, mem []byte)) {
	for _, m := range s.maps {
		name := "mapped file " + filepath.Base(m.path)
		if m.inside {
			name = "in the program"
		}
		f(name, m.data)
	}
}

// Path is the path that Open was given, or that of the GGUF file in it.
func (s *Store) Path() string { return s.path }

// Format is the kind of the model's files.
func (s *Store) Format() Format {
	if s.gguf != nil {
		return GGUF
	}
	return HuggingFace
}

// GGUF is the description of a GGUF model, nil for a Hugging Face one.
func (s *Store) GGUF() *gguf.File { return s.gguf }

// HF is the description of a Hugging Face model, nil for a GGUF one.
func (s *Store) HF() *HFDir { return s.hf }

// Names are the names of all tensors as the files have them, sorted; those of
// a sentence-transformers module begin with its folder, as in
// "2_Dense/linear.weight".
func (s *Store) Names() []string {
	var out []string
	for _, p := range s.parts {
		names := p.file.Names()
		for i := range names {
			names[i] = p.prefix + names[i]
		}
		out = append(out, names...)
	}
	slices.Sort(out)
	return out
}

// Has reports whether there is a tensor of that name.
func (s *Store) Has(name string) bool {
	_, _, _, ok := s.find(name)
	return ok
}

// Get is a view of a tensor. Only data that lie at an address unfit for their
// elements are copied. A scalar has the dimensions [1].
func (s *Store) Get(name string) (Tensor, error) {
	if s.closed {
		return Tensor{}, fmt.Errorf("%s: %w", s.path, ErrClosed)
	}
	file, inside, dims, ok := s.find(name)
	if !ok {
		return Tensor{}, fmt.Errorf("%s: tensor %q: %w", s.path, name, ErrNoTensor)
	}
	d, data, err := file.Data(inside)
	if err != nil {
		return Tensor{}, err
	}
	t := Tensor{Name: name, DType: d, Dims: dims, Data: data}
	if len(t.Dims) == 0 {
		t.Dims = []int{1}
	}
	if len(t.Dims) > tensor.MaxRank || len(t.Data) == 0 {
		return Tensor{}, fmt.Errorf("%s: tensor %q: dimensions %v, expected 1 to %d positive ones: %w",
			s.path, name, t.Dims, tensor.MaxRank, ErrUnsupported)
	}
	if i := d.Info(); i.BlockLen == 1 && addressOf(data)%uintptr(i.BlockBytes) != 0 {
		t.Data = slices.Clone(data)
	}
	return t, nil
}

// Describe tells the encoding, as the file spells it, and the dimensions of a
// tensor, of one that Get does not read too.
func (s *Store) Describe(name string) (encoding string, dims []int, ok bool) {
	file, inside, dims, ok := s.find(name)
	if !ok {
		return "", nil, false
	}
	return file.Encoding(inside), dims, true
}

// Drop tells the system that nobody will read t again soon: its whole pages
// leave memory, and come back from the file if somebody does read them. A copy
// is left alone.
func (s *Store) Drop(t Tensor) {
	if s.closed || len(t.Data) == 0 {
		return
	}
	at := addressOf(t.Data)
	for _, m := range s.maps {
		if base := addressOf(m.data); at >= base && at < base+uintptr(len(m.data)) {
			begin := int(at - base)
			m.drop(begin, min(begin+len(t.Data), len(m.data)))
			return
		}
	}
}

// Close unmaps the files. Tensors of the Store must not be read afterwards.
func (s *Store) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	for _, m := range s.maps {
		errs = append(errs, m.close())
	}
	return errors.Join(errs...)
}

// readBounded reads a small file whole; one above limit is refused unread.
// A file that does not exist gives nil and no error.
func readBounded(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, danglingLink(path)
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: expected a regular file: %w", path, ErrInvalid)
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s: %d bytes, expected at most %d: %w", path, info.Size(), limit, ErrInvalid)
	}
	data, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	if data == nil {
		data = []byte{}
	}
	return data, pointer(path, data)
}

// danglingLink is the error of a link whose target is gone, which is how a cache
// shows a download that never ended; nil of anything else.
func danglingLink(path string) error {
	target, err := os.Readlink(path)
	if err != nil {
		return nil
	}
	return fmt.Errorf("%s: a link to %s, which is missing: %w", path, target, fs.ErrNotExist)
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

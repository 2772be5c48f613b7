package weights

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"hotpath/internal/format/safetensors"
	"hotpath/internal/tensor"
)

// part is one file of a model.
type part struct {
	prefix  string // of its tensors' names in the model
	file    tensorFile
	indexed bool // Store.index finds its tensors
}

// tensorFile is what the files of both formats can do.
type tensorFile interface {
	Name() string
	Names() []string
	Dims(name string) ([]int, bool)
	Encoding(name string) string // as the file spells it
	Data(name string) (tensor.DType, []byte, error)
}

// safetensorsFile looks at a safetensors file as a part.
type safetensorsFile struct{ *safetensors.File }

func (f safetensorsFile) Dims(name string) ([]int, bool) {
	t, ok := f.Tensor(name)
	return t.Dims, ok
}

func (f safetensorsFile) Encoding(name string) string {
	t, _ := f.Tensor(name)
	return t.Type
}

// find is the part that holds a tensor, and the name that it has there.
func (s *Store) find(name string) (tensorFile, string, []int, bool) {
	if s.index != nil {
		if f, ok := s.index.Find(name); ok {
			file := safetensorsFile{f}
			dims, ok := file.Dims(name)
			return file, name, dims, ok
		}
	}
	for _, p := range s.parts { // few: one, and those of modules
		inside, ok := strings.CutPrefix(name, p.prefix)
		if !ok || p.indexed {
			continue
		}
		if dims, ok := p.file.Dims(inside); ok {
			return p.file, inside, dims, true
		}
	}
	return nil, "", nil, false
}

// openTensors maps the safetensors of the model and of its modules.
func (s *Store) openTensors() error {
	found, err := s.addFile(filepath.Join(s.hf.Dir, "model.safetensors"), "")
	if err != nil {
		return err
	}
	if !found {
		if found, err = s.addShards(); err != nil {
			return err
		}
	}
	if !found {
		return s.notModel("model.safetensors and no model.safetensors.index.json")
	}
	for _, m := range s.hf.Modules {
		if m.Path == "" || filepath.Join(s.path, m.Path) == s.hf.Dir {
			continue
		}
		path := filepath.Join(s.path, m.Path, "model.safetensors")
		if found, err = s.addFile(path, filepath.ToSlash(m.Path)+"/"); err != nil {
			return err
		}
		if !found && m.Kind() == "Dense" {
			return fmt.Errorf("%s: expected the weights of module %s: %w", path, m.Path, os.ErrNotExist)
		}
	}
	return nil
}

// addFile adds the tensors of one file, their names behind a prefix, and
// reports whether there is such a file.
func (s *Store) addFile(path, prefix string) (bool, error) {
	f, err := s.parseFile(path)
	if f == nil || err != nil {
		return false, err
	}
	s.parts = append(s.parts, part{prefix: prefix, file: safetensorsFile{f}})
	return true, nil
}

// parseFile is nil where there is no such file.
func (s *Store) parseFile(path string) (*safetensors.File, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, danglingLink(path)
	}
	m, err := s.mapFile(path)
	if err != nil {
		return nil, err
	}
	return safetensors.Parse(path, m.data)
}

// addShards adds the tensors of a model that is split over several files, and
// reports whether there is an index of it.
func (s *Store) addShards() (bool, error) {
	path := filepath.Join(s.hf.Dir, "model.safetensors.index.json")
	data, err := readBounded(path, safetensors.MaxIndex)
	if data == nil || err != nil {
		return false, err
	}
	index, err := safetensors.ParseIndex(path, data)
	if err != nil {
		return false, err
	}
	var files []*safetensors.File
	for _, shard := range index.Shards() {
		f, err := s.parseFile(filepath.Join(s.hf.Dir, shard))
		if err != nil {
			return false, err
		}
		if f == nil {
			return false, fmt.Errorf("%s: field weight_map: names %s, which is missing: %w", path, shard, os.ErrNotExist)
		}
		files = append(files, f)
		s.parts = append(s.parts, part{file: safetensorsFile{f}, indexed: true})
	}
	s.index = index
	return true, index.Check(files)
}

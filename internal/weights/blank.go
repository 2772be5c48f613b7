package weights

import (
	"fmt"
	"maps"
	"slices"

	"hotpath/internal/tensor"
)

// Blank is a Hugging Face model without files, for training from random
// weights: its description and tokenizer by the names of their files, and
// tensors in F32 that are all zero, by name and dimensions. path is what errors
// call it.
func Blank(path string, files map[string][]byte, dims map[string][]int) (*Store, error) {
	h := &HFDir{Dir: path, memory: files, TokenizerJSON: files[tokenizerFile]}
	for _, c := range h.configs() {
		if data := files[c.file]; data != nil {
			var err error
			if *c.to, err = ParseConfig(path+": "+c.file, data); err != nil {
				return nil, err
			}
		}
	}
	if h.Config == nil {
		return nil, fmt.Errorf("%s: %w: no config.json", path, ErrNotModel)
	}
	f := &blankFile{path: path, dims: dims}
	most := 0
	for _, d := range dims {
		most = max(most, Tensor{Dims: d}.Len())
	}
	f.zeros = make([]byte, 4*most)
	return &Store{path: path, hf: h, parts: []part{{file: f}}}, nil
}

// blankFile is a part whose tensors share one stretch of zeros.
type blankFile struct {
	path  string
	dims  map[string][]int
	zeros []byte
}

func (f *blankFile) Name() string           { return f.path }
func (f *blankFile) Names() []string        { return slices.Sorted(maps.Keys(f.dims)) }
func (f *blankFile) Encoding(string) string { return "F32" }

func (f *blankFile) Dims(name string) ([]int, bool) {
	d, ok := f.dims[name]
	return slices.Clone(d), ok
}

func (f *blankFile) Data(name string) (tensor.DType, []byte, error) {
	n := 4 * Tensor{Dims: f.dims[name]}.Len()
	return tensor.F32, f.zeros[:n:n], nil
}

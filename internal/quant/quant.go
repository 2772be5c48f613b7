// Package quant turns the tensors of a model into smaller encodings and writes
// them as a GGUF file: which encoding a tensor gets (mixes by role and layer),
// importance matrices, and the stream that encodes rows on all threads while
// the file is written.
//
// It imports tensor, format and weights; convert and the command import it.
// Errors name the file or the tensor and what was expected.
package quant

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"hotpath/internal/format/gguf"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// Tensor is one tensor to write.
type Tensor struct {
	Name  string
	Dims  []int        // outermost first
	DType tensor.DType // as it is stored now
	// Rows decodes n rows of Dims[last] values from row first on.
	Rows func(dst []float32, first, n int) error
	// Data are the stored bytes, which are written as they lie if the encoding
	// stays; nil where the values change on the way.
	Data []byte
}

// Cols is the length of a row.
func (t *Tensor) Cols() int { return t.Dims[len(t.Dims)-1] }

// NumRows is the number of rows.
func (t *Tensor) NumRows() int {
	n := 1
	for _, d := range t.Dims[:len(t.Dims)-1] {
		n *= d
	}
	return n
}

// Facts are what mixes ask about a model.
type Facts struct {
	Arch    string
	Layers  int
	Group   int // heads of queries a head of keys
	Experts int
}

// Options change what a mix does.
type Options struct {
	Threads    int           // 0 means one a processor
	Importance *Importance   // nil for none
	KeepOutput bool          // leave output.weight as it is
	Output     *tensor.DType // of output.weight, or of the embedding where they are one
	Embedding  *tensor.DType // of token_embd.weight
	Pure       bool          // every matrix in the mix's own encoding
	// Progress hears how many bytes of the result are written.
	Progress func(bytes int64)
}

// Summary is what was done.
type Summary struct {
	Tensors  int            `json:"tensors"`
	Elements int64          `json:"elements"`
	Before   int64          `json:"bytes_before"`
	After    int64          `json:"bytes"`
	Types    map[string]int `json:"types"` // tensors by encoding
	// Again counts tensors that were quantized before, and lose twice.
	Again int `json:"requantized,omitempty"`
	// Unimportant counts tensors that the importance matrix does not know.
	Unimportant int `json:"without_importance,omitempty"`
}

// File writes a GGUF model with the encodings of a mix.
func File(ctx context.Context, in *weights.Store, path string, mix Mix, opts Options) (Summary, error) {
	f := in.GGUF()
	if f == nil {
		return Summary{}, fmt.Errorf("%s: expected a GGUF file (convert makes one of a directory): %w", in.Path(), weights.ErrUnsupported)
	}
	if len(in.Files()) > 1 { // a file of its own may be replaced by its result
		if err := Overwrites(in, path); err != nil {
			return Summary{}, err
		}
	}
	facts, err := factsOf(f)
	if err != nil {
		return Summary{}, err
	}
	var w gguf.Writer
	for _, key := range f.Keys() {
		// A file of one part, with the default alignment, in another encoding.
		if strings.HasPrefix(key, "split.") || slices.Contains(replaced, key) {
			continue
		}
		v, _ := f.Value(key)
		if err := w.SetValue(key, v); err != nil {
			return Summary{}, fmt.Errorf("%s: %w", in.Path(), err)
		}
	}
	tensors, err := stored(in)
	if err != nil {
		return Summary{}, err
	}
	return Write(ctx, &w, path, facts, tensors, mix, opts)
}

// Overwrites reports that writing path would destroy the model in.
func Overwrites(in *weights.Store, path string) error {
	out, err := os.Stat(path)
	if err != nil {
		return nil // it is new, or writing will say what is wrong with it
	}
	for _, file := range in.Files() {
		if info, err := os.Stat(file); err == nil && os.SameFile(out, info) {
			return fmt.Errorf("%s: is one of the files that are read, expected another", path)
		}
	}
	return nil
}

// replaced are the keys that Write sets.
var replaced = []string{"general.alignment", "general.file_type", "general.quantization_version",
	"quantize.imatrix.file", "quantize.imatrix.dataset", "quantize.imatrix.entries_count", "quantize.imatrix.chunks_count"}

// stored are the tensors of a GGUF model, in the order of its first file.
func stored(in *weights.Store) ([]Tensor, error) {
	var names []string
	seen := map[string]bool{}
	for _, t := range in.GGUF().Tensors() {
		names, seen[t.Name] = append(names, t.Name), true
	}
	for _, name := range in.Names() {
		if !seen[name] {
			names = append(names, name)
		}
	}
	var out []Tensor
	for _, name := range names {
		t, err := in.Get(name)
		if err != nil {
			return nil, err
		}
		out = append(out, FromStore(t))
	}
	return out, nil
}

// FromStore is a tensor as its file has it.
func FromStore(t weights.Tensor) Tensor {
	cols := t.Dims[len(t.Dims)-1]
	size := t.DType.RowBytes(cols)
	return Tensor{Name: t.Name, Dims: t.Dims, DType: t.DType, Data: t.Data, Rows: func(dst []float32, first, n int) error {
		return tensor.Dequantize(dst[:n*cols], t.DType, t.Data[first*size:(first+n)*size])
	}}
}

// factsOf reads the description of a model.
func factsOf(f *gguf.File) (Facts, error) {
	arch, err := f.NeedString("general.architecture")
	if err != nil {
		return Facts{}, err
	}
	x := Facts{Arch: arch, Group: 1}
	if x.Layers, err = f.IntOr(arch+".block_count", 0); err != nil {
		return Facts{}, err
	}
	if x.Experts, err = f.IDOr(arch+".expert_count", 0); err != nil {
		return Facts{}, err
	}
	// Files with heads that differ by layer have lists here.
	heads, _ := f.Int(arch + ".attention.head_count")
	groups, ok := f.Int(arch + ".attention.head_count_kv")
	if ok && heads > 0 && groups > 0 {
		x.Group = int(heads / groups)
	}
	return x, nil
}

// Write encodes tensors as a mix says and writes them to path, with the
// metadata that w has already. Nothing is left at path if it fails.
func Write(ctx context.Context, w *gguf.Writer, path string, facts Facts, tensors []Tensor, mix Mix, opts Options) (Summary, error) {
	types, err := Choose(mix, facts, tensors, opts)
	if err != nil {
		return Summary{}, err
	}
	sum := Summary{Types: map[string]int{}}
	if err := errors.Join(w.Set("general.file_type", mix.FileType), w.Set("general.quantization_version", uint32(2)), opts.Importance.describe(w)); err != nil {
		return sum, err
	}
	e := newEncoder(ctx, opts)
	for i := range tensors {
		t, d := &tensors[i], types[i]
		weight, err := opts.Importance.of(t)
		if err != nil {
			return sum, err
		}
		if err := w.AddStream(t.Name, d, t.Dims, e.stream(t, d, weight)); err != nil {
			return sum, err
		}
		elements := t.NumRows() * t.Cols()
		sum.Tensors++
		sum.Elements += int64(elements)
		sum.Before += int64(t.DType.RowBytes(elements))
		sum.After += int64(d.RowBytes(elements))
		sum.Types[d.String()]++
		if d != t.DType && d.Quantized() {
			if t.DType.Quantized() {
				sum.Again++
			}
			if opts.Importance != nil && weight == nil {
				sum.Unimportant++
			}
		}
	}
	if err := w.WriteFile(path); err != nil {
		return sum, err
	}
	return sum, nil
}

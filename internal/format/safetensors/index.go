package safetensors

import (
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"hotpath/internal/format"
	"hotpath/internal/format/jsonview"
)

const (
	maxShards = 1024
	// MaxIndex bounds the bytes of an index.
	MaxIndex = 1 << 25
)

// Index says which file of a split model holds each tensor. It is a view of the
// bytes given to ParseIndex.
type Index struct {
	name   string
	where  jsonview.Value // weight_map
	shards []string       // sorted
	files  []*File        // of shards, once they are checked
	refs   []ref          // their tensors, sorted by name
}

// ref is one tensor of one file.
type ref struct{ file, tensor uint32 }

// ParseIndex checks data, a model.safetensors.index.json. name is for errors.
func ParseIndex(name string, data []byte) (*Index, error) {
	x := &Index{name: name}
	if err := x.parse(data); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return x, nil
}

func (x *Index) parse(data []byte) error {
	if len(data) > MaxIndex {
		return fmt.Errorf("%d bytes, expected at most %d: %w", len(data), MaxIndex, format.ErrInvalid)
	}
	doc, err := jsonview.Parse(data)
	if err != nil {
		return err
	}
	var ok bool
	if x.where, ok = doc.Get("weight_map"); !ok || x.where.Kind() != jsonview.Object {
		return fmt.Errorf("field weight_map: expected an object that maps tensors to files, found %s: %w", x.where.Kind(), format.ErrInvalid)
	}
	if n := x.where.Len(); n == 0 || n > maxTensors {
		return fmt.Errorf("field weight_map: %d tensors, expected 1 to %d: %w", n, maxTensors, format.ErrInvalid)
	}
	var text [maxFileName]byte
	for tensor, file := range x.where.Members() {
		if err := x.addShard(text[:0], file); err != nil {
			return fmt.Errorf("field weight_map: tensor %.100s: %w", tensor.Raw(), err)
		}
	}
	return nil
}

// maxFileName is what file systems allow.
const maxFileName = 255 // bytes

// addShard adds a file to the list if it is not in it yet.
func (x *Index) addShard(buf []byte, file jsonview.Value) error {
	if n := file.TextLen(); file.Kind() != jsonview.String || n > maxFileName {
		return fmt.Errorf("%.60s, expected the name of a file: %w", file.Raw(), format.ErrInvalid)
	}
	shard := file.AppendText(buf)
	at, known := slices.BinarySearchFunc(x.shards, shard, compareName)
	if known {
		return nil
	}
	// A shard lies beside its index: a name that leads elsewhere is an attack.
	name := string(shard)
	if name == "." || !filepath.IsLocal(name) || strings.ContainsAny(name, "/\\\x00") {
		return fmt.Errorf("%q, expected a file beside the index: %w", name, format.ErrInvalid)
	}
	if len(x.shards) == maxShards {
		return fmt.Errorf("more than %d files: %w", maxShards, format.ErrInvalid)
	}
	x.shards = slices.Insert(x.shards, at, name)
	return nil
}

// Shards are the names of the files, sorted.
func (x *Index) Shards() []string { return slices.Clone(x.shards) }

// compareName is written so that the compiler needs no copy of b.
func compareName(a string, b []byte) int {
	switch {
	case a == string(b):
		return 0
	case a < string(b):
		return -1
	}
	return 1
}

// Check holds the index against its files, which stand in the order of Shards:
// each tensor has to be where the index says, and in no other file. Find can be
// used then.
func (x *Index) Check(files []*File) error {
	var text [maxFileName]byte
	for name, file := range x.where.Members() {
		at, _ := slices.BinarySearchFunc(x.shards, file.AppendText(text[:0]), compareName)
		if !files[at].hasKey(name) {
			return fmt.Errorf("%s: field weight_map: tensor %.100s is not in %s: %w", x.name, name.Raw(), x.shards[at], format.ErrInvalid)
		}
	}
	return x.join(files)
}

// Find is the file that holds a tensor, which may be one that the index does not
// name. It takes the logarithm of the number of tensors, however many files
// there are.
func (x *Index) Find(name string) (*File, bool) {
	i, ok := sort.Find(len(x.refs), func(i int) int { return -x.key(x.refs[i]).CompareText(name) })
	if !ok {
		return nil, false
	}
	return x.files[x.refs[i].file], true
}

func (x *Index) key(r ref) jsonview.Value { return x.files[r.file].key(int(r.tensor)) }

// join sorts the tensors of all files, and fails if two hold one of the same
// name.
func (x *Index) join(files []*File) error {
	x.files = files
	n := 0
	for _, f := range files {
		n += f.Len()
	}
	refs := make([]ref, 0, n)
	for i, f := range files {
		for k := range f.Len() {
			refs = append(refs, ref{uint32(i), uint32(k)})
		}
	}
	slices.SortFunc(refs, func(a, b ref) int { return x.key(a).Compare(x.key(b)) })
	for i := 1; i < len(refs); i++ {
		if a, b := refs[i-1], refs[i]; x.key(a).Compare(x.key(b)) == 0 {
			return fmt.Errorf("%s: tensor %.100s is in %s too: %w", files[a.file].name, x.key(a).Raw(), files[b.file].name, format.ErrInvalid)
		}
	}
	x.refs = refs
	return nil
}

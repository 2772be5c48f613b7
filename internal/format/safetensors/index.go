package safetensors

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"hotpath/internal/format"
)

const (
	maxShards = 4096
	// MaxIndex bounds the bytes of an index.
	MaxIndex = 1 << 25
)

// Index says which file of a split model holds each tensor.
type Index struct {
	name   string
	shards []string          // sorted
	where  map[string]string // tensor -> shard
}

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
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return fmt.Errorf("field weight_map: expected an object that maps tensors to files: %w", invalidJSON(err))
	}
	if len(index.WeightMap) == 0 || len(index.WeightMap) > maxTensors {
		return fmt.Errorf("field weight_map: %d tensors, expected 1 to %d: %w", len(index.WeightMap), maxTensors, format.ErrInvalid)
	}
	x.where = index.WeightMap
	shards := map[string]bool{}
	for tensor, file := range x.where {
		// A shard lies beside its index: a name that leads elsewhere is an attack.
		if file == "." || !filepath.IsLocal(file) || strings.ContainsAny(file, `/\`) {
			return fmt.Errorf("field weight_map: tensor %q: %q, expected a file beside the index: %w", tensor, file, format.ErrInvalid)
		}
		shards[file] = true
	}
	if len(shards) > maxShards {
		return fmt.Errorf("field weight_map: %d files, expected at most %d: %w", len(shards), maxShards, format.ErrInvalid)
	}
	x.shards = slices.Sorted(maps.Keys(shards))
	return nil
}

// Shards are the names of the files, sorted.
func (x *Index) Shards() []string { return slices.Clone(x.shards) }

// Shard is the file that holds a tensor.
func (x *Index) Shard(tensor string) (string, bool) {
	file, ok := x.where[tensor]
	return file, ok
}

// Names are the names of the tensors, sorted.
func (x *Index) Names() []string { return slices.Sorted(maps.Keys(x.where)) }

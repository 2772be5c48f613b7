package train

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"hotpath/internal/format/gguf"
	"hotpath/internal/graph"
	"hotpath/internal/model"
)

// poolings are the default poolings of models whose files name none, as files write
// them: the flag of sentence-transformers, and the number in GGUF.
var poolings = map[graph.PoolKind]struct {
	flag   string
	number uint32
}{
	graph.PoolMean: {"pooling_mode_mean_tokens", 1},
	graph.PoolLast: {"pooling_mode_lasttoken", 3},
}

// embedder reports whether an objective trains vectors.
func embedder(o objective) bool {
	switch o := o.(type) {
	case *contrastive, *distillEmbedding:
		return true
	case *regress:
		return o.pairs
	}
	return false
}

// writePooling writes the pooling of a model that was trained as an embedder, if its
// files did not name one, in the format of sentence-transformers. Without it other
// programs would have to guess, and llama.cpp would return one vector per token.
func writePooling(dir string, c *model.Config) error {
	kind, ok := poolings[c.Pooling]
	if !ok {
		return nil
	}
	const folder = "1_Pooling"
	modules, err := json.MarshalIndent([]map[string]any{
		{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
		{"idx": 1, "name": "1", "path": folder, "type": "sentence_transformers.models.Pooling"},
	}, "", "  ")
	if err != nil {
		return err
	}
	config, err := json.MarshalIndent(map[string]any{"word_embedding_dimension": c.Dim, kind.flag: true}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, folder), 0o777); err != nil {
		return err
	}
	if err := writeSynced(filepath.Join(dir, folder, "config.json"), bytes.NewReader(append(config, '\n'))); err != nil {
		return err
	}
	return writeSynced(filepath.Join(dir, "modules.json"), bytes.NewReader(append(modules, '\n')))
}

// setPooling is writePooling of a GGUF file.
func setPooling(w *gguf.Writer, m *model.Model) error {
	key := fmt.Sprintf("%s.pooling_type", m.Config().Arch)
	kind, ok := poolings[m.Config().Pooling]
	if _, said := m.Store().GGUF().Value(key); said || !ok {
		return nil
	}
	return w.Set(key, kind.number)
}

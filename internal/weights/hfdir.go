package weights

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"hotpath/internal/format/safetensors"
)

const (
	maxTokenizer = 256 << 20 // bytes of a tokenizer's file
	maxModules   = 64
)

// HFDir is the description of a Hugging Face model. What its directory does
// not have is nil.
type HFDir struct {
	Dir             string
	Config          *Config  // config.json; always there
	Generation      *Config  // generation_config.json
	TokenizerJSON   []byte   // tokenizer.json
	TokenizerConfig *Config  // tokenizer_config.json
	SpecialTokens   *Config  // special_tokens_map.json
	SentenceBert    *Config  // sentence_bert_config.json: max_seq_length
	Sentence        *Config  // config_sentence_transformers.json: prompts
	Modules         []Module // modules.json
}

// Module is one stage of a sentence-transformers model.
type Module struct {
	Type   string  // as in "sentence_transformers.models.Pooling"
	Path   string  // its folder, "" for the directory itself
	Config *Config // config.json in that folder; nil where there is none
}

// Kind is the last part of Type: Transformer, Pooling, Dense, Normalize.
func (m Module) Kind() string { return m.Type[strings.LastIndexByte(m.Type, '.')+1:] }

// Pooling is the configuration of the pooling stage, nil if there is none.
func (h *HFDir) Pooling() *Config {
	for _, m := range h.Modules {
		if m.Kind() == "Pooling" {
			return m.Config
		}
	}
	return nil
}

// Read is a file beside config.json, such as vocab.txt; nil if there is none.
func (h *HFDir) Read(name string) ([]byte, error) {
	return readBounded(filepath.Join(h.Dir, name), maxTokenizer)
}

// openDir opens s.path, a directory.
func (s *Store) openDir() error {
	h := &HFDir{Dir: s.path}
	if err := h.readModules(); err != nil {
		return err
	}
	if len(h.Modules) > 0 && h.Modules[0].Kind() == "Transformer" {
		h.Dir = filepath.Join(s.path, h.Modules[0].Path)
	}
	var err error
	if h.Config, err = readConfig(filepath.Join(h.Dir, "config.json")); err != nil {
		return err
	}
	if h.Config == nil {
		return s.notModel("config.json")
	}
	for _, c := range []struct {
		file string
		to   **Config
	}{
		{"generation_config.json", &h.Generation},
		{"tokenizer_config.json", &h.TokenizerConfig},
		{"special_tokens_map.json", &h.SpecialTokens},
		{"sentence_bert_config.json", &h.SentenceBert},
	} {
		if *c.to, err = readConfig(filepath.Join(h.Dir, c.file)); err != nil {
			return err
		}
	}
	if h.Sentence, err = readConfig(filepath.Join(s.path, "config_sentence_transformers.json")); err != nil {
		return err
	}
	if h.TokenizerJSON, err = h.Read("tokenizer.json"); err != nil {
		return err
	}
	s.hf = h
	return s.openTensors()
}

// notModel says what a directory lacks, and what may have been meant.
func (s *Store) notModel(missing string) error {
	hint := ""
	if files, _ := filepath.Glob(filepath.Join(s.path, "*.gguf")); len(files) > 0 {
		hint = fmt.Sprintf(" (it holds %s: name that file)", filepath.Base(files[0]))
	} else if files, _ := filepath.Glob(filepath.Join(s.path, "pytorch_model*.bin")); len(files) > 0 {
		hint = fmt.Sprintf(" (%s is a pickle, which is not read: save the model as safetensors)", filepath.Base(files[0]))
	}
	return fmt.Errorf("%s: %w: the directory has no %s%s", s.path, ErrNotModel, missing, hint)
}

// readConfig is nil where there is no such file.
func readConfig(path string) (*Config, error) {
	data, err := readBounded(path, maxConfig)
	if data == nil || err != nil {
		return nil, err
	}
	return ParseConfig(path, data)
}

func (h *HFDir) readModules() error {
	path := filepath.Join(h.Dir, "modules.json")
	data, err := readBounded(path, maxConfig)
	if data == nil || err != nil {
		return err
	}
	if h.Modules, err = parseModules(path, data); err != nil {
		return err
	}
	for i := range h.Modules {
		m := &h.Modules[i]
		if m.Config, err = readConfig(filepath.Join(h.Dir, m.Path, "config.json")); err != nil {
			return err
		}
	}
	return nil
}

// parseModules checks data, a modules.json. file is for errors.
func parseModules(file string, data []byte) ([]Module, error) {
	if err := checkNesting(data); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("%s: expected a list of modules: %v: %w", file, err, ErrInvalid)
	}
	if len(raw) > maxModules {
		return nil, fmt.Errorf("%s: %d modules, expected at most %d: %w", file, len(raw), maxModules, ErrInvalid)
	}
	modules := make([]Module, len(raw))
	for i, r := range raw {
		c, err := ParseConfig(fmt.Sprintf("%s: module %d", file, i), r)
		if err != nil {
			return nil, err
		}
		m := &modules[i]
		if m.Type, err = c.String("type"); err != nil {
			return nil, err
		}
		if m.Path, err = c.StringOr("path", ""); err != nil {
			return nil, err
		}
		if m.Path != "" && !filepath.IsLocal(m.Path) {
			return nil, fmt.Errorf("%s: module %d: field path: expected a folder of the model, found %q: %w", file, i, m.Path, ErrInvalid)
		}
	}
	return modules, nil
}

// openTensors maps the safetensors of the model and of its dense modules.
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
		if m.Kind() != "Dense" || m.Path == "" {
			continue
		}
		path := filepath.Join(s.path, m.Path, "model.safetensors")
		if found, err = s.addFile(path, filepath.ToSlash(m.Path)+"/"); err != nil {
			return err
		}
		if !found {
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
	for _, name := range f.Names() {
		t, _ := f.Tensor(name)
		s.sources[prefix+name] = source{f, name, t.Dims}
	}
	return true, nil
}

// parseFile is nil where there is no such file.
func (s *Store) parseFile(path string) (*safetensors.File, error) {
	if _, err := os.Stat(path); os.IsNotExist(err) {
		return nil, nil
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
	files := map[string]*safetensors.File{}
	for _, shard := range index.Shards() {
		f, err := s.parseFile(filepath.Join(s.hf.Dir, shard))
		if err != nil {
			return false, err
		}
		if f == nil {
			return false, fmt.Errorf("%s: field weight_map: names %s, which is missing: %w", path, shard, os.ErrNotExist)
		}
		files[shard] = f
	}
	for _, name := range index.Names() {
		shard, _ := index.Shard(name)
		t, ok := files[shard].Tensor(name)
		if !ok {
			return false, fmt.Errorf("%s: field weight_map: tensor %q is not in %s: %w", path, name, shard, ErrInvalid)
		}
		s.sources[name] = source{files[shard], name, t.Dims}
	}
	return true, nil
}

package weights

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"hotpath/internal/format/jsonview"
)

const (
	maxTokenizer = 256 << 20 // bytes of a tokenizer's file
	maxModules   = 64
	// maxModulePath is what file systems allow for one name.
	maxModulePath = 255 // bytes
)

// HFDir is the description of a Hugging Face model. What its directory does
// not have is nil.
type HFDir struct {
	Dir             string
	Config          *Config  // config.json; empty for a static embedding that has none
	Generation      *Config  // generation_config.json
	TokenizerJSON   []byte   // tokenizer.json
	TokenizerConfig *Config  // tokenizer_config.json
	SpecialTokens   *Config  // special_tokens_map.json
	SentenceBert    *Config  // sentence_bert_config.json: max_seq_length
	Sentence        *Config  // config_sentence_transformers.json: prompts
	Modules         []Module // modules.json

	memory map[string][]byte // files of a Blank model; nil: they lie in Dir
}

// Module is one stage of a sentence-transformers model.
type Module struct {
	Type   string  // as in "sentence_transformers.models.Pooling"
	Path   string  // its folder, "" for the directory itself
	Config *Config // config.json in that folder; nil where there is none
}

// Kind is the last part of Type: Transformer, Pooling, Dense, Normalize.
func (m Module) Kind() string { return m.Type[strings.LastIndexByte(m.Type, '.')+1:] }

// TextLimit is how many tokens of a text the files beside config.json let
// through, 0 where they do not say. The tokenizer's own limit concerns encoders
// only: generators are often saved with one of some batch.
func (h *HFDir) TextLimit(encoder bool) (limit int, err error) {
	if h.SentenceBert != nil && h.SentenceBert.Has("max_seq_length") {
		if limit, err = h.SentenceBert.Int("max_seq_length"); err != nil {
			return 0, err
		}
	}
	if h.TokenizerConfig != nil && encoder {
		// A float, because "no limit" is written as 10^30.
		n, err := h.TokenizerConfig.FloatOr("model_max_length", 0)
		if err != nil {
			return 0, err
		}
		if n >= 1 && (limit == 0 || n < float64(limit)) && n < 1<<31 {
			limit = int(n)
		}
	}
	return limit, nil
}

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
// What was read before is not read again: the bytes are shared.
func (h *HFDir) Read(name string) ([]byte, error) {
	for _, c := range h.configs() {
		if c.file == name && *c.to != nil {
			return (*c.to).Bytes(), nil
		}
	}
	if name == tokenizerFile && h.TokenizerJSON != nil {
		return h.TokenizerJSON, nil
	}
	if h.memory != nil {
		return h.memory[name], nil
	}
	return readBounded(filepath.Join(h.Dir, name), maxTokenizer)
}

// ChatTemplate is the chat template that has a file of its own, where there is
// one; it comes before that of tokenizer_config.json.
func (h *HFDir) ChatTemplate() (string, bool, error) {
	const name = "chat_template.jinja"
	data, err := h.Read(name)
	if err == nil && !utf8.Valid(data) {
		err = fmt.Errorf("%s: expected UTF-8: %w", filepath.Join(h.Dir, name), ErrInvalid)
	}
	return string(data), data != nil && err == nil, err
}

// EndIDs are the tokens at which generation ends: those of
// generation_config.json where there is one, or else of config.json. As in
// transformers a generation_config.json that names none lets nothing end
// generation: the list is empty then, and nil where there is no such file and
// config.json names none. Ids below 0 are in some files and stand for none.
func (h *HFDir) EndIDs() ([]int32, error) {
	const key = "eos_token_id"
	c, none := h.Config, []int32(nil)
	if h.Generation != nil {
		c, none = h.Generation, []int32{}
	}
	if c == nil || !c.Has(key) {
		return none, nil
	}
	raw, _ := c.Raw(key)
	list := make([]*int32, 1)
	if json.Unmarshal(raw, &list[0]) != nil && json.Unmarshal(raw, &list) != nil {
		return nil, c.fault(key, "an integer or a list of them")
	}
	ids := none
	for _, id := range list {
		if id == nil { // a null
			return nil, c.fault(key, "an integer or a list of them")
		}
		if *id >= 0 {
			ids = append(ids, *id)
		}
	}
	return ids, nil
}

const tokenizerFile = "tokenizer.json"

// configFile is a description beside config.json, and where it goes.
type configFile struct {
	file string
	to   **Config
}

func (h *HFDir) configs() []configFile {
	return []configFile{
		{"config.json", &h.Config},
		{"generation_config.json", &h.Generation},
		{"tokenizer_config.json", &h.TokenizerConfig},
		{"special_tokens_map.json", &h.SpecialTokens},
		{"sentence_bert_config.json", &h.SentenceBert},
	}
}

// openDir opens s.path, a directory.
func (s *Store) openDir() error {
	h := &HFDir{Dir: s.path}
	if err := h.readModules(); err != nil {
		return err
	}
	static := false
	if len(h.Modules) > 0 {
		switch h.Modules[0].Kind() {
		case "Transformer":
			h.Dir = filepath.Join(s.path, h.Modules[0].Path)
		case "StaticEmbedding": // a table and a tokenizer: its description says nothing else
			h.Dir, static = filepath.Join(s.path, h.Modules[0].Path), true
		}
	}
	for _, c := range h.configs() {
		var err error
		if *c.to, err = readConfig(filepath.Join(h.Dir, c.file)); err != nil {
			return err
		}
	}
	var err error
	if h.Config == nil && static {
		h.Config, err = ParseConfig(filepath.Join(s.path, "modules.json"), []byte("{}"))
	}
	if h.Config == nil {
		return s.notModel("config.json")
	}
	if err == nil {
		h.Sentence, err = readConfig(filepath.Join(s.path, "config_sentence_transformers.json"))
	}
	if err == nil {
		h.TokenizerJSON, err = h.Read(tokenizerFile)
	}
	if err != nil {
		return err
	}
	s.hf = h
	return s.openTensors()
}

// hints say about files of other kinds what their owner can do.
var hints = []struct{ pattern, says string }{
	{"*.gguf", "it holds %s: name that file"},
	{"pytorch_model*.bin", "%s is a pickle, which is not read: save the model as safetensors"},
	{"*.pth", "%s is a pickle, which is not read: save the model as safetensors"},
	{"adapter_model.safetensors", "%s is an adapter: merge it into its model"},
	{"tf_model.h5", "%s is TensorFlow's, which is not read: save the model as safetensors"},
	{"*.onnx", "%s is ONNX, which is not read: take the model's safetensors"},
	{"onnx/*.onnx", "%s is ONNX, which is not read: take the model's safetensors"},
}

// notModel says what a directory lacks, and what may have been meant.
func (s *Store) notModel(missing string) error {
	hint := ""
	for _, h := range hints {
		if files, _ := fs.Glob(os.DirFS(s.path), h.pattern); len(files) > 0 {
			hint = " (" + fmt.Sprintf(h.says, path.Base(files[0])) + ")"
			break
		}
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
	doc, err := jsonview.Parse(data)
	if err == nil && doc.Kind() != jsonview.Array {
		err = fmt.Errorf("expected a list of modules, found %s: %w", doc.Kind(), ErrInvalid)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	n := doc.Len()
	if n > maxModules {
		return nil, fmt.Errorf("%s: %d modules, expected at most %d: %w", file, n, maxModules, ErrInvalid)
	}
	modules, i := make([]Module, n), -1
	for item := range doc.Items() {
		i++
		c, err := newConfig(fmt.Sprintf("%s: module %d", file, i), "", item)
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
		if m.Path != "" && !filepath.IsLocal(m.Path) || len(m.Path) > maxModulePath || strings.Contains(m.Path, "\x00") {
			return nil, fmt.Errorf("%s: module %d: field path: expected a folder of the model, found %.300q: %w", file, i, m.Path, ErrInvalid)
		}
	}
	return modules, nil
}

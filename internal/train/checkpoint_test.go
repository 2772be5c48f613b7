package train

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/model"
	"hotpath/internal/testmodels"
	"hotpath/internal/weights"
)

// Tensors that no part of the model reads, in an encoding that hotpath does not
// know, keep nobody from saving: BERT's files have position_ids in I64.
func TestUnreadTensorsAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(testmodels.Dir(t, "bert"))))
	path := filepath.Join(dir, "model.safetensors")
	data, err := os.ReadFile(path)
	must(t, err)
	n := binary.LittleEndian.Uint64(data)
	var header map[string]json.RawMessage
	must(t, json.Unmarshal(data[8:8+n], &header))
	end := len(data) - 8 - int(n)
	header["embeddings.position_ids"] = json.RawMessage(fmt.Sprintf(`{"dtype":"I64","shape":[1,2],"data_offsets":[%d,%d]}`, end, end+16))
	text, err := json.Marshal(header)
	must(t, err)
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	whole := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	must(t, os.WriteFile(path, append(append(whole, data[8+n:]...), make([]byte, 16)...), 0o600))
	c := fixture(t, "bert")
	c.Model, c.Objective.Type, c.Steps, c.Warmup = dir, "mlm", 1, 0
	res, err := Run(t.Context(), c, Options{Backend: cpuBackend(t, 1)})
	must(t, err)
	st, err := weights.Open(res.Checkpoint)
	must(t, err)
	defer func() { must(t, st.Close()) }()
	if _, err := model.Open(st); err != nil || slices.Contains(st.Names(), "embeddings.position_ids") {
		t.Errorf("%v, tensors %v", err, st.Names())
	}
}

// A model that was trained for vectors says how they are pooled, in the words of
// sentence-transformers and of GGUF, and resumes as it was.
func TestEmbeddersSayTheirPooling(t *testing.T) {
	pairs := write(t, t.TempDir(), "a.jsonl", strings.Repeat("{\"a\":\"one\",\"b\":\"two\"}\n{\"a\":\"three\",\"b\":\"four\"}\n", 5))
	for _, c := range []struct {
		model, objective, file, want string
	}{
		{"llama", "contrastive", "1_Pooling/config.json", "pooling_mode_lasttoken"},
		{`{"architecture":"bert","d_model":32,"n_layers":1,"n_heads":2,"vocab":100,"context":64,"tokenizer":"wordpiece"}`, "contrastive", "1_Pooling/config.json", "pooling_mode_mean_tokens"},
		{"gguf/llama-f16.gguf", "contrastive", "model.gguf", "llama.pooling_type"},
		{"llama", "lm", "1_Pooling/config.json", ""},
		{"gguf/llama-f16.gguf", "lm", "model.gguf", ""},
	} {
		t.Run(strings.ReplaceAll(c.model, "/", "-")+" "+c.objective, func(t *testing.T) {
			data := pairs
			if c.objective == "lm" {
				data = testmodels.Dir(t, "shakespeare.txt")
			}
			name, _ := json.Marshal(testmodels.Dir(t, "llama"))
			if strings.HasPrefix(c.model, "{") {
				name = []byte(c.model)
			} else if c.model != "llama" {
				name, _ = json.Marshal(testmodels.Dir(t, c.model))
			}
			cfg, err := ParseConfig("c.json", fmt.Appendf(nil, `{"model":%s,"data":%q,"out":%q,"objective":%q,"steps":2,"batch_tokens":64,"seq_len":16}`, name, data, t.TempDir(), c.objective), nil)
			must(t, err)
			be := cpuBackend(t, 1)
			var whole, parts losses
			res, err := Run(t.Context(), cfg, Options{Backend: be, OnStep: whole.add})
			must(t, err)
			text, err := os.ReadFile(filepath.Join(res.Checkpoint, c.file))
			if c.want == "" {
				if err == nil && strings.Contains(string(text), "pooling") {
					t.Errorf("%s has a pooling", c.file)
				}
				return
			}
			must(t, err)
			if !strings.Contains(string(text), c.want) {
				t.Errorf("%s has no %s", c.file, c.want)
			}
			cfg.Out = t.TempDir()
			stop := errors.New("stop")
			_, err = Run(t.Context(), cfg, Options{Backend: be, OnStep: func(s Step) error { must(t, parts.add(s)); return stop }})
			if !errors.Is(err, stop) {
				t.Fatal(err)
			}
			_, err = Run(t.Context(), cfg, Options{Backend: be, Resume: "auto", OnStep: parts.add})
			must(t, err)
			if !slices.Equal(whole, parts) {
				t.Errorf("resumed\n%v, in one run\n%v", parts, whole)
			}
		})
	}
}

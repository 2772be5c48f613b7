package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/format/gguf"
	"hotpath/internal/testmodels"
)

// inspected runs inspect, which has to describe the model even if it cannot run.
func inspected(t *testing.T, path string) inspection {
	t.Helper()
	var in inspection
	if err := json.Unmarshal([]byte(ok(t, "inspect", path, "--format", "json")), &in); err != nil {
		t.Fatal(err)
	}
	if out := ok(t, "inspect", path); in.Unsupported != "" && !strings.Contains(out, "cannot run     "+in.Unsupported) {
		t.Errorf("the text does not say why it cannot run:\n%s", out)
	}
	return in
}

func TestInspectUnknownTokenizer(t *testing.T) {
	for _, name := range []string{"embeddinggemma", "gguf/embeddinggemma-f16"} {
		in := inspected(t, testmodels.Dir(t, name))
		if len(in.Tensors) != 93 || len(in.Metadata) == 0 {
			t.Errorf("%s: %d tensors and %d entries of metadata", name, len(in.Tensors), len(in.Metadata))
		}
		if in.Unsupported != "" {
			t.Errorf("%s: inspect says %q", name, in.Unsupported)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(testmodels.Dir(t, "llama"))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ part, want string }{
		{`"normalizer":{"type":"Magic"}`, `normalizer.type: is "Magic"`},
		{`"pre_tokenizer":{"type":"Magic"}`, `pre_tokenizer.type: is "Magic"`},
		{`"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a)\\1"},"behavior":"Isolated"}`, `pre_tokenizer.pattern: regular expression`},
	} {
		file := filepath.Join(dir, "tokenizer.json")
		if err := os.WriteFile(file, []byte(`{`+c.part+`,"model":{"type":"BPE","vocab":{},"merges":[]}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		in := inspected(t, dir)
		if len(in.Tensors) == 0 || !strings.HasPrefix(in.Unsupported, file+": ") || !strings.Contains(in.Unsupported, c.want) {
			t.Errorf("%s: %d tensors, unsupported is %q, expected %q", c.part, len(in.Tensors), in.Unsupported, c.want)
		}
	}
}

// Tensors in an encoding of tomorrow are named, with that encoding.
func TestInspectUnknownEncodings(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(testmodels.Dir(t, "bert"))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "model.safetensors")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(data)
	header := strings.TrimRight(string(data[8:8+n]), " ")
	size := len(data) - 8 - int(n)
	for i := range 10 {
		header = strings.TrimSuffix(header, "}") + fmt.Sprintf(`,"new.%d":{"dtype":"F4_E2M1","shape":[4,%d],"data_offsets":[%d,%d]}}`, i, 4+i, size, size)
	}
	data = append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data[8+n:]...)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	in := inspected(t, dir)
	var unread []tensorInfo
	for _, tensor := range in.Tensors {
		if tensor.Unread {
			unread = append(unread, tensor)
		}
	}
	if len(unread) != 10 || unread[3].Name != "new.3" || unread[3].Type != "F4_E2M1" || !slices.Equal(unread[3].Dims, []int{4, 7}) {
		t.Errorf("not read: %+v", unread)
	}
	out := ok(t, "inspect", dir)
	for _, row := range []string{"  F4_E2M1      10, ", "  not read     new.0, F4_E2M1 [4 4]\n", "  not read     new.7, ", "… 10 in all"} {
		if !strings.Contains(out, row) {
			t.Errorf("%q is missing:\n%s", row, out)
		}
	}
	// GGUF numbers its encodings.
	path := testmodels.Dir(t, "gguf/llama-q8_0.gguf")
	if data, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	const name = "blk.0.attn_q.weight"
	at := bytes.Index(data, []byte(name)) + len(name) + 4 + 16
	binary.LittleEndian.PutUint32(data[at:], 199)
	path = write(t, "new.gguf", string(data))
	if in := inspected(t, path); !strings.Contains(in.Unsupported, name) || !strings.Contains(in.Unsupported, "199") {
		t.Errorf("%q", in.Unsupported)
	}
	if out := ok(t, "inspect", path); !strings.Contains(out, "  not read     "+name+", GGMLType(199) [") {
		t.Errorf("the tensor is not named:\n%s", out)
	}
}

// A file of a vocabulary alone says what it is and what it is good for.
func TestInspectVocabulary(t *testing.T) {
	whole, err := os.ReadFile(testmodels.Dir(t, "gguf/llama-q8_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse("whole", whole)
	if err != nil {
		t.Fatal(err)
	}
	var w gguf.Writer
	for _, key := range f.Keys() {
		v, _ := f.Value(key)
		if err := w.SetValue(key, v); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	path := write(t, "vocab.gguf", b.String())
	in := inspected(t, path)
	tokens, _ := f.Value("tokenizer.ggml.tokens")
	if v := in.Vocabulary; v == nil || v.Tokens != tokens.Len() || v.Kind != "gpt2" || v.Unsupported != "" || in.Arch != "llama" || len(in.Metadata) != len(f.Keys()) {
		t.Errorf("%+v, %+v", in.Vocabulary, in.Arch)
	}
	out := ok(t, "inspect", path)
	for _, row := range []string{"architecture   llama\n", "tokenizer      gpt2", "for            tokenize\n", "cannot run     " + path + ": it holds no weights\n"} {
		if !strings.Contains(out, row) {
			t.Errorf("%q is missing:\n%s", row, out)
		}
	}
}

// TestInspectCalibration: classes are shown, and what they do to vectors once
// somebody asked.
func TestInspectCalibration(t *testing.T) {
	t.Setenv("HOTPATH_CACHE", t.TempDir())
	t.Setenv("HOTPATH_CALIBRATION", "")
	path := testmodels.Dir(t, "gguf/bert-q8_0.gguf")
	in := inspected(t, path)
	if c := in.Config.Compute; c == nil || c.Precision != "auto" || len(c.Classes) < 6 || c.Calibration != nil {
		t.Fatalf("%+v", c)
	}
	if out := ok(t, "inspect", path); !strings.Contains(out, "Q8_0 of q k v o up down") || !strings.Contains(out, "not measured") {
		t.Errorf("inspect says\n%s", out)
	}
	out := ok(t, "inspect", path, "--calibrate")
	if !strings.Contains(out, "  error        i8g32: cosine 0.9") || !strings.Contains(out, "; taken") {
		t.Errorf("inspect --calibrate says\n%s", out)
	}
	if c := inspected(t, path).Config.Compute.Calibration; c == nil || c.Texts == 0 || len(c.Classes) != 2 {
		t.Errorf("afterwards %+v", c)
	}
}

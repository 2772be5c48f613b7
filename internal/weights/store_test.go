package weights

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/format/gguf"
	"hotpath/internal/format/safetensors"
	"hotpath/internal/tensor"
)

// ramp is 0, 1, 2... as bytes of an encoding.
func ramp(t testing.TB, d tensor.DType, n int) []byte {
	t.Helper()
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i)
	}
	b := make([]byte, d.RowBytes(n))
	if err := tensor.Quantize(b, d, x); err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func ggufBytes(t testing.TB, keys map[string]any) []byte {
	t.Helper()
	var w gguf.Writer
	for k, v := range keys {
		if err := w.Set(k, v); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []tensor.DType{tensor.F32, tensor.Q8_0} {
		if err := w.Add(d.String(), d, []int{4, 64}, ramp(t, d, 256)); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tensorsFile is a safetensors file with matrices of [4, 64].
func tensorsFile(t testing.TB, names ...string) []byte {
	t.Helper()
	var w safetensors.Writer
	for _, name := range names {
		if err := w.Add(name, tensor.BF16, []int{4, 64}, ramp(t, tensor.BF16, 256)); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func checkRamp(t *testing.T, s *Store, name string) {
	t.Helper()
	x, err := s.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	v, err := x.F32()
	if err != nil || len(v) != 256 || !slices.Equal(x.Dims, []int{4, 64}) {
		t.Fatalf("%s: %v, %v", name, x.Dims, err)
	}
	for i := range v {
		if math.Abs(float64(v[i])-float64(i)) > 1.01 { // Q8_0 and BF16 round
			t.Fatalf("%s: element %d is %g", name, i, v[i])
		}
	}
}

func TestOpenGGUF(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	write(t, path, ggufBytes(t, map[string]any{"general.architecture": "llama"}))
	s := open(t, path)
	if s.Path() != path || s.Format() != GGUF || s.HF() != nil || !slices.Equal(s.Names(), []string{"F32", "Q8_0"}) {
		t.Errorf("%s %s %v", s.Path(), s.Format(), s.Names())
	}
	if arch, err := s.GGUF().NeedString("general.architecture"); arch != "llama" || err != nil {
		t.Error(arch, err)
	}
	for _, name := range s.Names() {
		checkRamp(t, s, name)
	}
	if _, err := s.Get("absent"); !errors.Is(err, ErrNoTensor) || !strings.Contains(err.Error(), `"absent"`) || s.Has("absent") {
		t.Errorf("absent: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Get("F32"); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// hfDir writes a sentence-transformers model with one dense module.
func hfDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"config.json":                       []byte(`{"model_type":"bert","hidden_size":64,"rope_scaling":null}`),
		"generation_config.json":            []byte(`{"eos_token_id":[1,2]}`),
		"tokenizer.json":                    []byte(`{}`),
		"tokenizer_config.json":             []byte(`{"do_lower_case":true}`),
		"special_tokens_map.json":           []byte(`{}`),
		"sentence_bert_config.json":         []byte(`{"max_seq_length":256}`),
		"config_sentence_transformers.json": []byte(`{"prompts":{"query":"q: "}}`),
		"modules.json": []byte(`[{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},
			{"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"},
			{"idx":2,"name":"2","path":"2_Dense","type":"sentence_transformers.models.Dense"},
			{"idx":3,"name":"3","path":"3_Normalize","type":"sentence_transformers.models.Normalize"}]`),
		"1_Pooling/config.json":     []byte(`{"pooling_mode_mean_tokens":true}`),
		"2_Dense/config.json":       []byte(`{"in_features":64}`),
		"2_Dense/model.safetensors": tensorsFile(t, "linear.weight"),
		"model.safetensors":         tensorsFile(t, "a", "b"),
	} {
		write(t, filepath.Join(dir, name), data)
	}
	return dir
}

func TestOpenHuggingFace(t *testing.T) {
	s := open(t, hfDir(t))
	if want := []string{"2_Dense/linear.weight", "a", "b"}; s.Format() != HuggingFace || s.GGUF() != nil || !slices.Equal(s.Names(), want) {
		t.Fatalf("%s %v", s.Format(), s.Names())
	}
	for _, name := range s.Names() {
		checkRamp(t, s, name)
	}
	h := s.HF()
	for what, ok := range map[string]bool{
		"config":     must(h.Config.Int("hidden_size")) == 64,
		"generation": slices.Equal(must(h.Generation.IDs("eos_token_id")), []int{1, 2}),
		"tokenizer":  string(h.TokenizerJSON) == "{}" && must(h.TokenizerConfig.BoolOr("do_lower_case", false)),
		"special":    h.SpecialTokens != nil,
		"length":     must(h.SentenceBert.Int("max_seq_length")) == 256,
		"prompts":    must(must(h.Sentence.Object("prompts")).String("query")) == "q: ",
		"pooling":    must(h.Pooling().BoolOr("pooling_mode_mean_tokens", false)),
		"dense":      must(h.Modules[2].Config.Int("in_features")) == 64,
		"normalize":  h.Modules[3].Kind() == "Normalize" && h.Modules[3].Config == nil,
		"no file":    must(h.Read("vocab.txt")) == nil,
	} {
		if !ok {
			t.Errorf("%s is wrong", what)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestOpenRefuses(t *testing.T) {
	dir := func(files map[string]string) string {
		d := t.TempDir()
		for name, data := range files {
			write(t, filepath.Join(d, name), []byte(data))
		}
		return d
	}
	file := func(data string) string { return filepath.Join(dir(map[string]string{"m.gguf": data}), "m.gguf") }
	tensors := string(tensorsFile(t, "a"))
	for name, c := range map[string]struct {
		path string
		is   error
		says string
	}{
		"nothing there": {filepath.Join(t.TempDir(), "x"), ErrNotModel, "no such file"},
		"empty dir":     {dir(nil), ErrNotModel, "has no config.json"},
		"dir of GGUF":   {dir(map[string]string{"m.gguf": "GGUF"}), ErrNotModel, "holds m.gguf: name that file"},
		"checkpoint":    {dir(map[string]string{"model.gguf": "x"}), ErrNotModel, "model.gguf: "},
		"pickle":        {dir(map[string]string{"config.json": "{}", "pytorch_model.bin": "x"}), ErrNotModel, "save the model as safetensors"},
		"no weights":    {dir(map[string]string{"config.json": "{}"}), ErrNotModel, "no model.safetensors and"},
		"other file":    {file("hello, world"), ErrNotModel, "expected a GGUF file or the directory"},
		"empty file":    {file(""), ErrTruncated, "the file is empty"},
		"short file":    {file("GG"), ErrTruncated, "GGUF header"},
		"part":          {file(string(ggufBytes(t, map[string]any{"split.count": uint16(3)}))), ErrInvalid, "expected a name that ends in -00001-of-00003.gguf"},
		"onnx":          {dir(map[string]string{"config.json": "{}", "onnx/model.onnx": "x"}), ErrNotModel, "model.onnx is ONNX"},
		"adapter":       {dir(map[string]string{"adapter_model.safetensors": tensors}), ErrNotModel, "is an adapter"},
		"config":        {dir(map[string]string{"config.json": "[]", "model.safetensors": tensors}), ErrInvalid, "config.json: expected a JSON object"},
		"tokenizer":     {dir(map[string]string{"config.json": "{}", "tokenizer_config.json": "x", "model.safetensors": tensors}), ErrInvalid, "tokenizer_config.json"},
		"weights":       {dir(map[string]string{"config.json": "{}", "model.safetensors": tensors[:len(tensors)-1]}), ErrTruncated, "model.safetensors"},
		"modules":       {dir(map[string]string{"config.json": "{}", "modules.json": "{}"}), ErrInvalid, "modules.json: expected a list"},
		"module type":   {dir(map[string]string{"config.json": "{}", "modules.json": "[{}]"}), ErrInvalid, "module 0: field type: expected a string"},
		"module path":   {dir(map[string]string{"config.json": "{}", "modules.json": `[{"type":"x.Dense","path":"../.."}]`}), ErrInvalid, "expected a folder of the model"},
		"module file": {dir(map[string]string{"config.json": "{}", "model.safetensors": tensors, "modules.json": `[{"type":"x.Dense","path":"d"}]`}),
			os.ErrNotExist, "expected the weights of module d"},
		"config is a dir": {dir(map[string]string{"config.json/x": "{}"}), ErrInvalid, "expected a regular file"},
	} {
		s, err := Open(c.path)
		if s != nil || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, expected %q (%v)", name, err, c.says, c.is)
		}
	}
}

// Old files have headers of odd length: their data must still be readable in
// place of a fault, and odd shapes are refused.
func TestUnalignedAndOddTensors(t *testing.T) {
	header := `{"x":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},"s":{"dtype":"F32","shape":[],"data_offsets":[12,16]},` +
		`"e":{"dtype":"F32","shape":[0],"data_offsets":[16,16]},"five":{"dtype":"F32","shape":[1,1,1,1,1],"data_offsets":[16,20]}}`
	for len(header)%4 != 1 {
		header += " "
	}
	data := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	data = append(data, ramp(t, tensor.F32, 5)...)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "config.json"), []byte("{}"))
	write(t, filepath.Join(dir, "model.safetensors"), data)
	s := open(t, dir)
	x := must(s.Get("x"))
	if addressOf(x.Data)%4 != 0 || !slices.Equal(must(x.F32()), []float32{0, 1, 2}) {
		t.Errorf("%#x: %v", addressOf(x.Data), must(x.F32()))
	}
	s.Drop(x) // a copy: nothing to drop, nothing lost
	if y := must(s.Get("s")); !slices.Equal(y.Dims, []int{1}) || must(y.F32())[0] != 3 || must(x.F32())[2] != 2 {
		t.Error(y)
	}
	for _, name := range []string{"e", "five"} {
		if _, err := s.Get(name); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What was dropped comes back from the file.
func TestDrop(t *testing.T) {
	var w gguf.Writer
	const rows = 64
	if err := w.Add("w", tensor.F32, []int{rows, 1024}, ramp(t, tensor.F32, rows*1024)); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	write(t, path, b.Bytes())
	s := open(t, path)
	x := must(s.Get("w"))
	part := must(x.Rows(3, 40))
	for _, y := range []Tensor{x, part, {}} {
		s.Drop(y)
		if v := must(x.F32()); v[rows*1024-1] != rows*1024-1 || v[4096] != 4096 {
			t.Fatal("values changed")
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.Drop(x)
}

func TestTensorViews(t *testing.T) {
	for _, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.Q8_0} {
		x := Tensor{Name: "x", DType: d, Dims: []int{4, 2, 32}, Data: ramp(t, d, 256)}
		all := must(x.F32())
		y := must(x.Rows(1, 3))
		if !slices.Equal(y.Dims, []int{2, 2, 32}) || !slices.Equal(must(y.F32()), all[64:192]) || x.Dims[0] != 4 {
			t.Errorf("%s: %v", d, y.Dims)
		}
		for _, r := range [][2]int{{-1, 2}, {2, 2}, {3, 2}, {0, 5}} {
			if _, err := x.Rows(r[0], r[1]); err == nil {
				t.Errorf("%s: rows %v were accepted", d, r)
			}
		}
	}
	vector := Tensor{Name: "v", DType: tensor.Q8_0, Dims: []int{64}, Data: ramp(t, tensor.Q8_0, 64)}
	if _, err := vector.Rows(0, 40); err == nil {
		t.Error("part of a block was accepted")
	}
	if y := must(vector.Rows(32, 64)); len(y.Data) != 34 {
		t.Error(len(y.Data))
	}
	if _, err := (Tensor{Name: "i", DType: tensor.I32, Dims: []int{1}, Data: make([]byte, 4)}).F32(); !errors.Is(err, tensor.ErrNoCodec) {
		t.Error(err)
	}
}

func TestTranspose(t *testing.T) {
	for _, d := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
		for _, dims := range [][]int{{1, 5}, {37, 3}, {33, 65}} {
			x := Tensor{Name: "x", DType: d, Dims: dims, Data: ramp(t, d, dims[0]*dims[1])}
			y := must(x.Transpose())
			a, b := must(x.F32()), must(y.F32())
			if !slices.Equal(y.Dims, []int{dims[1], dims[0]}) {
				t.Fatal(y.Dims)
			}
			for r := range dims[0] {
				for c := range dims[1] {
					if a[r*dims[1]+c] != b[c*dims[0]+r] {
						t.Fatalf("%s %v: [%d,%d] differs", d, dims, r, c)
					}
				}
			}
		}
	}
	for _, x := range []Tensor{
		{Name: "q", DType: tensor.Q8_0, Dims: []int{1, 32}, Data: make([]byte, 34)},
		{Name: "v", DType: tensor.F32, Dims: []int{4}, Data: make([]byte, 16)},
	} {
		if _, err := x.Transpose(); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", x.Name, err)
		}
	}
}

func ExampleConfig() {
	c, _ := ParseConfig("config.json", []byte(`{"hidden_size":"abc"}`))
	_, err := c.Int("hidden_size")
	fmt.Println(err)
	// Output: config.json: field hidden_size: expected a positive integer, found "abc": invalid file
}

// A clone without Git LFS has pointers in place of large files.
func TestPointersOfGitLFS(t *testing.T) {
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 90868376\n"
	file := filepath.Join(t.TempDir(), "model.gguf")
	paths := []string{file}
	for name, files := range map[string]map[string]string{
		"weights":   {"config.json": "{}", "model.safetensors": pointer},
		"tokenizer": {"config.json": "{}", "tokenizer.json": pointer},
	} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		paths = append(paths, dir)
	}
	if err := os.WriteFile(file, []byte(pointer), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		st, err := Open(path)
		if err == nil {
			t.Errorf("%s opens: %v", path, st.Close())
		} else if !errors.Is(err, ErrNotModel) || !strings.Contains(err.Error(), "git lfs pull") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

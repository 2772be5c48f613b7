package pull

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func listed(names ...string) []remote {
	var out []remote
	for _, name := range names {
		out = append(out, remote{path: name, size: 10})
	}
	return out
}

func TestChoose(t *testing.T) {
	quants := []string{"README.md", "config.json", "m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "m.Q8_0.gguf", "mmproj-f16.gguf", "m.imatrix.gguf",
		"BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf"}
	dir := []string{"config.json", "model.safetensors", "tokenizer.json", "tokenizer.model", "merges.txt", "chat_template.jinja", "1_Pooling/config.json",
		"0_StaticEmbedding/model.safetensors", "README.md", "pytorch_model.bin", "pytorch_model.bin.index.json", "original/params.json", "model.fp16.safetensors",
		"consolidated.safetensors", "consolidated.00.pth", "flax_model.msgpack", "tf_model.h5", "onnx/model.onnx", "openvino/config.json", ".gitattributes"}
	shards := []string{"config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "consolidated.safetensors"}
	for _, c := range []struct {
		ref   string
		files []string
		want  string // files joined, or words of the error
		opens string
	}{
		{"o/m", dir, "config.json model.safetensors tokenizer.json tokenizer.model merges.txt chat_template.jinja 1_Pooling/config.json 0_StaticEmbedding/model.safetensors", ""},
		{"o/m", shards, strings.Join(shards[:4], " "), ""},
		{"o/m", append(slices.Clone(shards), "model.safetensors"), "config.json model.safetensors", ""},
		{"o/m", []string{"a.gguf", "README.md", "mmproj-a.gguf"}, "a.gguf", "a.gguf"},
		{"o/m", quants, "several models fit: o/m:BF16/m-BF16-00001-of-00002.gguf, o/m:m-Q4_K_M.gguf, o/m:m-Q4_K_S.gguf, o/m:m.Q8_0.gguf", ""},
		{"o/m:Q4_K_M", quants, "m-Q4_K_M.gguf", "m-Q4_K_M.gguf"},
		{"o/m:q4_k_m", quants, "m-Q4_K_M.gguf", "m-Q4_K_M.gguf"},
		{"o/m:Q4_K", quants, `no file is "Q4_K": o/m:Q4_K: several models fit`, ""},
		{"o/m:Q8_0", quants, "m.Q8_0.gguf", "m.Q8_0.gguf"},
		{"o/m:m.Q8_0.gguf", quants, "m.Q8_0.gguf", "m.Q8_0.gguf"},
		{"o/m/m.Q8_0.gguf", quants, "m.Q8_0.gguf", "m.Q8_0.gguf"},
		{"o/m:bf16", quants, "BF16/m-BF16-00001-of-00002.gguf BF16/m-BF16-00002-of-00002.gguf", "BF16/m-BF16-00001-of-00002.gguf"},
		{"o/m/BF16/m-BF16-00002-of-00002.gguf", quants, "BF16/m-BF16-00001-of-00002.gguf BF16/m-BF16-00002-of-00002.gguf", "BF16/m-BF16-00001-of-00002.gguf"},
		{"o/m:mmproj-f16.gguf", quants, "mmproj-f16.gguf", "mmproj-f16.gguf"},
		{"o/m:m", []string{"m-Q4_0.gguf", "m-Q8_0.gguf"}, "several models fit: o/m:m-Q4_0.gguf, o/m:m-Q8_0.gguf", ""},
		{"o/m:Q9", dir, `no file "Q9": not found`, ""},
		{"o/m", []string{"config.json", "pytorch_model.bin"}, "no weights that hotpath reads", ""},
	} {
		got, err := choose(mustRef(t, c.ref), listed(c.files...))
		var names []string
		for _, f := range got.files {
			names = append(names, f.path)
		}
		text := strings.Join(names, " ")
		if err != nil {
			text = err.Error()
		}
		if err == nil && text != c.want || err != nil && !strings.Contains(text, c.want) || got.opens != c.opens {
			t.Errorf("%s of %d files: %s, opens %q, expected %s", c.ref, len(c.files), text, got.opens, c.want)
		}
	}
	_, err := choose(mustRef(t, "o/m"), listed(quants...))
	var choices *ChoiceError
	if !errors.As(err, &choices) || !errors.Is(err, ErrChoice) || choices.Choices[0].Size != 20 {
		t.Errorf("%v", err)
	}
}

func TestParseRef(t *testing.T) {
	for text, want := range map[string]Ref{
		"gpt2":                      {Repo: "gpt2"},
		"org/na.me-1_2":             {Repo: "org/na.me-1_2"},
		"org/m@v1":                  {Repo: "org/m", Revision: "v1"},
		"org/m@refs/pr/1":           {Repo: "org/m", Revision: "refs/pr/1"},
		"org/m:Q4_K_M":              {Repo: "org/m", Select: "Q4_K_M"},
		"org/m@v1:Q4_K_M":           {Repo: "org/m", Revision: "v1", Select: "Q4_K_M"},
		"org/m/a/b.gguf":            {Repo: "org/m", Select: "a/b.gguf"},
		"hf:org/m":                  {Repo: "org/m"},
		DefaultEndpoint + "/org/m/": {Repo: "org/m"},
		"hf.co/org/m:Q8_0":          {Repo: "org/m", Select: "Q8_0"},
		"pip:A_b.C":                 {Package: true, Repo: "a-b-c"},
		"pip:x==1.0.post1":          {Package: true, Repo: "x", Revision: "1.0.post1"},
		"pip:x==1.0:dir/model":      {Package: true, Repo: "x", Revision: "1.0", Select: "dir/model"},
	} {
		got, err := ParseRef(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v (%v), expected %+v", text, got, err, want)
		}
		if again, err := ParseRef(got.String()); err != nil || again != got {
			t.Errorf("%s: written as %s, read as %+v (%v)", text, got, again, err)
		}
	}
	for _, text := range []string{"", "/", "a/", "/a", "../a", "a/..", "a/../b", "a/b/../c", "a b", "a/b@", "a/b@../x", "a/b:/x", "a/b:../x", "a/b@x:y:z/",
		"a--b/c", "pip:", "pip:-x", "pip:x==", "pip:x==a b", "pip:x==1:../..", "a\\b", "a/b/c:d", "-a", "https://example.com/a/b"} {
		if r, err := ParseRef(text); !errors.Is(err, ErrName) {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	}
}

// FuzzRef: what is taken as a name stays within its folder and reads back as
// itself.
func FuzzRef(f *testing.F) {
	for _, seed := range []string{"org/name@main:Q4_K_M", "pip:a==1.0:b", "hf:a/b/c.gguf", "../..", "a/b@refs/pr/1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRef(text)
		if err != nil {
			if !errors.Is(err, ErrName) {
				t.Fatal(err)
			}
			return
		}
		for _, part := range []string{r.Repo, r.Revision, r.Select} {
			if strings.HasPrefix(part, "/") || slices.Contains(strings.Split(part, "/"), "..") || strings.ContainsAny(part, "\\\x00") {
				t.Fatalf("%q: %+v", text, r)
			}
		}
		if again, err := ParseRef(r.String()); err != nil || again != r {
			t.Fatalf("%q: %+v, written as %q, read as %+v (%v)", text, r, r, again, err)
		}
	})
}

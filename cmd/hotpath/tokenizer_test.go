package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hotpath/internal/testmodels"
)

// A tokenizer that was trained is opened by tokenize, and texts come back.
func TestTokenizerTrain(t *testing.T) {
	corpus := testmodels.Dir(t, "shakespeare.txt")
	for _, kind := range []string{"bpe", "wordpiece", "char"} {
		dir := filepath.Join(t.TempDir(), "tok")
		out := ok(t, "tokenizer", "train", corpus, "-o", dir, "--type", kind, "--vocab-size", "350", "--format", "json")
		var report struct {
			Path                         string
			Tokens, Merges, Words, Bytes int
		}
		if err := json.Unmarshal([]byte(out), &report); err != nil || report.Path != dir || report.Tokens == 0 || report.Tokens > 350 || report.Words == 0 {
			t.Errorf("%s: report %s, error %v", kind, out, err)
		}
		ids := ok(t, "tokenize", "-m", dir, "the king", "--special=false")
		back := strings.TrimSpace(ok(t, "tokenize", "-m", dir, "--decode", strings.TrimSpace(ids)))
		if back != "the king" {
			t.Errorf("%s: %q came back as %q", kind, "the king", back)
		}
	}
}

func TestTokenizerTrainRefuses(t *testing.T) {
	dir := t.TempDir()
	text := write(t, "a.txt", "some words")
	for want, args := range map[string][]string{
		"-o FOLDER is missing":               {text},
		"requires at least 1 arg":            {"-o", dir},
		"--limit-alphabet -5, expected":      {text, "-o", dir, "--limit-alphabet", "-5"},
		`type "unigram", expected one of`:    {text, "-o", dir, "--type", "unigram"},
		"--vocab-size 0, expected 1 or more": {text, "-o", dir, "--vocab-size", "0"},
		"vocab size 20, expected at least":   {text, "-o", dir, "--vocab-size", "20"},
	} {
		if r := hotpathWith(t, "", append([]string{"tokenizer", "train"}, args...)...); r.status != exitUsage || !strings.Contains(r.err, want) {
			t.Errorf("%v: status %d, %s, expected %q", args, r.status, r.err, want)
		}
	}
	bad := write(t, "bad.jsonl", "{\"text\":\"a\"}\n{\"text\":\n")
	r := hotpathWith(t, "", "tokenizer", "train", bad, "-o", filepath.Join(dir, "new"))
	if r.status != exitFailed || !strings.Contains(r.err, "bad.jsonl: line 2, column 9: not JSON") {
		t.Errorf("status %d, %s", r.status, r.err)
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("a folder was made although the texts were wrong")
	}
}

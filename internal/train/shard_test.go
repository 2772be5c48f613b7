package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/dataset"
	"hotpath/internal/model"
	"hotpath/internal/testmodels"
	"hotpath/internal/tokenizer"
	"hotpath/internal/weights"
)

// bigCorpus writes texts of several blocks and kinds of line ends.
func bigCorpus(t testing.TB, dir string) {
	t.Helper()
	page, err := os.ReadFile(testmodels.Dir(t, "shakespeare.txt"))
	must(t, err)
	write(t, dir, "long.txt", strings.Repeat(string(page)+"\n", 1500))
	object, err := json.Marshal(map[string]string{"text": string(page)})
	must(t, err)
	write(t, dir, "many.jsonl", strings.Repeat(string(object)+"\n", 900))
	write(t, dir, "short.txt", "the end")
}

// Data are the same in memory and in shards of the cache, at any number of
// workers, and a text that is read in parts has the tokens that it has whole.
func TestShards(t *testing.T) {
	tok, vocab := fixtureTokenizer(t)
	dir, cache := t.TempDir(), t.TempDir()
	bigCorpus(t, dir)
	whole, err := opened(t, tok, vocab, sourceSpec{paths: []string{dir}, workers: 1, next: true, seqLen: 100})
	must(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "long.txt"))
	must(t, err)
	eos, _ := tok.EOS()
	want := append(tok.Encode(nil, string(text), tokenizer.Options{Special: true}, nil), eos)
	first := whole.(*texts).shards[0]
	if from, to := first.span(0); !slices.Equal(first.ids[from:to], want) {
		t.Errorf("a text in parts has %d tokens, whole %d", to-from, len(want))
	}
	var seen []string
	for _, workers := range []int{1, 3} {
		read := int64(0)
		spec := sourceSpec{paths: []string{dir}, workers: workers, next: true, seqLen: 100, cache: filepath.Join(cache, fmt.Sprint(workers)), shard: 9 << 20, progress: func(done, total int64) {
			if read = done; done > total {
				t.Errorf("%d of %d bytes", done, total)
			}
		}}
		s, err := opened(t, tok, vocab, spec)
		must(t, err)
		if s.Fingerprint() != whole.Fingerprint() || s.Stats() != whole.Stats() || read == 0 {
			t.Errorf("%d workers: %+v in shards, %+v in memory, %d bytes read", workers, s.Stats(), whole.Stats(), read)
		}
		var a, b Example
		for i := 0; i < s.Stats().Examples; i += 97 {
			must(t, s.Example(i, &a))
			must(t, whole.Example(i, &b))
			if !slices.Equal(a.Seqs[0].IDs, b.Seqs[0].IDs) {
				t.Fatalf("%d workers: example %d differs", workers, i)
			}
		}
		entries, err := filepath.Glob(filepath.Join(spec.cache, "*", "*"))
		must(t, err)
		for _, path := range entries {
			seen = append(seen, filepath.Base(path))
		}
	}
	if !slices.Contains(seen, indexFile) || !slices.Contains(seen, shardName(1)) {
		t.Errorf("the cache has %v", seen)
	}
}

// A document that is larger than a shard goes on in the next one, so that
// memory does not grow with it.
func TestDocumentOverShards(t *testing.T) {
	tok, vocab := fixtureTokenizer(t)
	dir, cache := t.TempDir(), t.TempDir()
	bigCorpus(t, dir)
	path := filepath.Join(dir, "long.txt")
	whole, err := opened(t, tok, vocab, sourceSpec{paths: []string{path}, next: true, seqLen: 100})
	must(t, err)
	s, err := opened(t, tok, vocab, sourceSpec{paths: []string{path}, next: true, seqLen: 100, cache: cache, shard: 1 << 20})
	must(t, err)
	var ids []int32
	shards := s.(*texts).shards
	for _, part := range shards {
		ids = append(ids, part.ids...)
	}
	if len(shards) < 2 || !slices.Equal(ids, whole.(*texts).shards[0].ids) || s.Fingerprint() != whole.Fingerprint() {
		t.Errorf("%d shards of %d tokens, expected several of the %d tokens of the text", len(shards), len(ids), whole.Stats().Tokens)
	}
	examplesOf(t, s)
}

// Texts are cut where lines begin and end with spaces, and where there is one
// line only, into parts with the tokens of the whole.
func TestCut(t *testing.T) {
	tok, vocab := fixtureTokenizer(t)
	page, err := os.ReadFile(testmodels.Dir(t, "shakespeare.txt"))
	must(t, err)
	for name, text := range map[string]string{
		"spaces":   strings.ReplaceAll(string(page), "\n", " \n "),
		"one line": strings.ReplaceAll(string(page), "\n", " "),
		"windows":  strings.ReplaceAll(string(page), "\n", "\r\n"),
	} {
		e := &encoder{ctx: t.Context(), spec: &sourceSpec{tok: tok, vocab: vocab}}
		n := e.cut([]byte(text))
		encode := func(s string) []int32 { return tok.Encode(nil, s, tokenizer.Options{}, nil) }
		if n == 0 || !slices.Equal(append(encode(text[:n]), encode(text[n:])...), encode(text)) {
			t.Errorf("%s: cut at %d of %d", name, n, len(text))
		}
	}
}

// Shards are made once: the second time files are not read. Another file, or
// another time of it, makes others.
func TestCacheIsUsed(t *testing.T) {
	tok, vocab := fixtureTokenizer(t)
	dir, cache := t.TempDir(), t.TempDir()
	path := write(t, dir, "a.txt", "some text\nof two lines")
	calls := 0
	spec := sourceSpec{paths: []string{path}, cache: cache, tokPrint: func() (string, error) { calls++; return "t", nil }}
	s, err := opened(t, tok, vocab, spec)
	must(t, err)
	folders := func() int {
		list, err := filepath.Glob(filepath.Join(cache, "*", indexFile))
		must(t, err)
		return len(list)
	}
	info, err := os.Stat(path)
	must(t, err)
	must(t, os.WriteFile(path, []byte("same size\nof two lines"), 0o666))
	must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	again, err := opened(t, tok, vocab, spec)
	must(t, err)
	if again.Fingerprint() != s.Fingerprint() || folders() != 1 {
		t.Errorf("the cache was not used: %d folders", folders())
	}
	must(t, os.WriteFile(path, []byte("another text"), 0o666))
	other, err := opened(t, tok, vocab, spec)
	must(t, err)
	if other.Fingerprint() == s.Fingerprint() || folders() != 2 {
		t.Errorf("a changed file is taken from the cache: %d folders", folders())
	}
	left, err := filepath.Glob(filepath.Join(cache, ".tmp-*"))
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// An interrupted or failed build leaves nothing that is taken for data.
func TestCacheAfterFailure(t *testing.T) {
	tok, vocab := fixtureTokenizer(t)
	dir, cache := t.TempDir(), t.TempDir()
	path := write(t, dir, "a.jsonl", strings.Repeat("{\"text\":\"good\"}\n", 100)+"bad\n")
	spec := sourceSpec{paths: []string{path}, cache: cache}
	for range 2 {
		if _, err := opened(t, tok, vocab, spec); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "line 101, column 1") {
			t.Errorf("error %v", err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "*", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	// What a killed process left is made anew.
	files, err := dataset.Files(t.Context(), spec.paths)
	must(t, err)
	must(t, os.WriteFile(path, []byte("{\"text\":\"good\"}\n"), 0o666))
	spec.tok, spec.tokPrint, spec.kind, spec.vocab, spec.seqLen = tok, func() (string, error) { return "tokenizer", nil }, Text, vocab, 1<<20
	key, err := spec.key(files)
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(cache, tempPrefix+key), 0o777))
	must(t, os.WriteFile(filepath.Join(cache, tempPrefix+key, shardName(7)), []byte("half"), 0o666))
	s, err := opened(t, tok, vocab, spec)
	must(t, err)
	if s.Stats().Examples != 1 {
		t.Errorf("%+v", s.Stats())
	}
	// A damaged shard is an error that says what to do.
	shards, err := filepath.Glob(filepath.Join(cache, "*", shardName(0)))
	must(t, err)
	data, err := os.ReadFile(shards[0])
	must(t, err)
	must(t, os.WriteFile(shards[0], data[:len(data)-8], 0o666))
	if _, err := opened(t, tok, vocab, spec); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "remove the folder") {
		t.Errorf("error %v of a damaged shard", err)
	}
}

func TestShardFile(t *testing.T) {
	var s shard
	s.addChunk(&chunk{shard: shard{ids: []int32{1, 2, 3}, flags: []byte{0, 1, 2}, seqs: []int64{1, 3}, examples: []int64{2}, values: []float32{0.5}}})
	s.addChunk(&chunk{shard: shard{ids: []int32{4}, flags: []byte{1}, seqs: []int64{1}, examples: []int64{1}, values: []float32{2}}})
	var b bytes.Buffer
	must(t, s.write(&b))
	got, err := parseShard("f", aligned(b.Bytes()))
	must(t, err)
	if !slices.Equal(got.ids, s.ids) || !slices.Equal(got.seqs, []int64{1, 3, 4}) || !slices.Equal(got.examples, []int64{2, 3}) || !slices.Equal(got.values, s.values) || !bytes.Equal(got.flags, s.flags) {
		t.Errorf("%+v came back as %+v", s, got)
	}
}

// aligned is data at a multiple of 8 bytes.
func aligned(data []byte) []byte {
	words := make([]int64, len(data)/8+1)
	return append(bytesOf(words)[:0], data...)
}

func FuzzParseShard(f *testing.F) {
	var s shard
	s.addChunk(&chunk{shard: shard{ids: []int32{1, 2, 3}, flags: []byte{0, 1, 2}, seqs: []int64{1, 3}, examples: []int64{2}, values: []float32{0.5}}})
	var b bytes.Buffer
	_ = s.write(&b)
	f.Add(b.Bytes())
	f.Add([]byte(shardMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseShard("f", aligned(data))
		if err != nil {
			if !errors.Is(err, ErrData) {
				t.Errorf("error %v is no ErrData", err)
			}
			return
		}
		for _, kind := range []Kind{Text, Pairs, Answer} {
			if !s.suits(kind) {
				continue
			}
			src := newFileSource(&sourceSpec{kind: kind, vocab: 1000}, []*shard{s}, "")
			var all Source = src
			if kind == Text {
				all = newTexts(src, 2, true)
			}
			var e Example
			for i := range all.Stats().Examples {
				_ = all.Example(i, &e) // ids beyond the vocabulary are errors
			}
		}
	})
}

// TestPrintOfTokenizer: files beside tokenizer.json that change its tokens change the
// name of their cache.
func TestPrintOfTokenizer(t *testing.T) {
	seen := map[string]string{}
	for _, file := range []string{"", "tokenizer_config.json", "sentence_bert_config.json", "chat_template.json"} {
		dir := filepath.Join(t.TempDir(), "bert")
		must(t, os.CopyFS(dir, os.DirFS(testmodels.Dir(t, "bert"))))
		if file != "" {
			must(t, os.WriteFile(filepath.Join(dir, file), []byte(`{"do_lower_case":true,"chat_template":"x"}`), 0o600))
		}
		st, err := weights.Open(dir)
		must(t, err)
		m, err := model.Open(st)
		must(t, err)
		hash, err := tokenizerPrint(m)
		must(t, errors.Join(err, st.Close()))
		if with, ok := seen[hash]; ok {
			t.Errorf("the tokenizer with %q has the print of that with %q", file, with)
		}
		seen[hash] = file
	}
}

package learn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hotpath/internal/dataset"
	"hotpath/internal/tokenizer"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(text), 0o666))
	return path
}

// golden is what Hugging Face's trainers and tokenizers answer.
type golden struct {
	HeldOut []string
	Cases   []struct {
		Name    string
		Options Options
		Tokens  []string
		Merges  [][2]string
		IDs     [][]int32
	}
}

// Tokens, ids and merges are those of Hugging Face's trainers, and what is
// written gives the same ids for texts that were not learnt from.
func TestAgainstReference(t *testing.T) {
	data, err := os.ReadFile("testdata/cases.json")
	must(t, err)
	var g golden
	must(t, json.Unmarshal(data, &g))
	for _, c := range g.Cases {
		t.Run(c.Name, func(t *testing.T) {
			res, err := Train(t.Context(), []string{"testdata/corpus.txt"}, c.Options)
			must(t, err)
			if res.wordPiece() {
				got, want := slices.Sorted(slices.Values(res.Tokens)), slices.Sorted(slices.Values(c.Tokens))
				if !slices.Equal(got, want) {
					t.Errorf("%d tokens, expected %d: %q", len(got), len(want), differs(got, want))
				}
			} else {
				if !slices.Equal(res.Tokens, c.Tokens) {
					t.Errorf("%d tokens, expected %d: %q", len(res.Tokens), len(c.Tokens), differs(res.Tokens, c.Tokens))
				}
				for i, m := range res.Merges {
					if got := [2]string{res.Tokens[m[0]], res.Tokens[m[1]]}; i < len(c.Merges) && got != c.Merges[i] {
						t.Fatalf("merge %d is %q, expected %q", i, got, c.Merges[i])
					}
				}
				if len(res.Merges) != len(c.Merges) {
					t.Errorf("%d merges, expected %d", len(res.Merges), len(c.Merges))
				}
			}
			tok, err := tokenizer.FromJSON("tokenizer.json", res.JSON(), res.config())
			must(t, err)
			for i, ids := range c.IDs {
				if got := tok.Encode(nil, g.HeldOut[i], tokenizer.Options{}, nil); !slices.Equal(got, ids) {
					t.Errorf("%q: ids %v, expected %v", g.HeldOut[i], got, ids)
				}
			}
		})
	}
}

// differs is where two lists begin to differ.
func differs(got, want []string) [2]string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return [2]string{got[i], want[i]}
		}
	}
	return [2]string{}
}

// Neither workers nor the order of files change the result.
func TestSameAtAnyNumberOfWorkers(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("testdata/corpus.txt")
	must(t, err)
	big := bytes.Repeat(append(text, '\n'), 250) // several blocks
	must(t, os.WriteFile(filepath.Join(dir, "a.txt"), big, 0o666))
	object, err := json.Marshal(map[string]any{"text": string(text), "id": 3})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "b.jsonl"), bytes.Repeat(append(object, '\n'), 200), 0o666))
	var first []byte
	workers := []int{1, 2, 4, 7}
	if testing.Short() {
		workers = []int{1, 3}
	}
	for _, kind := range []string{"bpe", "wordpiece"} {
		first = nil
		for _, threads := range workers {
			for _, paths := range [][]string{{dir}, {filepath.Join(dir, "b.jsonl"), filepath.Join(dir, "a.txt")}} {
				var done, all int64
				res, err := Train(t.Context(), paths, Options{Kind: kind, VocabSize: 600, Threads: threads, Progress: func(s Stage, d, total int64) {
					if s == Counting {
						if d < done || d > total {
							t.Errorf("progress from %d to %d of %d", done, d, total)
						}
						done, all = d, total
					}
				}})
				must(t, err)
				if done != all {
					t.Errorf("progress ends at %d of %d", done, all)
				}
				if first == nil {
					first = res.JSON()
				} else if !bytes.Equal(res.JSON(), first) {
					t.Errorf("%s: %d workers on %v give another tokenizer", kind, threads, paths)
				}
			}
		}
	}
}

// A word of a million characters takes work in proportion to its pairs, and not
// a pass over it for each merge.
func TestLongWord(t *testing.T) {
	var b strings.Builder
	numbers := 200_000
	if testing.Short() {
		numbers = 20_000
	}
	for i := range numbers {
		fmt.Fprintf(&b, "%x", i*7919)
	}
	res, err := Train(t.Context(), []string{write(t, "long.txt", b.String())}, Options{VocabSize: 2000, Special: []string{}})
	must(t, err)
	if len(res.Tokens) != 2000 {
		t.Errorf("%d tokens, expected 2000", len(res.Tokens))
	}
}

// slowMerges is the definition: count all pairs, merge the best, again.
func slowMerges(words map[string]int64, alphabet []string, size int, floor int64) (merges [][2]string) {
	ids := map[string]int{}
	for i, s := range alphabet {
		ids[s] = i
	}
	split := map[string][]string{}
	for w := range words {
		for _, r := range w {
			split[w] = append(split[w], string(r))
		}
	}
	for len(ids) < size {
		counts := map[[2]string]int64{}
		for w, s := range split {
			for i := range len(s) - 1 {
				counts[[2]string{s[i], s[i+1]}] += words[w]
			}
		}
		var best [2]string
		for p, n := range counts {
			b := counts[best]
			if n > b || n == b && (ids[p[0]] < ids[best[0]] || ids[p[0]] == ids[best[0]] && ids[p[1]] < ids[best[1]]) {
				best = p
			}
		}
		if counts[best] < floor {
			break
		}
		merges = append(merges, best)
		if _, ok := ids[best[0]+best[1]]; !ok {
			ids[best[0]+best[1]] = len(ids)
		}
		for w, s := range split {
			var out []string
			for i := 0; i < len(s); i++ {
				if i+1 < len(s) && s[i] == best[0] && s[i+1] == best[1] {
					out = append(out, s[i]+s[i+1])
					i++
				} else {
					out = append(out, s[i])
				}
			}
			split[w] = out
		}
	}
	return merges
}

// checkMerges holds a result against the definition.
func checkMerges(t *testing.T, text string, size int, floor int) {
	t.Helper()
	words := map[string]int64{}
	seen := map[string]bool{}
	for _, w := range strings.Fields(text) {
		words[w]++
		for _, r := range w {
			seen[string(r)] = true
		}
	}
	var alphabet []string
	for s := range seen {
		alphabet = append(alphabet, s)
	}
	slices.SortFunc(alphabet, func(a, b string) int { return int([]rune(a)[0]) - int([]rune(b)[0]) })
	res, err := Train(t.Context(), []string{write(t, "w.txt", text)}, Options{
		PreTokenizer: "whitespace-split", VocabSize: max(size, len(alphabet)), MinFrequency: floor, Special: []string{}, Threads: 1,
	})
	if len(words) == 0 {
		if !errors.Is(err, dataset.ErrData) {
			t.Errorf("no words: %v", err)
		}
		return
	}
	must(t, err)
	want := slowMerges(words, alphabet, max(size, len(alphabet)), int64(floor))
	got := make([][2]string, len(res.Merges))
	for i, m := range res.Merges {
		got[i] = [2]string{res.Tokens[m[0]], res.Tokens[m[1]]}
	}
	if !slices.Equal(got, want) {
		t.Errorf("text %q: merges %q, expected %q", text, got, want)
	}
}

func TestAgainstDefinition(t *testing.T) {
	for _, text := range []string{
		"aaaa aaa aa a aaaaaaa aaaaaaaaaaaaa", "abab ababab ababa babab", "aabb abab baba aab abb aabaab",
		"abcabc abcab bcabc cabcab abc bca cab", "", "x", "xyxyxxyxyyx yxyxyxxyxy xxyy",
	} {
		for _, floor := range []int{1, 2, 3} {
			checkMerges(t, text, 40, floor)
		}
	}
}

// The vocabulary is the end of a text and the characters of the texts: a
// character of several bytes has its bytes and its beginnings besides, also where
// there is no room for the character. The texts come back; characters that they
// lack are dropped, as Hugging Face's library does (char in TestAgainstReference).
func TestCharacters(t *testing.T) {
	train := func(text string, size int) (*Result, *tokenizer.Tokenizer) {
		t.Helper()
		res, err := Train(t.Context(), []string{write(t, "d.txt", text)}, Options{Kind: "char", VocabSize: size})
		must(t, err)
		tok, err := tokenizer.FromJSON("tokenizer.json", res.JSON(), res.config())
		must(t, err)
		if eos, ok := tok.EOS(); !ok || eos != 0 {
			t.Errorf("end of a text is %d, %t", eos, ok)
		}
		if got := tok.Decode(tok.Encode(nil, text, tokenizer.Options{}, nil), false); got != text {
			t.Errorf("%q comes back as %q", text, got)
		}
		return res, tok
	}
	res, tok := train("hello, world\n", 0)
	if want := strings.Fields("<|endoftext|> , d e h l o r w \u010a \u0120"); !slices.Equal(res.Tokens, want) || len(res.Merges) != 0 {
		t.Errorf("tokens %q and %d merges, expected %q", res.Tokens, len(res.Merges), want)
	}
	ids := tok.Encode(nil, "Zhe\tw\u00f6r\u4f60\U0001F600ld?\x00", tokenizer.Options{}, nil)
	if got := tok.Decode(ids, false); got != "hewrld" {
		t.Errorf("a text with other characters comes back as %q, expected %q", got, "hewrld")
	}

	text := "To be, or not\nto be: na\u00efve \u4f60\u597d \u4f60 \U0001F600!"
	want := map[string]bool{"<|endoftext|>": true}
	for i := range len(text) {
		want[spelt(text[i:i+1])] = true
	}
	alphabet := len(want)
	for _, r := range text {
		for _, s := range beginnings(r) {
			want[spelt(s)] = true
		}
	}
	res, tok = train(text, 0)
	if got := uniq(res.Tokens); !maps.Equal(got, want) {
		t.Errorf("tokens %q, expected %q", res.Tokens, slices.Sorted(maps.Keys(want)))
	}
	if ids := tok.Encode(nil, text, tokenizer.Options{}, nil); len(ids) != len([]rune(text)) {
		t.Errorf("%d tokens for %d characters", len(ids), len([]rune(text)))
	}
	// Beside the alphabet there is room for the most frequent character of three
	// bytes, and for the one of two; another one needs two more.
	if res, _ := train(text, alphabet+2+1+1); len(res.Tokens) != alphabet+3 || len(res.Merges) != 3 {
		t.Errorf("%d tokens and %d merges, expected %d and 3", len(res.Tokens), len(res.Merges), alphabet+3)
	}
}

func FuzzTrain(f *testing.F) {
	f.Add([]byte("aaaa aaa\nabab abab"), uint8(1))
	f.Add([]byte("\xff\xfe \xed\xa0\x80 \x00\n\n\r\n"), uint8(0))
	f.Add([]byte("{\"text\":\"a b\"}\n{\"text\":1}"), uint8(2))
	f.Add([]byte("北京 北京市 [UNK] ##a ## #"), uint8(3))
	f.Add([]byte(strings.Repeat("z", 3000)), uint8(4))
	f.Add([]byte("\u00e9 \u4f60 \xff\r\n"), uint8(6))
	f.Add([]byte("{\"text\":\"a b\"}\n"), uint8(132))
	f.Fuzz(func(t *testing.T, data []byte, way uint8) {
		options := []Options{
			{}, {PreTokenizer: "llama3", MinFrequency: 1}, {PreTokenizer: "metaspace", LimitAlphabet: 3},
			{PreTokenizer: "whitespace", Special: []string{"[UNK]", "a", "ab"}}, {Kind: "wordpiece"}, {Kind: "wordpiece", Cased: true, LimitAlphabet: 2}, {Kind: "char"},
		}
		o := options[int(way)%len(options)]
		o.VocabSize, o.Threads = 700, 1+int(way)%3
		name := "f.txt"
		if way >= 128 {
			name = "f.jsonl"
		}
		res, err := Train(t.Context(), []string{write(t, name, string(data))}, o)
		if err != nil {
			if !errors.Is(err, dataset.ErrData) && !errors.Is(err, ErrOptions) {
				t.Errorf("error %v is neither ErrData nor ErrOptions", err)
			}
			return
		}
		if len(res.Tokens) > o.VocabSize || len(res.Tokens) != len(uniq(res.Tokens)) {
			t.Errorf("%d tokens, %d different ones, expected at most %d", len(res.Tokens), len(uniq(res.Tokens)), o.VocabSize)
		}
		tok, err := tokenizer.FromJSON("tokenizer.json", res.JSON(), res.config())
		must(t, err)
		for id, token := range res.Tokens {
			if got, ok := tok.ID(token); !ok || int(got) != id {
				t.Errorf("token %q has id %d, expected %d", token, got, id)
			}
		}
		if res.bytes && (o.Kind != "char" || name == "f.txt" && !bytes.HasPrefix(data, []byte("\ufeff"))) { // the characters of JSON and a BOM are no text
			ids := tok.Encode(nil, string(data), tokenizer.Options{}, nil)
			if got := tok.Decode(ids, false); got != strings.ToValidUTF8(string(data), "\ufffd") && bytes.Equal(data, bytes.ToValidUTF8(data, nil)) {
				t.Errorf("%q comes back as %q", data, got)
			}
		}
	})
}

func uniq(list []string) map[string]bool {
	m := map[string]bool{}
	for _, s := range list {
		m[s] = true
	}
	return m
}

// FuzzMerges holds merges against their definition.
func FuzzMerges(f *testing.F) {
	f.Add([]byte("aabababbaaab"), uint8(20), uint8(1))
	f.Add([]byte("aaaaaaaaaaaa aaa"), uint8(9), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, size, floor uint8) {
		text := make([]byte, min(len(data), 300)) // few letters make many ties
		for i := range text {
			text[i] = "abc "[data[i]%4]
		}
		checkMerges(t, string(text), 3+int(size), 1+int(floor%4))
	})
}

func TestWrongOptions(t *testing.T) {
	file := write(t, "a.txt", "some words, some more words")
	for want, o := range map[string]Options{
		`type "bbpe", expected one of bpe, char, wordpiece`:                             {Kind: "bbpe"},
		`pre-tokenizer "bert", expected one of gpt2`:                                    {PreTokenizer: "bert"},
		`vocab size 100, expected at least 257: special tokens, and an alphabet of 256`: {VocabSize: 100},
		`vocab size 5, expected at least 10: special tokens, and an alphabet of 9`:      {Kind: "char", VocabSize: 5},
		`vocab size -1`:                        {VocabSize: -1},
		`alphabet limit -5, expected`:          {LimitAlphabet: -5},
		`min frequency -1`:                     {MinFrequency: -1},
		`special token ""`:                     {Special: []string{""}},
		`special token "a", expected distinct`: {Special: []string{"a", "a"}},
		`expected [UNK] among them`:            {Kind: "wordpiece", Special: []string{"[PAD]"}},
	} {
		if _, err := Train(t.Context(), []string{file}, o); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected %q", err, want)
		}
	}
}

func TestWrongData(t *testing.T) {
	for want, path := range map[string]string{
		"no words":                               write(t, "empty.txt", ""),
		"no words, expected some text":           write(t, "blank.jsonl", "\n\n"),
		"bad.jsonl: line 2, column 10: not JSON": write(t, "bad.jsonl", "{\"text\":\"a\"}\n{\"text\": oops}\n"),
		"line 1, column 11: field \"text\": expected a string, found a number": write(t, "number.jsonl", ` {"text": 1}`),
		`line 3, column 1: expected an object with a string "text"`:            write(t, "other.jsonl", "\n\n{\"texts\":\"a\"}"),
		"expected an object, found an array":                                   write(t, "list.jsonl", `["a"]`),
		"no .txt and no .jsonl file in this directory":                         t.TempDir(),
	} {
		if _, err := Train(t.Context(), []string{path}, Options{}); !errors.Is(err, dataset.ErrData) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected %q", err, want)
		}
	}
	if _, err := Train(t.Context(), []string{filepath.Join(t.TempDir(), "missing.txt")}, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v of a file that is not there", err)
	}
}

// An interrupt ends the work in either stage.
func TestInterrupted(t *testing.T) {
	text, err := os.ReadFile("testdata/corpus.txt")
	must(t, err)
	file := write(t, "a.txt", strings.Repeat(string(text)+"\n", 200))
	stop := errors.New("stop")
	for _, at := range []Stage{Counting, Merging} {
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err := Train(ctx, []string{file}, Options{VocabSize: 600, Threads: 2, Progress: func(s Stage, _, _ int64) {
			if s == at {
				cancel(stop)
			}
		}})
		if !errors.Is(err, stop) {
			t.Errorf("%s: %v, expected the cause of the interrupt", at, err)
		}
	}
}

// Whatever tokenizer a folder had, it has the files of the new one only. Files
// that are not of a tokenizer stay.
func TestWriteOverAnotherTokenizer(t *testing.T) {
	train := func(kind string) *Result {
		res, err := Train(t.Context(), []string{"testdata/corpus.txt"}, Options{Kind: kind, VocabSize: 400})
		must(t, err)
		return res
	}
	bpe, wordPiece := train("bpe"), train("wordpiece")
	names := func(dir string) (out []string) {
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			out = append(out, e.Name())
		}
		return out
	}
	dir := t.TempDir()
	for _, c := range []struct {
		res  *Result
		want []string
	}{
		{wordPiece, []string{"tokenizer.json", "tokenizer_config.json", "vocab.txt"}},
		{bpe, []string{"tokenizer.json", "tokenizer_config.json"}},
		{bpe, []string{"tokenizer.json", "tokenizer_config.json"}},
		{wordPiece, []string{"tokenizer.json", "tokenizer_config.json", "vocab.txt"}},
	} {
		must(t, c.res.Write(dir))
		if got := names(dir); !slices.Equal(got, c.want) {
			t.Errorf("%s: the folder has %v, expected %v", c.res.options.Kind, got, c.want)
		}
	}
	own := t.TempDir()
	must(t, os.WriteFile(filepath.Join(own, "vocab.txt"), []byte("words of somebody\n"), 0o600))
	for _, beside := range []string{"nothing", "a tokenizer.json of BPE"} {
		must(t, bpe.Write(own))
		if !slices.Contains(names(own), "vocab.txt") {
			t.Errorf("a vocab.txt beside %s was deleted", beside)
		}
	}
}

func TestWrite(t *testing.T) {
	for kind, files := range map[string][]string{"bpe": {"tokenizer.json", "tokenizer_config.json"}, "wordpiece": {"tokenizer.json", "tokenizer_config.json", "vocab.txt"}} {
		res, err := Train(t.Context(), []string{"testdata/corpus.txt"}, Options{Kind: kind, VocabSize: 400})
		must(t, err)
		dir := filepath.Join(t.TempDir(), "new", "folder")
		must(t, res.Write(dir))
		entries, err := os.ReadDir(dir)
		must(t, err)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if !slices.Equal(names, files) {
			t.Errorf("%s: wrote %v, expected %v", kind, names, files)
		}
		if kind == "wordpiece" {
			text, err := os.ReadFile(filepath.Join(dir, "vocab.txt"))
			must(t, err)
			if got := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"); !slices.Equal(got, res.Tokens) {
				t.Errorf("vocab.txt has %d lines, expected the %d tokens by id", len(got), len(res.Tokens))
			}
		}
	}
}

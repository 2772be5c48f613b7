package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"hotpath/internal/format"
)

// bpeFile is a small tokenizer.json around a vocabulary and merges.
func bpeFile(vocab, merges, rest string) string {
	return `{"added_tokens":[],"pre_tokenizer":{"type":"ByteLevel"},"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":` + vocab + `,"merges":` + merges + `}` + rest + `}`
}

// hostile holds broken files and what their error must say.
var hostile = []struct{ name, file, want string }{
	{"empty", ``, "not a tokenizer.json"},
	{"not json", `[1`, "not a tokenizer.json"},
	{"no model", `{}`, "model: expected an object"},
	{"null model", `{"model":null}`, "model: expected an object"},
	{"unknown model", `{"model":{"type":"Magic"}}`, "expected one of BPE, Unigram, WordLevel, WordPiece"},
	{"model without type", `{"model":{}}`, `model.type: is ""`},
	{"unknown normalizer", `{"normalizer":{"type":"Magic"},"model":{}}`, "normalizer.type"},
	{"unknown pre-tokenizer", `{"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Magic"}]},"model":{}}`, "pre_tokenizer.pretokenizers[0].type"},
	{"null in a sequence", `{"pre_tokenizer":{"type":"Sequence","pretokenizers":[null]},"model":{}}`, "entry 0 is null"},
	{"sequence without parts", `{"normalizer":{"type":"Sequence"},"model":{}}`, "normalizer.normalizers"},
	{"deep nesting", `{"normalizer":` + strings.Repeat(`{"type":"Sequence","normalizers":[`, 2000) + strings.Repeat(`]}`, 2000) + `,"model":{}}`, "parts are nested more than"},
	{"unknown decoder", bpeFile(`{"a":0}`, `[]`, `,"decoder":{"type":"Magic"}`), "decoder.type"},
	{"vocabulary is a list", bpeFile(`["a"]`, `[]`, ``), "expected an object of tokens and ids"},
	{"negative id", bpeFile(`{"a":-1}`, `[]`, ``), "expected 0..2147483647"},
	{"fractional id", bpeFile(`{"a":1.5}`, `[]`, ``), "expected 0..2147483647"},
	{"id near 2^31", bpeFile(`{"a":2147483647}`, `[]`, ``), "has id 2147483647"},
	{"id beyond 2^31", bpeFile(`{"a":99999999999999999999}`, `[]`, ``), "expected 0..2147483647"},
	{"id is a string", bpeFile(`{"a":"0"}`, `[]`, ``), "expected 0..2147483647"},
	{"two tokens, one id", bpeFile(`{"a":0,"b":0}`, `[]`, ``), "have the same id 0"},
	{"merge of unknown tokens", bpeFile(`{"a":0}`, `["a b"]`, ``), `entry 0 joins "a" and "b"`},
	{"merge without result", bpeFile(`{"a":0,"b":1}`, `[["a","b"]]`, ``), "not in the vocabulary"},
	{"merge of three", bpeFile(`{"a":0}`, `["a a a"]`, ``), "expected two tokens"},
	{"merge of one", bpeFile(`{"a":0}`, `[["a"]]`, ``), "has 1 parts"},
	{"merges are numbers", bpeFile(`{"a":0}`, `[1]`, ``), "merges: expected an array"},
	{"unknown unk", bpeFile(`{"a":0}`, `[],"unk_token":"u"`, ``), "unk_token"},
	{"wordpiece without unk", `{"model":{"type":"WordPiece","vocab":{"a":0}}}`, `"[UNK]" is not in the vocabulary`},
	{"added token takes an id", bpeFile(`{"a":1}`, `[]`, `,"added_tokens":[{"id":2,"content":"b"}]`), "which is that of"},
	{"added token far away", bpeFile(`{"a":0}`, `[]`, `,"added_tokens":[{"id":4294967296,"content":"b"}]`), "has id 4294967296"},
	{"added token below zero", bpeFile(`{"a":0}`, `[]`, `,"added_tokens":[{"id":-5,"content":"b"}]`), "has id -5"},
	{"endless added token", bpeFile(`{"a":0}`, `[]`, `,"added_tokens":[{"id":1,"content":"`+strings.Repeat("x", 5000)+`"}]`), "5000 bytes long"},
	{"bad regex", `{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"},"model":{}}`, "pre_tokenizer.pattern"},
	{"no pattern", `{"pre_tokenizer":{"type":"Split","pattern":{},"behavior":"Isolated"},"model":{}}`, "expected a Regex or a String"},
	{"bad behavior", `{"pre_tokenizer":{"type":"Split","pattern":{"String":"a"},"behavior":"Explode"},"model":{}}`, "expected one of Contiguous"},
	{"template without text", bpeFile(`{"a":0}`, `[]`, `,"post_processor":{"type":"TemplateProcessing","single":[]}`), "has the text 0 times"},
	{"template of unknown token", bpeFile(`{"a":0}`, `[]`, `,"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}]}`), "special_tokens does not have"},
	{"template of unknown id", bpeFile(`{"a":0}`, `[]`, `,"post_processor":{"type":"BertProcessing","cls":["x",7],"sep":["y",8]}`), "id 7 is not in the vocabulary"},
	{"unigram without scores", `{"model":{"type":"Unigram","unk_id":0,"vocab":[["a"]]}}`, "model.vocab: entry 0 is [\"a\"], expected [token, score]"},
	{"unigram of an object", `{"model":{"type":"Unigram","vocab":{"a":1}}}`, "expected an array of tokens and scores"},
	{"unigram with a large unk", `{"model":{"type":"Unigram","unk_id":7,"vocab":[["a",0]]}}`, "model.unk_id: is 7"},
	{"charsmap that is none", `{"normalizer":{"type":"Precompiled","precompiled_charsmap":"////////"},"model":{}}`, "precompiled_charsmap: has a table"},
	{"charsmap that is no base64", `{"normalizer":{"type":"Precompiled","precompiled_charsmap":"?"},"model":{}}`, "expected base64"},
	{"replace nothing", `{"normalizer":{"type":"Replace","pattern":{"String":"a"}},"model":{}}`, "normalizer.content: expected a string"},
	{"metaspace of two", `{"pre_tokenizer":{"type":"Metaspace","replacement":"ab"},"model":{}}`, "expected one character"},
	{"added token that normalizes to nothing", `{"normalizer":{"type":"Replace","pattern":{"String":"."},"content":""},"added_tokens":[{"id":1,"content":"..","normalized":true}],"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}}`, "normalizing the added token \"..\" leaves nothing"},
	{"metaspace at times", `{"pre_tokenizer":{"type":"Metaspace","replacement":"a","prepend_scheme":"often"},"model":{}}`, "expected one of always, first, never"},
	{"pieces of no length", `{"pre_tokenizer":{"type":"FixedLength","length":0},"model":{}}`, "pre_tokenizer.length: is 0"},
	{"strip less than nothing", bpeFile(`{"a":0}`, `[]`, `,"decoder":{"type":"Strip","content":" ","start":-1,"stop":0}`), "decoder.content"},
	{"dropout", bpeFile(`{"a":0}`, `[],"dropout":0.1`, ``), "ids would be random"},
	{"not UTF-8", "{\"model\":\"\xff\"}", "not valid UTF-8"},
	{"a flag that is none", bpeFile(`{"a":0}`, `[],"fuse_unk":1`, ``), "model.fuse_unk: expected true or false"},
	{"frame without ids", bpeFile(`{"a":0}`, `[]`, `,"post_processor":{"type":"BertProcessing"}`), "post_processor.cls"},
}

func TestHostileJSON(t *testing.T) {
	for _, h := range hostile {
		_, err := FromJSON("some/tokenizer.json", []byte(h.file), nil)
		if err == nil || !strings.Contains(err.Error(), h.want) || !strings.HasPrefix(err.Error(), "some/tokenizer.json: ") {
			t.Errorf("%s: error %v, expected the file's name and %q", h.name, err, h.want)
		} else if strings.Contains(err.Error(), "\n") || len(err.Error()) > 600 {
			t.Errorf("%s: not one short line: %q", h.name, err)
		}
	}
	if _, err := FromJSON("f", []byte(bpeFile(`{"a":0}`, `[]`, ``)), []byte(`[`)); err == nil || !strings.Contains(err.Error(), "tokenizer_config.json") {
		t.Errorf("a broken configuration: error %v", err)
	}
}

// TestUnknownKinds tells files that may be sound from broken ones.
func TestUnknownKinds(t *testing.T) {
	for name, file := range map[string]string{
		"model":          `{"model":{"type":"Magic"}}`,
		"normalizer":     `{"normalizer":{"type":"Magic"},"model":{}}`,
		"pre-tokenizer":  `{"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Magic"}]},"model":{}}`,
		"decoder":        bpeFile(`{"a":0}`, `[]`, `,"decoder":{"type":"Magic"}`),
		"dropout":        bpeFile(`{"a":0}`, `[],"dropout":0.1`, ``),
		"post-processor": bpeFile(`{"a":0}`, `[]`, `,"post_processor":{"type":"Magic"}`),
	} {
		if _, err := FromJSON("f", []byte(file), nil); !errors.Is(err, format.ErrUnsupported) {
			t.Errorf("%s: error %v, expected ErrUnsupported", name, err)
		}
	}
	for key, value := range map[string]string{"tokenizer.ggml.model": "magic", "tokenizer.ggml.pre": "magic"} {
		m := meta{"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": []string{"a"}}
		m[key] = value
		if _, err := FromGGUF(m); !errors.Is(err, format.ErrUnsupported) {
			t.Errorf("%s: error %v, expected ErrUnsupported", key, err)
		}
	}
	if _, err := FromJSON("f", []byte(bpeFile(`{"a":-1}`, `[]`, ``)), nil); err == nil || errors.Is(err, format.ErrUnsupported) {
		t.Errorf("a broken vocabulary: error %v, expected another one than ErrUnsupported", err)
	}
}

// TestOddJSON reads files that are odd but have a meaning.
func TestOddJSON(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"cyclic merges":       {bpeFile(`{"a":0,"aa":1,"aaa":2}`, `["a a","aa a","a aa"]`, ``), "aaaaa", "[1 2]"},
		"merge with itself":   {bpeFile(`{"a":0,"":1}`, `[["a",""],["",""]]`, ``), "aa", "[0 0]"},
		"one token, two ids":  {bpeFile(`{"a":0,"a":1}`, `[]`, ``), "a", "[1]"},
		"holes":               {bpeFile(`{"a":5,"b":1000}`, `[]`, ``), "ab", "[5 1000]"},
		"escapes":             {bpeFile(`{"\u0061":0,"\"":1,"\\":2}`, `[]`, ``), `a"\`, "[0 1 2]"},
		"bytes without token": {bpeFile(`{"a":0}`, `[]`, ``), "xaxéa", "[0 0]"},
		"empty added token":   {bpeFile(`{"a":0}`, `[]`, `,"added_tokens":[{"id":1,"content":""}]`), "aa", "[0 0]"},
		"empty vocabulary":    {bpeFile(`{}`, `[]`, ``), "aa", "[]"},
		"empty pattern":       {bpeFile(`{"a":0}`, `[]`, `,"pre_tokenizer":{"type":"Split","pattern":{"Regex":""},"behavior":"Isolated"}`), "aa", "[0 0]"},
	} {
		tok, err := FromJSON(name, []byte(strings.Replace(c.file, `"pre_tokenizer":{"type":"ByteLevel"}`, `"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false}`, 1)), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := fmt.Sprint(tok.Encode(nil, c.text, Options{ParseSpecial: true}, nil)); got != c.want {
			t.Errorf("%s: %q gives %s, want %s", name, c.text, got, c.want)
		}
	}
}

// meta is GGUF metadata made by hand.
type meta map[string]any

func value[T any](m meta, key string) (T, bool) { v, ok := m[key].(T); return v, ok }

func (m meta) Has(key string) bool { _, ok := m[key]; return ok }
func (m meta) Len(key string) int {
	switch v := m[key].(type) {
	case []string:
		return len(v)
	case []int64:
		return len(v)
	case []float32:
		return len(v)
	}
	return 0
}
func (m meta) String(key string) (string, bool)    { return value[string](m, key) }
func (m meta) Strings(key string) ([]string, bool) { return value[[]string](m, key) }
func (m meta) Ints(key string) ([]int64, bool)     { return value[[]int64](m, key) }
func (m meta) Uint(key string) (uint64, bool)      { return value[uint64](m, key) }
func (m meta) Bool(key string) (bool, bool)        { return value[bool](m, key) }
func (m meta) Floats(key string) ([]float32, bool) { return value[[]float32](m, key) }

func TestHostileGGUF(t *testing.T) {
	const p = "tokenizer.ggml."
	tokens := []string{"a", "b", "ab"}
	for _, c := range []struct {
		m    meta
		want string
	}{
		{meta{}, "tokenizer.ggml.model: expected a string"},
		{meta{p + "model": "magic"}, `is "magic", expected one of bert, gpt2, llama, t5`},
		{meta{p + "model": "llama", p + "tokens": tokens}, "tokenizer.ggml.scores: has 0 entries, expected 3"},
		{meta{p + "model": "llama", p + "tokens": tokens, p + "scores": []float32{0, 1, float32(math.NaN())}}, "entry 2 is NaN"},
		{meta{p + "model": "t5", p + "tokens": tokens, p + "scores": []float32{0, 1, 2}}, "tokenizer.ggml.token_type: has 0"},
		{meta{p + "model": "t5", p + "tokens": tokens, p + "scores": []float32{0, 1, 2}, p + "token_type": []int64{3, 3, 3}}, "no token is normal"},
		{meta{p + "model": "t5", p + "tokens": tokens, p + "scores": []float32{0, 1, 2}, p + "token_type": []int64{1, 1, 1}, p + "precompiled_charsmap": []int64{255, 255, 255, 255, 0}}, "precompiled_charsmap: has a table"},
		{meta{p + "model": "gpt2", p + "pre": uint64(3)}, "tokenizer.ggml.pre: expected a string"},
		{meta{p + "model": "gpt2", p + "tokens": tokens, p + "merges": []string{}, p + "token_type": "normal"}, "tokenizer.ggml.token_type: expected an array of integers"},
		{meta{p + "model": "gpt2", p + "tokens": tokens, p + "bos_token_id": "<s>"}, "tokenizer.ggml.bos_token_id: expected a token's id"},
		{meta{p + "model": "gpt2", p + "add_bos_token": uint64(1)}, "tokenizer.ggml.add_bos_token: expected true or false"},
		{meta{p + "model": "t5", p + "tokens": tokens, p + "scores": []float32{0, 1, 2}, p + "token_type": []int64{1, 1, 1}, p + "precompiled_charsmap": "x"}, "precompiled_charsmap: expected an array"},
		{meta{p + "model": "gpt2"}, "tokenizer.ggml.tokens: expected"},
		{meta{p + "model": "gpt2", p + "tokens": tokens}, "tokenizer.ggml.merges: expected"},
		{meta{p + "model": "gpt2", p + "tokens": tokens, p + "pre": "magic"}, `tokenizer.ggml.pre: is "magic", expected one of a.x-4.0, bailingmoe`},
		{meta{p + "model": "gpt2", p + "tokens": tokens, p + "merges": []string{"a"}}, "entry 0"},
		{meta{p + "model": "gpt2", p + "tokens": tokens, p + "merges": []string{"b a"}}, "tokenizer.ggml.merges: entry 0"},
		{meta{p + "model": "gpt2", p + "tokens": tokens, p + "merges": []string{}, p + "token_type": []int64{1}}, "has 1 entries, expected 3"},
		{meta{p + "model": "gpt2", p + "tokens": tokens, p + "merges": []string{}, p + "eos_token_id": uint64(3)}, "eos_token_id: is 3"},
		{meta{p + "model": "gpt2", p + "tokens": tokens, p + "merges": []string{}, p + "add_bos_token": true}, "expected tokenizer.ggml.bos_token_id"},
		{meta{p + "model": "bert", p + "tokens": tokens}, "unknown_token_id: expected an id"},
	} {
		if _, err := FromGGUF(c.m); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, expected %q", c.m, err, c.want)
		}
	}
	tok, err := FromGGUF(meta{p + "model": "gpt2", p + "pre": "llama-bpe", p + "tokens": tokens, p + "merges": []string{}, p + "bos_token_id": uint64(1),
		p + "add_eos_token": true, p + "eos_token_id": uint64(0), p + "padding_token_id": uint64(1<<32 - 1), "tokenizer.chat_template": "T"})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(tok.Encode(nil, "ab", Options{Special: true}, nil)); got != "[1 2 0]" {
		t.Errorf("BOS, the whole word and EOS are %s, want [1 2 0]", got)
	}
	if _, ok := tok.PAD(); ok || tok.ChatTemplate() != "T" {
		t.Error("the padding id or the chat template is wrong")
	}
}

// smallFiles have every kind of part that the tables know.
var smallFiles = []string{
	`{"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},"model":{"type":"BPE","unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,"vocab":{"<unk>":0,"▁":1,"a":2,"▁a":3,"<0x0A>":4},"merges":["▁ a"]},"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":1}]}}`,
	`{"normalizer":{"type":"Sequence","normalizers":[{"type":"Nmt"},{"type":"Strip","strip_left":true,"strip_right":true},{"type":"Precompiled","precompiled_charsmap":"BAAAAAAEAABhAA=="},{"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "}]},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"UnicodeScripts"},{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"}]},"model":{"type":"Unigram","unk_id":0,"byte_fallback":true,"vocab":[["<unk>",0],["▁",-2.5],["a",-3],["▁a",-1e0]]},"decoder":{"type":"Metaspace","replacement":"▁"}}`,
	`{"normalizer":{"type":"ByteLevel"},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"CharDelimiterSplit","delimiter":"b"},{"type":"FixedLength","length":2}]},"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":0,"ab":1}},"decoder":{"type":"Sequence","decoders":[{"type":"CTC","pad_token":"a","word_delimiter_token":"|","cleanup":true},{"type":"Fuse"},{"type":"BPEDecoder","suffix":"b"}]},"added_tokens":[{"id":5,"content":"<s>","special":true,"rstrip":true,"normalized":true}]}`,
}

// TestSmallFiles makes sure that the seeds are no errors.
func TestSmallFiles(t *testing.T) {
	for _, file := range smallFiles {
		tok, err := FromJSON("f", []byte(file), nil)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		checkAnswers(t, tok, " a b  ab\n<s>▁a 12")
	}
}

func FuzzTokenizerJSON(f *testing.F) {
	for _, h := range hostile {
		f.Add([]byte(h.file), "a text 12")
	}
	f.Add([]byte(bpeFile(`{"a":0,"aa":1}`, `["a a"]`, `,"added_tokens":[{"id":9,"content":" a","lstrip":true,"rstrip":true,"single_word":true}]`)), " a aa a ")
	for _, c := range refusedPatterns {
		f.Add([]byte(splitFile(c.pattern)), "a text 12")
	}
	f.Add([]byte(splitFile(strings.Replace(llama3Pattern, "'s", "(?:'s)", 1))), "It's  1234 \n x")
	f.Add([]byte(`{"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},"decoder":{"type":"WordPiece"},"model":{"type":"WordPiece","vocab":{"[UNK]":0,"a":1,"##b":2}}}`), "Ab é")
	for _, file := range smallFiles {
		f.Add([]byte(file), " a b  ab\n<s>▁a 12")
	}
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		tok, err := FromJSON("f", file, nil)
		if err != nil {
			return
		}
		if tok.Size() > len(file)+maxHoles {
			t.Fatalf("a table of %d tokens for a file of %d bytes", tok.Size(), len(file))
		}
		if len(text) > 1000 {
			return
		}
		ids := tok.Encode(nil, text, Options{Special: true, ParseSpecial: true}, nil)
		for _, id := range ids {
			if _, ok := tok.Token(id); !ok {
				t.Fatalf("id %d is not in the vocabulary", id)
			}
		}
		if !utf8.ValidString(tok.Decode(ids, true)) {
			t.Fatal("decodes to broken UTF-8")
		}
	})
}

func FuzzEncode(f *testing.F) {
	bpe, wordPiece, chars := fromGolden(f, "bpe"), fromGolden(f, "wordpiece"), fromGolden(f, "chars")
	llama, err := FromJSON("llama3", assemble(f, "bpe", map[string]json.RawMessage{
		"pre_tokenizer": json.RawMessage(`{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":` + jsonString(llama3Pattern) + `},"behavior":"Isolated"},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]}`),
	}), nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range goldenTexts(f)[:200] {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s Scratch
		for _, tok := range []*Tokenizer{wordPiece, chars} {
			tok.Decode(tok.Encode(nil, text, Options{Special: true, ParseSpecial: true}, &s), true)
		}
		for _, tok := range []*Tokenizer{bpe, llama} {
			ids := tok.Encode(nil, text, Options{}, &s)
			if got, want := tok.Decode(ids, false), string(appendValid(nil, text)); got != want {
				t.Fatalf("%q comes back as %q", want, got)
			}
			again := tok.Encode(nil, text, Options{}, &s)
			if fmt.Sprint(ids) != fmt.Sprint(again) {
				t.Fatalf("%q gives %v, then %v", text, ids, again)
			}
		}
	})
}

func jsonString(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

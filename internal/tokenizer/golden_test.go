package tokenizer

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"hotpath/internal/format/gguf"
)

// answers is what the reference gave for every text of texts.json (scripts/goldens_tokenizer.py).
type answers struct {
	IDs      [][]int32 // in full, special tokens parsed but not added
	Special  []uint32  // CRC-32 of the ids, special tokens added and parsed
	Unparsed []uint32  // neither added nor parsed
	Decoded  []uint32  // CRC-32 of what the first decode to
	Skipped  []uint32  // the same without special tokens
}

func readGolden(t testing.TB, name string, v any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func goldenTexts(t testing.TB) []string {
	var encoded, texts []string
	readGolden(t, "texts.json", &encoded)
	for _, e := range encoded {
		raw, err := base64.StdEncoding.DecodeString(e)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(raw))
	}
	if len(texts) < 1000 {
		t.Fatalf("%d texts, expected 1000 or more", len(texts))
	}
	return texts
}

func checksum(ids []int32) uint32 {
	var b []byte
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return crc32.ChecksumIEEE(b)
}

// hold compares a tokenizer with the reference on every text.
func hold(t *testing.T, tok *Tokenizer, texts []string, want answers) {
	t.Helper()
	var s Scratch
	bad := 0
	fail := func(i int, what string, ids []int32) {
		t.Helper()
		if bad++; bad <= 5 {
			t.Errorf("text %d %+.200q: %s: got %.300s", i, texts[i], what, fmt.Sprint(ids))
		}
	}
	for i, text := range texts {
		if want.IDs != nil {
			ids := tok.Encode(nil, text, Options{ParseSpecial: true}, &s)
			if fmt.Sprint(ids) != fmt.Sprint(want.IDs[i]) {
				fail(i, fmt.Sprintf("ids differ from %.300s", fmt.Sprint(want.IDs[i])), ids)
				continue
			}
		}
		ids := tok.Encode(nil, text, Options{}, &s)
		if checksum(ids) != want.Unparsed[i] {
			fail(i, "ids without special tokens differ", ids)
		}
		ids = tok.Encode(nil, text, Options{Special: true, ParseSpecial: true}, &s)
		if checksum(ids) != want.Special[i] {
			fail(i, "ids with special tokens differ", ids)
			continue
		}
		for skip, crc := range map[bool]uint32{false: want.Decoded[i], true: want.Skipped[i]} {
			decoded := tok.Decode(ids, skip)
			if crc32.ChecksumIEEE([]byte(decoded)) != crc {
				fail(i, fmt.Sprintf("decodes to %+.300q (special tokens skipped: %v)", decoded, skip), ids)
			}
			stream := tok.NewStream()
			stream.KeepSpecial = !skip
			var streamed strings.Builder
			for _, id := range ids {
				part := stream.Push(id)
				if !utf8.ValidString(part) {
					fail(i, "the stream gave broken UTF-8", ids)
				}
				streamed.WriteString(part)
			}
			streamed.WriteString(stream.Flush())
			if streamed.String() != decoded {
				fail(i, fmt.Sprintf("streams to %+.300q, decodes to %+.300q", streamed.String(), decoded), ids)
			}
		}
	}
	if bad > 5 {
		t.Errorf("and %d more", bad-5)
	}
}

type variant struct {
	Name   string
	Change map[string]json.RawMessage
	answers
}

// assemble applies a variant's changes to a base tokenizer.json, as the script does.
func assemble(t testing.TB, base string, change map[string]json.RawMessage) []byte {
	t.Helper()
	var file, model map[string]json.RawMessage
	readGolden(t, base+".json", &file)
	unmarshal := func(raw []byte, v any) {
		if err := json.Unmarshal(raw, v); err != nil {
			t.Fatal(err)
		}
	}
	marshal := func(v any) json.RawMessage {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	unmarshal(file["model"], &model)
	var vocab map[string]int
	unmarshal(model["vocab"], &vocab)
	top := 0
	for _, id := range vocab {
		top = max(top, id+1)
	}
	for key, value := range change {
		switch key {
		case "model":
			unmarshal(value, &model)
			file["model"] = marshal(model)
		case "added":
			var old, more []map[string]any
			unmarshal(file["added_tokens"], &old)
			unmarshal(value, &more)
			for i := range more {
				more[i]["id"] = top + i
			}
			file["added_tokens"] = marshal(append(old, more...))
		default:
			file[key] = value
		}
	}
	return marshal(file)
}

func TestVariants(t *testing.T) {
	texts := goldenTexts(t)
	for _, base := range []string{"bpe", "wordpiece", "chars"} {
		var variants []variant
		readGolden(t, base+"_variants.json", &variants)
		for _, v := range variants {
			t.Run(v.Name, func(t *testing.T) {
				tok, err := FromJSON(base, assemble(t, base, v.Change), nil)
				if err != nil {
					t.Fatal(err)
				}
				hold(t, tok, texts, v.answers)
			})
		}
	}
}

// TestEveryCodePoint holds normalizers and pre-tokenizers to the reference on all of Unicode.
func TestEveryCodePoint(t *testing.T) {
	var cases []struct {
		Name         string
		Normalizer   json.RawMessage
		PreTokenizer json.RawMessage `json:"pre_tokenizer"`
		CRC          []uint32
	}
	readGolden(t, "unicode.json", &cases)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			var render func(dst []byte, r rune) []byte
			var s Scratch
			if c.Normalizer != nil {
				part, _, err := newPart(c.Name, "normalizer", 0, c.Normalizer)
				if err != nil {
					t.Fatal(err)
				}
				n, err := lookup(normalizers, part)
				if err != nil {
					t.Fatal(err)
				}
				render = func(dst []byte, r rune) []byte {
					return n.normalize(dst, []byte("a"+string(r)+"b"), &s)
				}
			} else {
				part, _, err := newPart(c.Name, "pre_tokenizer", 0, c.PreTokenizer)
				if err != nil {
					t.Fatal(err)
				}
				steps, err := lookup(preTokenizers, part)
				if err != nil {
					t.Fatal(err)
				}
				render = func(dst []byte, r rune) []byte {
					x := string(r)
					return appendCuts(dst, "a"+x+x+"1"+x+" "+x+"\n", steps, &s)
				}
			}
			for block, want := range c.CRC {
				if (block > 0x33 && block < 0xE0 || block > 0xE0) && block%16 != 0 {
					continue // planes without characters, and private use: samples do
				}
				var got []byte
				for r := rune(block * 4096); r < rune(block+1)*4096; r++ {
					if utf8.ValidRune(r) {
						got = append(render(got, r), '\n')
					}
				}
				if crc32.ChecksumIEEE(got) != want {
					t.Errorf("U+%04X..U+%04X differ from the reference", block*4096, block*4096+4095)
				}
			}
		})
	}
}

// appendCuts writes where the steps cut a text, in characters.
func appendCuts(dst []byte, text string, steps []step, s *Scratch) []byte {
	s.text = append(s.text[:0], text...)
	s.spans[0] = append(s.spans[0][:0], span{0, len(text)})
	for _, st := range steps {
		st.apply(s)
	}
	for i, p := range s.spans[0] {
		if i > 0 {
			dst = append(dst, ',')
		}
		start := utf8.RuneCount(s.text[:p.start])
		dst = append(strconv.AppendInt(dst, int64(start), 10), '-')
		dst = strconv.AppendInt(dst, int64(start+utf8.RuneCount(s.text[p.start:p.end])), 10)
	}
	return dst
}

// sharedVocab opens a vocabulary that developers have beside the project.
func sharedVocab(t testing.TB, name string) *gguf.File {
	t.Helper()
	path := filepath.Join("..", "..", "..", "shared", "vocab", name)
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		t.Skipf("needs %s beside the project", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	file, err := gguf.Parse(name, data)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// otherPre is a file with another tokenizer.ggml.pre.
type otherPre struct {
	Meta
	pre string
}

func (o otherPre) String(key string) (string, bool) {
	if key == "tokenizer.ggml.pre" && o.pre != "" {
		return o.pre, true
	}
	return o.Meta.String(key)
}

// TestRealVocabularies holds GGUF vocabularies of full size to the reference.
func TestRealVocabularies(t *testing.T) {
	texts := goldenTexts(t)
	var cases []struct {
		File, Pre string
		answers
	}
	readGolden(t, "real.json", &cases)
	for _, c := range cases {
		t.Run(c.File+" "+c.Pre, func(t *testing.T) {
			tok, err := FromGGUF(otherPre{sharedVocab(t, c.File), c.Pre})
			if err != nil {
				t.Fatal(err)
			}
			hold(t, tok, texts, c.answers)
		})
	}
}

// TestSharedVectors holds GGUF vocabularies to the vectors that come with them.
func TestSharedVectors(t *testing.T) {
	for _, name := range []string{"ggml-vocab-gpt-2.gguf", "ggml-vocab-bert-bge.gguf", "ggml-vocab-deepseek-llm.gguf", "ggml-vocab-llama-spm.gguf", "ggml-vocab-phi-3.gguf"} {
		t.Run(name, func(t *testing.T) {
			file := sharedVocab(t, name)
			read := func(ending, separator string) []string {
				data, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "vocab", name+ending))
				if err != nil {
					t.Fatal(err)
				}
				return strings.Split(string(data), separator)
			}
			tok, err := FromGGUF(file)
			if err != nil {
				t.Fatal(err)
			}
			inputs, outputs := read(".inp", "\n__ggml_vocab_test__\n"), read(".out", "\n")
			if len(inputs) < 40 || len(outputs) < len(inputs)-1 {
				t.Fatalf("%d texts, %d lines of ids", len(inputs), len(outputs))
			}
			for i, text := range inputs[:len(inputs)-1] {
				var got strings.Builder
				for _, id := range tok.Encode(nil, text, Options{}, nil) {
					fmt.Fprintf(&got, " %d", id)
				}
				if got.String() != strings.TrimRight(outputs[i], "\r") {
					t.Errorf("text %d %q:\n got %s\nwant %s", i, text, got.String(), outputs[i])
				}
			}
		})
	}
}

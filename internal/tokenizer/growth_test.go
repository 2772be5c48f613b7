package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// sequenceOf is n copies of parts in a Sequence of parts.
func sequenceOf(field string, n int, parts ...string) string {
	return `{"type":"Sequence","` + field + `":[` + strings.TrimSuffix(strings.Repeat(strings.Join(parts, ",")+",", n), ",") + `]}`
}

// charsmapOf is a table that replaces "a" by a text.
func charsmapOf(text string) string {
	// The root leads by 'a' to a unit with a leaf, whose value is the text's place.
	units := make([]uint32, 512)
	units[0] = 256 << 10                // children of the root from 256 on
	units[256^'a'] = 'a' | 1<<8 | 1<<10 // a leaf at 256^'a'^1
	units[256^'a'^1] = 1 << 31          // the value 0
	blob := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
	for _, u := range units {
		blob = binary.LittleEndian.AppendUint32(blob, u)
	}
	return base64.StdEncoding.EncodeToString(append(append(blob, text...), 0))
}

const doubling = `{"type":"Replace","pattern":{"String":"a"},"content":"aa"}`

// growing are files whose stages would make far more text than there is, and what the error must say.
var growing = []struct{ name, file, want string }{
	{"chain of Replace", withNormalizer(sequenceOf("normalizers", 25, doubling)), "normalizer.normalizers[10]: with this Replace the text can grow to 2048 times its size, expected at most 1024 times"},
	{"chains in a chain", withNormalizer(sequenceOf("normalizers", 5, sequenceOf("normalizers", 5, doubling))), "normalizer.normalizers[2]: with this Sequence the text"},
	{"one long Replace", withNormalizer(`{"type":"Replace","pattern":{"String":"a"},"content":"` + strings.Repeat("b", 5000) + `"}`), "normalizer: with this Replace the text can grow to 5000 times"},
	{"Replace of a short match", withNormalizer(`{"type":"Replace","pattern":{"Regex":"a?b?"},"content":"` + strings.Repeat("b", 600) + `"}`), "normalizer: with this Replace the text"},
	{"Replace of three characters", withNormalizer(`{"type":"Replace","pattern":{"Regex":"(?:ab|cd)a+"},"content":"` + strings.Repeat("b", 4000) + `"}`), "grow to 1333 times"},
	{"Prepend", withNormalizer(`{"type":"Prepend","prepend":"` + strings.Repeat("b", 5000) + `"}`), "normalizer: with this Prepend the text"},
	{"Prepend and Replace", withNormalizer(sequenceOf("normalizers", 1, `{"type":"Prepend","prepend":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}`, sequenceOf("normalizers", 5, doubling))), "normalizer.normalizers[1]: with this Sequence"},
	{"bytes spelled again and again", withNormalizer(sequenceOf("normalizers", 25, `{"type":"ByteLevel"}`)), "normalizer.normalizers[10]: with this ByteLevel"},
	{"charsmap", withNormalizer(`{"type":"Precompiled","precompiled_charsmap":"` + charsmapOf(strings.Repeat("b", 5000)) + `"}`), "normalizer: with this Precompiled the text can grow to 5000 times"},
	{"forms between", withNormalizer(sequenceOf("normalizers", 8, `{"type":"Replace","pattern":{"String":"\u0635"},"content":"\ufdfa"}`, `{"type":"NFKC"}`)), "normalizer.normalizers[5]: with this NFKC"},
	{"pre-tokenizers", `{"pre_tokenizer":` + sequenceOf("pretokenizers", 25, `{"type":"ByteLevel","use_regex":false}`) + wordLevel2, "pre_tokenizer.pretokenizers[10]: with this ByteLevel"},
	{"normalizer and pre-tokenizer", `{"normalizer":` + sequenceOf("normalizers", 9, doubling) + `,"pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"always"}` + `,"pre_tokenizer":` + sequenceOf("pretokenizers", 2, `{"type":"ByteLevel","use_regex":false}`) + wordLevel2, "pre_tokenizer: with this Sequence"},
	{"spelling of the model", `{"model":{"type":"BPE","vocab":{"a":0},"merges":[],"byte_fallback":true,"continuing_subword_prefix":"` + strings.Repeat("b", 5000) + `"}}`, "model: with this BPE the text can grow to 5001 times"},
	{"decoders", `{"decoder":` + sequenceOf("decoders", 25, doubling) + wordLevel2, "decoder.decoders[10]: with this Replace the text can grow to 2048 times"},
	{"a long decoder", `{"decoder":{"type":"Replace","pattern":{"String":"a"},"content":"` + strings.Repeat("b", 5000) + `"}` + wordLevel2, "decoder: with this Replace"},
	{"template", `{"post_processor":{"type":"TemplateProcessing","single":[` + strings.Repeat(`{"SpecialToken":{"id":"x"}},`, 1000) + `{"Sequence":{"id":"A"}}],"special_tokens":{"x":{"ids":[0` + strings.Repeat(",0", 1000) + `]}}}` + wordLevel2, "post_processor: this TemplateProcessing puts 1001000 ids around a text, expected at most 1024"},
	{"template in a sequence", `{"post_processor":` + sequenceOf("processors", 1, `{"type":"TemplateProcessing","single":[`+strings.Repeat(`{"SpecialToken":{"id":"x"}},`, 1000)+`{"Sequence":{"id":"A"}}],"special_tokens":{"x":{"ids":[0`+strings.Repeat(",0", 1000)+`]}}}`, `{"type":"BertProcessing","cls":["a",0],"sep":["a",0]}`) + wordLevel2, "post_processor.processors[0]: this TemplateProcessing"},
	{"parts in parts", withNormalizer(sequenceOf("normalizers", 20, sequenceOf("normalizers", 20, `{"type":"Nmt"}`))), "in all"},
}

const wordLevel2 = `,"added_tokens":[{"id":2,"content":"aaa","normalized":true}],"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":0,"b":1}}}`

func withNormalizer(n string) string { return `{"normalizer":` + n + wordLevel2 }

// TestGrowthIsRefused opens files of a few KB and holds that what they ask for is not made.
func TestGrowthIsRefused(t *testing.T) {
	for _, g := range growing {
		var err error
		n := allocated(func() {
			var tok *Tokenizer
			if tok, err = FromJSON("some/tokenizer.json", []byte(g.file), nil); err == nil {
				tok.Decode(tok.Encode(nil, "a", Options{Special: true, ParseSpecial: true}, nil), false)
			}
		})
		if err == nil || !strings.HasPrefix(err.Error(), "some/tokenizer.json: ") || !strings.Contains(err.Error(), g.want) {
			t.Errorf("%s: error %v, expected the file's name and %q", g.name, err, g.want)
		}
		if limit := int64(20*len(g.file) + 2<<20); n > limit {
			t.Errorf("%s: %d bytes allocated for a file of %d, expected at most %d", g.name, n, len(g.file), limit)
		}
	}
}

func TestGrowthOfGGUF(t *testing.T) {
	const p = "tokenizer.ggml."
	blob, err := base64.StdEncoding.DecodeString(charsmapOf(strings.Repeat("b", 5000)))
	if err != nil {
		t.Fatal(err)
	}
	table := make([]int64, len(blob))
	for i, b := range blob {
		table[i] = int64(b)
	}
	_, err = FromGGUF(meta{p + "model": "t5", p + "tokens": []string{"a"}, p + "scores": []float32{0}, p + "token_type": []int64{1}, p + "precompiled_charsmap": table})
	if err == nil || !strings.Contains(err.Error(), p+"precompiled_charsmap: the text can grow to 2e+04 times its size") {
		t.Errorf("%v, expected that the text grows", err)
	}
}

// holds tells whether a stage kept to its growth.
func (g growth) holds(in, out int) bool { return float64(out) <= g.per*float64(in)+g.plus }

// stageTexts has what grows most: compatibility characters, Hangul, Greek with accents, spaces, Chinese.
var stageTexts = []string{"", "a", " ", "ab ab  ab", "\ufdfa\ufdfa", "각힣", "ΐΰ", "İȺ", "\u2126\u01c4", "  \n\t  ", "漢字漢字", "▁a▁", "𝅘𝅥𝅮", "aaaa", "<0x41>", "é́́́́́́́́́́́́"}

// TestStagesKeepToTheirGrowth runs every kind of stage over texts that grow.
func TestStagesKeepToTheirGrowth(t *testing.T) {
	parts := map[string]string{
		"Strip":       `"strip_left":true,"strip_right":true`,
		"Replace":     `"pattern":{"Regex":"a|"},"content":"xyz"`,
		"Prepend":     `"prepend":"▁▁"`,
		"Precompiled": `"precompiled_charsmap":"` + charsmapOf("bcd") + `"`,
		"Metaspace":   `"replacement":"▁","prepend_scheme":"always"`,
		"Sequence":    `"normalizers":[{"type":"NFKD"},{"type":"Prepend","prepend":"a"},{"type":"ByteLevel"}],"pretokenizers":[{"type":"ByteLevel"}],"decoders":[{"type":"WordPiece"}]`,
		"Split":       `"pattern":{"Regex":"a|"},"behavior":"Isolated"`, "Delimiter": `"delimiter":"a"`, "CharDelimiterSplit": `"delimiter":"a"`,
		"BPEDecoder": `"suffix":"a"`, "CTC": `"pad_token":"a","word_delimiter_token":"b","cleanup":true`,
		"ByteLevel": `"add_prefix_space":true`,
	}
	part := func(kind string) *jsonPart {
		settings := parts[kind]
		if kind == "Strip" {
			settings += `,"content":"a","start":1,"stop":1`
		}
		raw := `{"type":"` + kind + `"`
		if settings != "" {
			raw += "," + settings
		}
		p, ok, err := newPart("f", kind, 0, []byte(raw+"}"))
		if !ok || err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		return p
	}
	var s Scratch
	for kind, read := range normalizers {
		n, err := read(part(kind))
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		for _, text := range stageTexts {
			if out := n.normalize(nil, []byte(text), &s); !n.growth().holds(len(text), len(out)) && text != "" {
				t.Errorf("normalizer %s: %d bytes of %q, beyond %v", kind, len(out), text, n.growth())
			}
		}
	}
	for kind, read := range preTokenizers {
		steps, err := read(part(kind))
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		for _, text := range stageTexts[1:] {
			s.text, s.spans[0], s.first = []byte(text), []span{{0, len(text)}}, 0
			for _, st := range steps {
				before := len(s.text)
				if st.apply(&s); !st.growth().holds(before, len(s.text)) {
					t.Errorf("pre-tokenizer %s: %d bytes of %d of %q, beyond %v", kind, len(s.text), before, text, st.growth())
				}
			}
		}
	}
	for kind, read := range decoders {
		d, err := read(part(kind))
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		for _, text := range stageTexts {
			for _, count := range []int{1, 5} {
				var out collector
				head := d.open(&out)
				for i := range count {
					head.part(fmt.Appendf(nil, "%s%s", text, strings.Repeat("c", i)), true, false)
				}
				head.end()
				g, in := d.growth(), count*len(text)+count*(count-1)/2
				g.plus *= float64(count)
				if !g.holds(in, len(out.text)) {
					t.Errorf("decoder %s: %d bytes of %d tokens of %q, beyond %v", kind, len(out.text), count, text, g)
				}
			}
		}
	}
}

// TestGrowthOfKnownModels: the pipelines of models that are in use pass, the largest is ALBERT's.
func TestGrowthOfKnownModels(t *testing.T) {
	meta := `{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"}`
	nfkcLike := `{"type":"Precompiled","precompiled_charsmap":"` + charsmapOf("bbbbbbbbbbb") + `"}` // 11 times, as SentencePiece's
	for name, c := range map[string]struct {
		normalizer, pre string
		want            float64
	}{
		"Llama":  {sequenceOf("normalizers", 1, `{"type":"Prepend","prepend":"▁"}`, `{"type":"Replace","pattern":{"String":" "},"content":"▁"}`), `null`, 12},
		"XLM-R":  {sequenceOf("normalizers", 1, nfkcLike, `{"type":"Replace","pattern":{"Regex":" {2,}"},"content":"▁"}`), meta, 66},
		"ALBERT": {sequenceOf("normalizers", 1, `{"type":"NFKD"}`, `{"type":"StripAccents"}`, `{"type":"Lowercase"}`, nfkcLike, `{"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "}`), meta, 726},
		"BERT":   {`{"type":"BertNormalizer"}`, `{"type":"BertPreTokenizer"}`, 7.5},
	} {
		tok, err := FromJSON("f", []byte(`{"normalizer":`+c.normalizer+`,"pre_tokenizer":`+c.pre+wordLevel2), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if g := growthOf(tok.norm.growth(), tok.steps); g.per+g.plus != c.want {
			t.Errorf("%s: %v, expected %v", name, g, c.want)
		}
	}
}

// FuzzGrowth holds that no file makes more of a text than its stages say, that none that opens says more than
// maxGrowth, and that opening and using it allocates in proportion to file and text.
func FuzzGrowth(f *testing.F) {
	for _, g := range growing {
		f.Add([]byte(g.file), "a ab")
	}
	for _, file := range smallFiles {
		f.Add([]byte(file), " a b  ab\n<s>▁a 12")
	}
	f.Add([]byte(withNormalizer(sequenceOf("normalizers", 4, doubling))), "aaa\ufdfa")
	f.Add([]byte(`{"decoder":`+sequenceOf("decoders", 2, doubling, `{"type":"ByteLevel"}`)+wordLevel2), "ab")
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		if len(text) > 200 {
			return
		}
		in := appendValid(nil, text)
		n := allocated(func() {
			tok, err := FromJSON("f", file, nil)
			if err != nil {
				return
			}
			total := same
			if tok.norm != nil {
				total = tok.norm.growth()
				if out := tok.norm.normalize(nil, in, new(Scratch)); len(in) > 0 && !total.holds(len(in), len(out)) {
					t.Errorf("normalized to %d bytes of %d, beyond %v", len(out), len(in), total)
				}
			}
			total = growthOf(total, tok.steps).then(tok.model.growth())
			if total.check() != nil || tok.decoder.growth().check() != nil {
				t.Errorf("opened with growth %v and %v", total, tok.decoder.growth())
			}
			ids := tok.Encode(nil, text, Options{Special: true, ParseSpecial: true}, nil)
			if most := float64(len(in))*(total.per+total.plus) + maxFrame; float64(len(ids)) > most {
				t.Errorf("%d ids of %d bytes, expected at most %v", len(ids), len(in), most)
			}
			bytes := 0
			for _, id := range ids {
				token, _ := tok.Token(id)
				bytes += len(token)
			}
			g := tok.decoder.growth()
			// Broken UTF-8 becomes U+FFFD in the end: three bytes of one.
			if out := tok.Decode(ids, false); float64(len(out)) > 3*(g.per*float64(bytes)+g.plus*float64(len(ids))) {
				t.Errorf("decoded to %d bytes of %d in %d ids, beyond %v", len(out), bytes, len(ids), g)
			}
		})
		// A byte of text may take a span and a path beside what it grows to.
		if limit := int64(64*len(file)+slack) + int64(len(in)+maxFrame)*maxGrowth*64; n > limit {
			t.Errorf("%d bytes allocated for a file of %d and a text of %d, expected at most %d", n, len(file), len(in), limit)
		}
	})
}

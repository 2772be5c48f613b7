package learn

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// recipe is a kind of tokenizer: what tokenizer.json says besides the
// vocabulary. Parts are JSON.
type recipe struct {
	about   string
	model   string   // BPE or WordPiece
	cuts    []string // pre-tokenizers that it goes with, the default first
	special []string // tokens that it has unless the caller names others
	limit   int      // characters of the alphabet, 0: all
	chars   bool     // the alphabet is that of the texts; merges make characters, and nothing longer
}

var recipes = map[string]recipe{
	"bpe": {
		about: "merges of the most frequent pairs, of bytes or characters",
		model: "BPE", cuts: []string{"gpt2", "llama3", "metaspace", "whitespace", "whitespace-split"}, special: []string{"<|endoftext|>"},
	},
	"wordpiece": {
		about: "BERT's: words are covered by the longest tokens from the left",
		model: "WordPiece", cuts: []string{"bert", "whitespace", "whitespace-split"}, special: []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}, limit: 1000,
	},
	"char": {
		about: "every character of the texts is a token; other characters are dropped",
		model: "BPE", cuts: []string{"gpt2"}, special: []string{"<|endoftext|>"}, chars: true,
	},
}

// cut is a pre-tokenizer with the decoder that puts its pieces together.
type cut struct {
	about                 string
	preTokenizer, decoder string // JSON
}

const (
	byteLevel = `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}`
	bytesOnly = `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}`
	meta      = `{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true}`
)

var cuts = map[string]cut{
	"gpt2":             {"bytes, cut by GPT-2's pattern", byteLevel, byteLevel},
	"llama3":           {"bytes, cut by Llama 3's pattern: numbers have at most three digits", llama3, byteLevel},
	"metaspace":        {"words that begin with ▁ for a space", meta, meta},
	"whitespace":       {"words and punctuation; white space is dropped", `{"type":"Whitespace"}`, "null"},
	"whitespace-split": {"what lies between white space, which is dropped", `{"type":"WhitespaceSplit"}`, "null"},
	"bert":             {"words, every punctuation mark by itself; white space is dropped", `{"type":"BertPreTokenizer"}`, "null"},
}

const llama3 = `{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated","invert":false},` + bytesOnly + `]}`

// KindNames are the kinds of tokenizers, sorted.
func KindNames() []string { return slices.Sorted(maps.Keys(recipes)) }

// Kinds lists the kinds of tokenizers with a few words about each, for help
// texts.
func Kinds() string {
	return table(recipes, func(r recipe) string { return r.about + "; pre-tokenizers " + strings.Join(r.cuts, ", ") })
}

// PreTokenizers lists the ways to cut a text into words.
func PreTokenizers() string { return table(cuts, func(c cut) string { return c.about }) }

func table[R any](rows map[string]R, about func(R) string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(&b, "  %-17s %s\n", name, about(rows[name]))
	}
	return b.String()
}

// normalizer is the JSON of what happens to a text before it is cut.
func (o *Options) normalizer() string {
	if o.PreTokenizer == "bert" {
		return fmt.Sprintf(`{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":%t}`, !o.Cased)
	}
	return "null"
}

// unknown is the token for what the vocabulary lacks: a special token of a
// usual name, "" where there is none.
func (o *Options) unknown() string {
	for _, name := range []string{"[UNK]", "<unk>", "<UNK>"} {
		if slices.Contains(o.Special, name) {
			return name
		}
	}
	return ""
}

// frame is the JSON of what is added around a text.
func (o *Options) frame(bytes bool) string {
	cls, sep := slices.Index(o.Special, "[CLS]"), slices.Index(o.Special, "[SEP]")
	switch {
	case bytes:
		return `{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":false,"use_regex":true}`
	case recipes[o.Kind].model == "WordPiece" && cls >= 0 && sep >= 0:
		one := func(name string, id int) string {
			return fmt.Sprintf(`"%s":{"id":"%s","ids":[%d],"tokens":["%s"]}`, name, name, id, name)
		}
		return `{"type":"TemplateProcessing",` +
			`"single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}}],` +
			`"pair":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}},{"Sequence":{"id":"B","type_id":1}},{"SpecialToken":{"id":"[SEP]","type_id":1}}],` +
			`"special_tokens":{` + one("[CLS]", cls) + "," + one("[SEP]", sep) + `}}`
	}
	return "null"
}

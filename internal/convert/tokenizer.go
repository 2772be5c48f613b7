package convert

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"hotpath/internal/format/gguf"
	"hotpath/internal/tokenizer"
	"hotpath/internal/weights"
)

// tokenizerFile is the directory's tokenizer.
func (j *job) tokenizerFile() string { return filepath.Join(j.hf.Dir, "tokenizer.json") }

// openTokenizer opens the directory's tokenizer.
func (j *job) openTokenizer() error {
	if j.hf.TokenizerJSON == nil {
		return fmt.Errorf("%s: no such file: expected the tokenizer in this format: %w", j.tokenizerFile(), weights.ErrUnsupported)
	}
	config, err := j.hf.Read("tokenizer_config.json")
	if err != nil {
		return err
	}
	if j.own, err = tokenizer.FromJSON(j.tokenizerFile(), j.hf.TokenizerJSON, config); err != nil {
		return err
	}
	template, ok, err := j.hf.ChatTemplate()
	if ok {
		j.own = j.own.WithChatTemplate(template)
	}
	if ends, failed := j.hf.EndIDs(); failed != nil {
		err = errors.Join(err, failed)
	} else if ends != nil {
		j.own = j.own.WithEnds(ends)
	}
	return err
}

// beforePositions is how many rows of a position table come before that of a
// text's first token. Positions count what is no padding, from the padding's id
// plus one. In files they count all, which is the same where no text has
// padding, and where the padding begins every text and takes the row of its id.
func (j *job) beforePositions() int {
	pad := j.config.countOr(1, "pad_token_id")
	is := func(get func() (int32, bool)) bool { id, ok := get(); return ok && int(id) == pad }
	if is(j.own.EOS) || is(j.own.SEP) || is(j.own.UNK) {
		j.config.unsupported("pad_token_id", "%d, expected a token that no text has, because a GGUF file cannot say that it has no position", pad)
	}
	if full := j.own.Encode(nil, "a", tokenizer.Options{Special: true}, nil); len(full) > 0 && int(full[0]) == pad {
		return pad
	}
	return pad + 1
}

// tokenizer sets the keys of the tokenizer and holds what they say against
// the directory's own.
func (j *job) tokenizer() error {
	file, own := j.tokenizerFile(), j.own
	v, err := readVocabulary(file, j.hf.TokenizerJSON, j.rows())
	if err != nil {
		return err
	}
	if lost := v.carry(own); lost.n > 0 {
		j.warn("%s are tokens of the tokenizer without a row in the model's table, and none in its GGUF file: texts that have them differ", lost)
	}
	if v.loose.n > 0 {
		j.warn("%s in the tokenizer take white space beside them or need the ends of words (lstrip, rstrip, single_word), which a GGUF file cannot store", v.loose)
	}
	j.specials(v, own)
	if err := j.chooseSplit(v, own); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if t := own.ChatTemplate(); t != "" {
		v.addEntry("tokenizer.chat_template", t)
	}
	v.write(j.setGlobal)
	return j.err
}

// few names the first of a list, which may have millions, and counts the others.
type few struct {
	names [3]string
	n     int
}

func (f *few) addName(name string) {
	if f.n < len(f.names) {
		f.names[f.n] = name
	}
	f.n++
}

func (f few) String() string {
	var quoted []string
	for _, s := range f.names[:min(f.n, len(f.names))] {
		quoted = append(quoted, fmt.Sprintf("%q", s))
	}
	text := strings.Join(quoted, ", ")
	if n := f.n - len(quoted); n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// rows is the height of the token table, which the tokens have to fill.
func (j *job) rows() int {
	for _, r := range j.family.names {
		if r.to != "token_embd" {
			continue
		}
		for _, p := range append([]string{""}, j.family.prefixes...) {
			if t, err := j.in.Get(p + r.from + ".weight"); err == nil {
				return t.Dims[0]
			}
		}
	}
	return j.vocab
}

// specials sets the ids of special tokens and which of them a text gets. GGUF
// calls what begins and ends a text bos and eos in encoders too.
func (j *job) specials(v *vocabulary, own *tokenizer.Tokenizer) {
	n := int32(len(v.tokens))
	set := func(key string, get ...func() (int32, bool)) {
		for _, g := range get {
			if id, ok := g(); ok && id < n {
				v.addEntry("tokenizer.ggml."+key+"_token_id", uint32(id))
				return
			}
		}
	}
	set("bos", own.BOS, own.CLS)
	if ends := j.ends(own, n); len(ends) == 0 {
		set("eos", own.EOS, own.SEP)
	} else {
		if eot, ok := own.EOT(); ok && len(ends) == 1 && eot != ends[0] {
			ends = append(ends, ends[0]) // or readers guess that turns end generation
		}
		for i, id := range ends {
			v.addEntry("tokenizer.ggml."+endKeys[i]+"_token_id", uint32(id))
		}
	}
	set("unknown", own.UNK)
	set("seperator", own.SEP)
	set("padding", own.PAD)
	set("mask", own.MASK)
	plain := own.Encode(nil, "a", tokenizer.Options{}, nil)
	full := own.Encode(nil, "a", tokenizer.Options{Special: true}, nil)
	if at := indexOf(full, plain); at >= 0 && len(plain) > 0 {
		v.addEntry("tokenizer.ggml.add_bos_token", at > 0)
		v.addEntry("tokenizer.ggml.add_eos_token", at+len(plain) < len(full))
	}
	if j.family.encoder {
		v.addEntry("tokenizer.ggml.token_type_count", uint32(j.segments()))
	}
}

// endKeys are where a GGUF file says that generation ends: with the text, with a
// turn, with a message.
var endKeys = []string{"eos", "eot", "eom"}

// ends are the tokens at which generation ends, at most as many as files have
// keys for. The tokenizer's own end of a text comes first even where generation
// goes on behind it: files have one key for both, and chat templates use its
// token. Encoders have none.
func (j *job) ends(own *tokenizer.Tokenizer, tokens int32) []int32 {
	if j.family.encoder {
		return nil
	}
	var ids, beyond []int32
	for _, id := range own.Ends() {
		if id < tokens {
			ids = append(ids, id)
		} else {
			beyond = append(beyond, id)
		}
	}
	if len(beyond) > 0 {
		j.warn("generation ends at the tokens %v in this model, which has %d: they are left out", beyond, tokens)
	}
	if eos, ok := own.EOS(); ok && eos < tokens {
		i := slices.Index(ids, eos)
		if i < 0 {
			j.warn("generation does not end at token %d in this model, which ends its texts: it does in its GGUF file", eos)
		} else {
			ids = slices.Delete(ids, i, i+1)
		}
		ids = slices.Insert(ids, 0, eos)
	}
	if n := len(endKeys); len(ids) > n {
		j.warn("generation ends at %d tokens in this model, of which GGUF files can say %d: %v are left out", len(ids), n, ids[n:])
		ids = ids[:n]
	}
	return ids
}

// segments is how many rows of the table of segments are used: a tokenizer that
// does not tell the texts of a pair apart uses the first.
func (j *job) segments() int {
	told, err := j.hf.TellsSegments()
	j.config.keep(err)
	if n := j.config.countOr(1, "type_vocab_size"); told {
		return max(1, n)
	}
	return 1
}

// indexOf is where part lies in whole, -1 where it does not.
func indexOf(whole, part []int32) int {
	for i := 0; i+len(part) <= len(whole); i++ {
		if slices.Equal(whole[i:i+len(part)], part) {
			return i
		}
	}
	return -1
}

// splits are the names of ways to split texts before merges, as llama.cpp
// knows them; of several that do the same the best known comes first.
var splits = []string{"gpt-2", "llama-bpe", "qwen2", "smollm", "gpt-4o", "falcon", "deepseek-llm", "deepseek-coder", "deepseek-v3", "command-r",
	"starcoder", "refact", "mpt", "olmo", "dbrx", "stablelm2", "tekken", "poro-chat", "viking", "chatglm-bpe", "bloom", "gpt3-finnish"}

// probes tell ways to split apart.
var probes = []string{
	"Hello World, it's a test; they'LL don't WE'RE I'd",
	"numbers 1 12 123 1234 12345 123456789 3.14 -17 x86 1st 2nd ½ ٣٤٥ १२३",
	"  leading and   many    spaces\tand\ttabs \t mixed   ",
	"lines\nand\n\nempty ones\r\n \n  indented\n\n\n   more\n",
	"punctuation!!! ... -- (a) [b] {c} <d> \"quoted\" 'single' a/b\\c @x #y $5 100% ^ & * _ + = ~ `code`",
	"Grüße, naïve façade, Ωmega, Привет мир, こんにちは世界, 你好,世界。, 안녕하세요, مرحبا, שלום, नमस्ते, ไทย",
	"emoji 😀👍🏽 👨‍👩‍👧‍👦 🇩🇪 ❤️ zero\u200bwidth nb\u00a0space thin\u2009space",
	"wide digits １２３ ｘ１ and marks: x\u0301y a\u0323\u0301B",
	"camelCase PascalCase snake_case UPPERCASE iPhone McDonald O'Neil \u0301combining e\u0301",
	"def f(x):\n    return x**2  # comment\n\tif (a != b) { c += 1; }",
	"https://example.com/a?b=c&d=e user@example.com 2024-01-02T03:04:05Z v1.2.3-beta",
}

// chooseSplit finds a way to split under which the vocabulary gives the ids
// that the directory's own tokenizer gives. Of several the one that cuts texts
// alike is taken: ids may agree on the probes and differ elsewhere.
func (j *job) chooseSplit(v *vocabulary, own *tokenizer.Tokenizer) error {
	names := []string{v.pre}
	if v.model == "gpt2" {
		names = splits
	}
	best, least, wrong, alike := "", len(probes)+1, "", false
	for _, name := range names {
		v.pre = name
		other, err := v.open(j.arch)
		if err != nil {
			if len(names) == 1 {
				return err
			}
			continue // a way that hotpath does not know
		}
		bad, first, cuts := 0, "", true
		for _, text := range probes {
			cuts = cuts && slices.Equal(own.Pieces(text), other.Pieces(text))
			a := own.Encode(nil, text, tokenizer.Options{Special: true}, nil)
			b := other.Encode(nil, text, tokenizer.Options{Special: true}, nil)
			if !slices.Equal(a, b) {
				if bad++; first == "" {
					first = text
				}
			}
		}
		if bad < least || bad == least && cuts && !alike {
			best, least, wrong, alike = name, bad, first, cuts
		}
		if bad == 0 && cuts {
			break
		}
	}
	if best == "" {
		return fmt.Errorf("no tokenizer of GGUF files reads this vocabulary: %w", weights.ErrUnsupported)
	}
	v.pre = best
	if least > 0 {
		j.warn("the tokenizer of the GGUF file splits some texts otherwise than tokenizer.json (%d of %d probes, the first %q)", least, len(probes), wrong)
	}
	return nil
}

// open is the tokenizer that a GGUF file with this vocabulary has.
func (v *vocabulary) open(arch string) (*tokenizer.Tokenizer, error) {
	var w gguf.Writer
	var failed error
	set := func(key string, value any) {
		if err := w.Set(key, value); err != nil && failed == nil {
			failed = err
		}
	}
	set("general.architecture", arch)
	v.write(set)
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); failed == nil {
		failed = err
	}
	if failed != nil {
		return nil, failed
	}
	f, err := gguf.Parse("tokenizer", b.Bytes())
	if err != nil {
		return nil, err
	}
	return tokenizer.FromGGUF(f)
}

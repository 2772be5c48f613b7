// Package tokenizer turns text into token ids and back, as the model's own tokenizer does:
// WordPiece and byte-level BPE, read from GGUF metadata or from a Hugging Face tokenizer.json.
//
// A Tokenizer is a pipeline of small parts, each found by name in a table: added tokens are cut
// out of the text, what remains is normalized, cut into pieces by pre-tokenizers, and each piece
// becomes ids in the model. New kinds are a row in models, normalizers, preTokenizers, decoders,
// postProcessors (tokenizer.json) or ggufModels and ggufPre (GGUF).
//
// A Split expression that no hand-written matcher knows goes to a matcher of our own (pattern.go), which
// takes linear time and refuses what it cannot match as the reference does.
//
// The package imports format; model, engine, train and the commands import it. Everything that can be
// wrong with a file is an error of FromGGUF or FromJSON, which names the file or key, the field and what
// was expected, and wraps format.ErrUnsupported where a sound file has a kind of part that we do not know.
// Encode and Decode cannot fail: broken UTF-8 becomes U+FFFD and unknown ids decode to nothing; who wants to
// refuse those asks Token first.
package tokenizer

// Tokenizer is immutable and safe for concurrent use.
type Tokenizer struct {
	vocab   *vocab
	added   *addedTokens
	norm    normalizer // nil: the text as it is
	steps   []step     // applied in order to every stretch of text between added tokens
	model   model
	decoder decoder
	prefix  []int32 // added before the text by Options.Special, e.g. [CLS]
	suffix  []int32 // added after it, e.g. [SEP]
	named   namedIDs
	chat    string
}

// Options says what Encode does about special tokens.
type Options struct {
	Special      bool // add BOS, CLS, SEP or EOS as the model's own tokenizer does
	ParseSpecial bool // recognise special tokens inside the text (Hugging Face's default)
}

// Scratch holds the buffers of one goroutine's Encode calls. The zero value is ready.
type Scratch struct {
	clean []byte     // the text with broken UTF-8 replaced
	norm  [3][]byte  // [0] the normalized stretch, the others what a chain of normalizers passes on
	text  []byte     // what the spans point into: the normalized stretch, or a step's rewriting of it
	spare []byte     // the other text buffer, for steps that rewrite
	spans [2][]span  // pieces in order; steps read spans[0] and write spans[1]
	match []flagSpan // what a Split pattern found
	found []span     // where it found that, before what lies between
	bpe   bpeScratch
	cache *wordCache // made by the first Encode

	pattern patternScratch
}

// span is text[start:end] of Scratch.text.
type span struct{ start, end int }

// Encode appends the ids of text to dst. It allocates nothing once s is warm. A nil s is allowed.
func (t *Tokenizer) Encode(dst []int32, text string, o Options, s *Scratch) []int32 {
	if s == nil {
		s = new(Scratch)
	} else if s.cache == nil {
		s.cache = new(wordCache)
	}
	if o.Special {
		dst = append(dst, t.prefix...)
	}
	s.clean = appendValid(s.clean[:0], text)
	dst = t.added.raw.scan(dst, s.clean, o.ParseSpecial, func(dst []int32, part []byte) []int32 {
		return t.encodeStretch(dst, part, o, s)
	})
	if o.Special {
		dst = append(dst, t.suffix...)
	}
	return dst
}

// encodeStretch encodes the text between two added tokens that are matched before normalization.
func (t *Tokenizer) encodeStretch(dst []int32, part []byte, o Options, s *Scratch) []int32 {
	if t.norm != nil {
		s.norm[0] = t.norm.normalize(s.norm[0][:0], part, s)
		part = s.norm[0]
	}
	return t.added.normalized.scan(dst, part, o.ParseSpecial, func(dst []int32, part []byte) []int32 {
		return t.encodePieces(dst, part, s)
	})
}

// encodePieces cuts normalized text into pieces and encodes each.
func (t *Tokenizer) encodePieces(dst []int32, part []byte, s *Scratch) []int32 {
	s.text = append(s.text[:0], part...)
	s.spans[0] = append(s.spans[0][:0], span{0, len(part)})
	for _, st := range t.steps {
		st.apply(s)
	}
	for _, p := range s.spans[0] {
		switch {
		case p.start == p.end:
		case s.cache != nil:
			dst = s.cache.encode(dst, t.model, s.text[p.start:p.end], s)
		default:
			dst = t.model.encode(dst, s.text[p.start:p.end], s)
		}
	}
	return dst
}

// Token gives the vocabulary's own spelling of an id, e.g. "Ġhello" or "##ing".
func (t *Tokenizer) Token(id int32) (string, bool) { return t.vocab.token(id) }

// ID finds a token by the vocabulary's own spelling.
func (t *Tokenizer) ID(token string) (int32, bool) { return t.vocab.id(token) }

// Size is one more than the highest id.
func (t *Tokenizer) Size() int { return len(t.vocab.tokens) }

// IsSpecial tells whether Decode leaves the id out when skipSpecial is set.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.added.isSpecial(id) }

// ChatTemplate is the model's Jinja chat template, or "".
func (t *Tokenizer) ChatTemplate() string { return t.chat }

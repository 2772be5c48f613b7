// Package tokenizer turns text into token ids and back, as the model's own tokenizer does: BPE, byte-level
// or SentencePiece's, WordPiece, Unigram and WordLevel, read from GGUF metadata or from a Hugging Face
// tokenizer.json.
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

import (
	"slices"
	"unicode/utf8"
)

// Tokenizer is immutable and safe for concurrent use.
type Tokenizer struct {
	vocab      *vocab
	added      *addedTokens
	norm       normalizer // nil: the text as it is
	marksFirst bool       // a step asks whether a piece is the first
	steps      []step     // applied in order to every stretch of text between added tokens
	model      model
	decoder    decoder
	prefix     []int32 // added before the text by Options.Special, e.g. [CLS]
	suffix     []int32 // added after it, e.g. [SEP]
	named      namedIDs
	ends       []int32 // where generation ends, sorted; nil: where the named tokens say
	chat       string
}

// Options says what Encode does about special tokens, and when it gives up.
type Options struct {
	Special      bool // add BOS, CLS, SEP or EOS as the model's own tokenizer does
	ParseSpecial bool // recognise special tokens inside the text (Hugging Face's default)
	// Done ends a long text early when it is closed, as that of a context is: what Encode gives then is a
	// part of the ids. nil never ends it.
	Done <-chan struct{}
}

// ended reports whether nobody wants the ids any more.
func (o *Options) ended() bool {
	select {
	case <-o.Done:
		return true
	default:
		return false
	}
}

// Scratch holds the buffers of one goroutine's Encode calls. The zero value is ready.
type Scratch struct {
	clean []byte     // the text with broken UTF-8 replaced
	norm  [3][]byte  // [0] the normalized stretch, the others what a chain of normalizers passes on
	bert  [2][]byte  // what BERT's normalizer needs for itself
	text  []byte     // what the spans point into: the normalized stretch, or a step's rewriting of it
	spare []byte     // the other text buffer, for steps that rewrite
	spans [2][]span  // pieces in order; steps read spans[0] and write spans[1]
	match []flagSpan // what a Split pattern found
	found []span     // where it found that, before what lies between
	first int        // how many bytes of the stretch come from the first character of the text
	clip  []byte     // what follow tries out
	bpe   bpeScratch
	cache *wordCache // made by the first Encode

	unigram unigramScratch
	pattern patternScratch
	options Options // of the call, for models that take long over one piece
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
	dst = t.encodeText(dst, s.clean, o, s)
	if o.Special {
		dst = append(dst, t.suffix...)
	}
	return dst
}

// encodeText cuts out the added tokens that are matched before normalization.
func (t *Tokenizer) encodeText(dst []int32, text []byte, o Options, s *Scratch) []int32 {
	done := 0 // everything before it is encoded
	var spaces span
	for from := 0; !o.ended(); {
		start, end, resume, id, ok := t.added.raw.next(text, from, done, &spaces, &o)
		if !ok {
			break
		}
		if done < start {
			dst = t.encodeStretch(dst, text[done:start], done == 0, o, s)
		}
		dst = append(dst, id)
		done, from = end, resume
	}
	if done < len(text) && !o.ended() {
		dst = t.encodeStretch(dst, text[done:], done == 0, o, s)
	}
	return dst
}

// encodeStretch normalizes the text between two of those, and cuts out the others.
func (t *Tokenizer) encodeStretch(dst []int32, text []byte, first bool, o Options, s *Scratch) []int32 {
	begin := 0 // how many bytes come from the text's first character
	if first {
		_, begin = utf8.DecodeRune(text)
	}
	switch {
	case t.norm == nil:
	case t.marksFirst:
		s.norm[0], begin = follow(t.norm, s.norm[0][:0], text, begin, s)
		text = s.norm[0]
	default:
		s.norm[0] = t.norm.normalize(s.norm[0][:0], text, s)
		text = s.norm[0]
	}
	done := 0
	var spaces span
	for from := 0; ; {
		start, end, resume, id, ok := t.added.normalized.next(text, from, done, &spaces, &o)
		if !ok {
			break
		}
		if done < start {
			dst = t.encodePieces(dst, text[done:start], begin-done, &o, s)
		}
		dst = append(dst, id)
		done, from = end, resume
	}
	if done < len(text) {
		dst = t.encodePieces(dst, text[done:], begin-done, &o, s)
	}
	return dst
}

const (
	// piecesBetween is how many pieces are encoded between two looks at Options.Done: some microseconds.
	piecesBetween = 256
	// placesBetween is how many places of a text are tried between two such looks, where each may take some
	// microseconds.
	placesBetween = 1024
)

// encodePieces cuts normalized text into pieces and encodes each.
func (t *Tokenizer) encodePieces(dst []int32, part []byte, first int, o *Options, s *Scratch) []int32 {
	s.first, s.options = first, *o
	s.text = append(s.text[:0], part...)
	s.spans[0] = append(s.spans[0][:0], span{0, len(part)})
	for _, st := range t.steps {
		if o.ended() {
			return dst
		}
		st.apply(s)
	}
	for i, p := range s.spans[0] {
		if i%piecesBetween == 0 && o.ended() {
			return dst
		}
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
func (t *Tokenizer) Token(id int32) (string, bool) {
	if s, ok := t.added.spelled[id]; ok {
		return s, true
	}
	return t.vocab.token(id)
}

// ID finds a token by the vocabulary's own spelling.
func (t *Tokenizer) ID(token string) (int32, bool) { return t.vocab.id(token) }

// Size is one more than the highest id.
func (t *Tokenizer) Size() int { return len(t.vocab.at) }

// Frame is what Options.Special adds before and after a text.
func (t *Tokenizer) Frame() (prefix, suffix []int32) { return t.prefix, t.suffix }

// IsSpecial tells whether Decode leaves the id out when skipSpecial is set.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.added.special.has(id) }

// Stretches tells whether the id is of an added token that takes white space
// beside it, or is none inside a word.
func (t *Tokenizer) Stretches(id int32) bool {
	has := func(e addedToken) bool {
		return e.id == id && e.flags&(addedLstrip|addedRstrip|addedSingleWord) != 0
	}
	return slices.ContainsFunc(t.added.raw.entries, has) || slices.ContainsFunc(t.added.normalized.entries, has)
}

// ChatTemplate is the model's Jinja chat template, or "".
func (t *Tokenizer) ChatTemplate() string { return t.chat }

// WithEnds is the tokenizer with other tokens at which generation ends, as the
// model's files beside the tokenizer's name them; it ends nowhere with none.
func (t *Tokenizer) WithEnds(ids []int32) *Tokenizer {
	other := *t
	other.ends = append(make([]int32, 0, len(ids)), ids...) // nil would mean that nobody said
	slices.Sort(other.ends)
	other.ends = slices.Compact(other.ends)
	return &other
}

// WithChatTemplate is the tokenizer with another template, which lies in a file
// of its own (chat_template.jinja).
func (t *Tokenizer) WithChatTemplate(template string) *Tokenizer {
	other := *t
	other.chat = template
	return &other
}

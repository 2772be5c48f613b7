package hotpath

import (
	"hotpath/internal/model"
	"hotpath/internal/tokenizer"
	"hotpath/internal/weights"
)

// Tokenizer turns texts into token ids and back. Every Model is one.
type Tokenizer struct{ tok *tokenizer.Tokenizer }

// OpenTokenizer opens the tokenizer of a model alone: nothing else of it is
// kept open, and a GGUF file that holds a vocabulary and no weights will do.
func OpenTokenizer(path string) (t *Tokenizer, err error) {
	defer guard(&err)
	st, err := weights.Open(path)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	tok, err := model.ReadTokenizer(st)
	if err != nil {
		return nil, err
	}
	return &Tokenizer{tok}, nil
}

// Tokenize turns text into token ids. special adds what the model's own
// tokenizer adds around a text, such as [CLS] and [SEP].
func (t *Tokenizer) Tokenize(text string, special bool) []int32 {
	return t.tok.Encode(nil, text, tokenizer.Options{Special: special, ParseSpecial: true}, nil)
}

// Detokenize turns token ids into text; special says whether special tokens
// show.
func (t *Tokenizer) Detokenize(ids []int32, special bool) string { return t.tok.Decode(ids, !special) }

// Valid tells whether the vocabulary has an id. Detokenize leaves the others out.
func (t *Tokenizer) Valid(id int32) bool {
	_, ok := t.tok.Token(id)
	return ok
}

// Size is one more than the highest id.
func (t *Tokenizer) Size() int { return t.tok.Size() }

// Token is the vocabulary's own spelling of an id, "" where there is none.
func (t *Tokenizer) Token(id int32) string {
	s, _ := t.tok.Token(id)
	return s
}

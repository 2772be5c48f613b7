package hotpath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"hotpath/internal/engine"
	"hotpath/internal/model"
	"hotpath/internal/tokenizer"
	"hotpath/internal/weights"
)

// Tokenizer turns texts into token ids and back. Every Model is one. It is safe
// for concurrent use. The zero Tokenizer has no tokens.
type Tokenizer struct {
	tok     *tokenizer.Tokenizer
	batches sync.Pool // of *tokenizer.Batch: a warm one knows the words of the texts before
}

// OpenTokenizer opens the tokenizer of a model alone: nothing else of it is
// kept open, and a GGUF file that holds a vocabulary and no weights will do, as
// will a folder with a tokenizer.json and no model.
func OpenTokenizer(path string) (t *Tokenizer, err error) {
	defer engine.Guard(&err)
	st, err := weights.Open(path)
	if _, none := os.Stat(filepath.Join(path, "tokenizer.json")); errors.Is(err, weights.ErrNotModel) && none == nil {
		tok, err := model.ReadTokenizerDir(path)
		if err != nil {
			return nil, err
		}
		return &Tokenizer{tok: tok}, nil
	}
	if err != nil {
		return nil, err
	}
	defer st.Close()
	tok, err := model.ReadTokenizer(st)
	if err != nil {
		return nil, err
	}
	return &Tokenizer{tok: tok}, nil
}

// Tokenize turns text into token ids. special adds what the model's own
// tokenizer adds around a text, such as [CLS] and [SEP].
func (t *Tokenizer) Tokenize(text string, special bool) []int32 {
	return t.TokenizeAll([]string{text}, special)[0]
}

// TokenizeAll is Tokenize of many texts, on all processors where there is
// enough to do.
func (t *Tokenizer) TokenizeAll(texts []string, special bool) [][]int32 {
	out, err := t.TokenizeAllContext(context.Background(), texts, special)
	if err != nil {
		return make([][]int32, len(texts)) // a defect of the tokenizer, which TokenizeAllContext reports
	}
	return out
}

// TokenizeAllContext is TokenizeAll that ends with ctx, between texts and
// within long ones.
func (t *Tokenizer) TokenizeAllContext(ctx context.Context, texts []string, special bool) (_ [][]int32, err error) {
	defer engine.Guard(&err)
	if t.tok == nil {
		return nil, fmt.Errorf("%w: this Tokenizer was not opened", ErrClosed)
	}
	if err := needContext(ctx); err != nil {
		return nil, err
	}
	b, ok := t.batches.Get().(*tokenizer.Batch)
	if !ok {
		b = new(tokenizer.Batch)
	}
	t.tok.EncodeBatch(b, texts, tokenizer.Options{Special: special, ParseSpecial: true, Done: ctx.Done()}, 0)
	if ctx.Err() != nil {
		t.batches.Put(b)
		return nil, context.Cause(ctx)
	}
	total := 0
	for i := range texts {
		total += len(b.IDs(i))
	}
	flat, out := make([]int32, 0, total), make([][]int32, len(texts))
	for i := range texts {
		from := len(flat)
		flat = append(flat, b.IDs(i)...)
		out[i] = flat[from:len(flat):len(flat)]
	}
	t.batches.Put(b) // not after a panic
	return out, nil
}

// Detokenize turns token ids into text; special says whether special tokens
// show.
func (t *Tokenizer) Detokenize(ids []int32, special bool) string {
	if t.tok == nil {
		return ""
	}
	return t.tok.Decode(ids, !special)
}

// Valid tells whether the vocabulary has an id. Detokenize leaves the others out.
func (t *Tokenizer) Valid(id int32) bool {
	_, ok := t.token(id)
	return ok
}

// Size is one more than the highest id.
func (t *Tokenizer) Size() int {
	if t.tok == nil {
		return 0
	}
	return t.tok.Size()
}

// Token is the vocabulary's own spelling of an id, "" where there is none.
func (t *Tokenizer) Token(id int32) string {
	s, _ := t.token(id)
	return s
}

func (t *Tokenizer) token(id int32) (string, bool) {
	if t.tok == nil {
		return "", false
	}
	return t.tok.Token(id)
}

package model

import (
	"fmt"
	"path/filepath"

	"hotpath/internal/tokenizer"
	"hotpath/internal/weights"
)

// Tokenizer is the model's own tokenizer, read when first asked for. It may
// know more tokens than the model's table has rows: ids are to be checked
// against Config.Vocab.
func (m *Model) Tokenizer() (*tokenizer.Tokenizer, error) {
	m.tok.once.Do(func() { m.tok.t, m.tok.err = ReadTokenizer(m.store) })
	return m.tok.t, m.tok.err
}

// ReadTokenizer reads the tokenizer of a file that may have no weights.
func ReadTokenizer(st *weights.Store) (*tokenizer.Tokenizer, error) {
	if f := st.GGUF(); f != nil {
		return tokenizer.FromGGUF(f)
	}
	h := st.HF()
	file := filepath.Join(h.Dir, "tokenizer.json")
	if h.TokenizerJSON == nil {
		return nil, fmt.Errorf("%s: no such file; expected the tokenizer in this form, other forms (vocab.txt, tokenizer.model) are %w", file, weights.ErrUnsupported)
	}
	config, err := h.Read("tokenizer_config.json")
	if err != nil {
		return nil, err
	}
	return tokenizer.FromJSON(file, h.TokenizerJSON, config)
}

package model

import (
	"encoding/json"
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
	t, err := readTokenizer(st)
	return t, weights.Damage(err)
}

func readTokenizer(st *weights.Store) (*tokenizer.Tokenizer, error) {
	if f := st.GGUF(); f != nil {
		return tokenizer.FromGGUF(f)
	}
	h := st.HF()
	file := filepath.Join(h.Dir, "tokenizer.json")
	if h.TokenizerJSON == nil {
		return nil, fmt.Errorf("%s: no such file: expected the tokenizer in this format, vocab.txt and tokenizer.model are %w", file, weights.ErrUnsupported)
	}
	config, err := h.Read("tokenizer_config.json")
	if err != nil {
		return nil, err
	}
	data, err := rewrittenTokenizer(file, h)
	if err != nil {
		return nil, err
	}
	t, err := tokenizer.FromJSON(file, data, config)
	if err != nil {
		return nil, err
	}
	return around(t, h)
}

// around is a tokenizer with what the files beside its own say of it: a chat
// template, and where generation ends.
func around(t *tokenizer.Tokenizer, h *weights.HFDir) (*tokenizer.Tokenizer, error) {
	template, ok, err := h.ChatTemplate()
	if err != nil {
		return nil, err
	}
	if ok {
		t = t.WithChatTemplate(template)
	}
	ends, err := h.EndIDs()
	if err != nil {
		return nil, err
	}
	if ends != nil {
		t = t.WithEnds(ends)
	}
	return t, nil
}

// rewrittenTokenizer is tokenizer.json as the model around it uses it: a static
// table wants nothing around texts, and sentence_bert_config.json may ask for
// small letters.
func rewrittenTokenizer(file string, h *weights.HFDir) ([]byte, error) {
	lower := false
	if h.SentenceBert != nil {
		var err error
		if lower, err = h.SentenceBert.BoolOr("do_lower_case", false); err != nil {
			return nil, err
		}
	}
	static := isStatic(h)
	if !static && !lower {
		return h.TokenizerJSON, nil
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(h.TokenizerJSON, &parts); err != nil {
		return nil, fmt.Errorf("%s: %v: %w", file, err, weights.ErrInvalid)
	}
	if static {
		delete(parts, "post_processor")
	}
	if lower {
		const small = `{"type":"Lowercase"}`
		if n, ok := parts["normalizer"]; ok && string(n) != "null" {
			parts["normalizer"] = json.RawMessage(`{"type":"Sequence","normalizers":[` + small + `,` + string(n) + `]}`)
		} else {
			parts["normalizer"] = json.RawMessage(small)
		}
	}
	return json.Marshal(parts)
}

// ReadTokenizerDir reads the tokenizer of a folder that has a tokenizer.json
// and no model beside it.
func ReadTokenizerDir(dir string) (*tokenizer.Tokenizer, error) {
	h := &weights.HFDir{Dir: dir}
	data, err := h.Read("tokenizer.json")
	if err != nil {
		return nil, err
	}
	config, err := h.Read("tokenizer_config.json")
	if err != nil {
		return nil, err
	}
	t, err := tokenizer.FromJSON(filepath.Join(dir, "tokenizer.json"), data, config)
	if err != nil {
		return nil, weights.Damage(err)
	}
	template, ok, err := h.ChatTemplate()
	if ok {
		t = t.WithChatTemplate(template)
	}
	return t, err
}

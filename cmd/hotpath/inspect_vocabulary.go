package main

import (
	"fmt"

	"hotpath"
	"hotpath/internal/weights"
)

// vocabulary is what a file knows about tokens, also one without weights.
type vocabulary struct {
	Kind        string `json:"kind,omitempty"` // as the file spells it
	Pre         string `json:"pre_tokenizer,omitempty"`
	Tokens      int    `json:"tokens"`
	Unsupported string `json:"unsupported,omitempty"` // why hotpath cannot tokenize with it
}

// readVocabulary describes the tokenizer of a model, nil where there is none.
func readVocabulary(path string, st *weights.Store) *vocabulary {
	v := &vocabulary{}
	if f := st.GGUF(); f != nil {
		kind, ok := f.Value("tokenizer.ggml.model")
		if !ok {
			return nil
		}
		v.Kind, _ = kind.Text()
		if pre, ok := f.Value("tokenizer.ggml.pre"); ok {
			v.Pre, _ = pre.Text()
		}
		if tokens, ok := f.Value("tokenizer.ggml.tokens"); ok {
			v.Tokens = tokens.Len()
		}
	} else if h := st.HF(); h.TokenizerConfig != nil {
		v.Kind, _ = h.TokenizerConfig.StringOr("tokenizer_class", "")
	}
	tok, err := hotpath.OpenTokenizer(path)
	if err != nil {
		v.Unsupported = err.Error()
		return v
	}
	v.Tokens = tok.Size()
	return v
}

// architecture is what the file says it is, whether hotpath knows it or not.
func architecture(st *weights.Store) string {
	var name string
	if f := st.GGUF(); f != nil {
		if v, ok := f.Value("general.architecture"); ok {
			name, _ = v.Text()
		}
		return name
	}
	name, _ = st.HF().Config.StringOr("model_type", "")
	return name
}

// rows describe the vocabulary of a file that cannot run.
func (v *vocabulary) rows() [][2]string {
	if v == nil {
		return nil
	}
	kind := v.Kind
	if v.Pre != "" {
		kind += " (" + v.Pre + ")"
	}
	out := [][2]string{{"vocabulary", fmt.Sprintf("%d tokens", v.Tokens)}, {"tokenizer", kind}}
	if v.Unsupported == "" {
		return append(out, [2]string{"for", "tokenize"})
	}
	return append(out, [2]string{"no tokenizer", oneLine(v.Unsupported)})
}

package weights

import "slices"

// TellsSegments reports whether the tokenizer tells a model which text of a
// pair a token belongs to. A list of the model's inputs says so; without one
// all do but those of the class that transformers 5 gives to tokenizers without
// one of their own.
func (h *HFDir) TellsSegments() (bool, error) {
	c := h.TokenizerConfig
	if c == nil {
		return true, nil
	}
	if key := "model_input_names"; c.Has(key) {
		names, err := c.Strings(key)
		return slices.Contains(names, "token_type_ids"), err
	}
	class, err := c.StringOr("tokenizer_class", "")
	return class != "TokenizersBackend", err
}

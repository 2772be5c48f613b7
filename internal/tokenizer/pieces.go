package tokenizer

// Pieces gives what the model would get of a text: normalized and cut by the pre-tokenizers, special
// tokens not parsed. Two tokenizers that give the same pieces of every text differ in their vocabulary only.
func (t *Tokenizer) Pieces(text string) []string {
	r := recorder{model: t.model}
	other := *t
	other.model = &r
	other.encodeText(nil, appendValid(nil, text), Options{}, new(Scratch))
	return r.pieces
}

// recorder is a model that keeps what it gets.
type recorder struct {
	model
	pieces []string
}

func (r *recorder) encode(dst []int32, word []byte, _ *Scratch) []int32 {
	r.pieces = append(r.pieces, string(word))
	return dst
}

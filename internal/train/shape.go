package train

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Shape describes a model that is trained from random weights, in place of
// files that have one.
type Shape struct {
	Architecture string  `json:"architecture"` // llama (default), gpt2 or bert
	DModel       int     `json:"d_model"`      // width of the residual stream
	NLayers      int     `json:"n_layers"`
	NHeads       int     `json:"n_heads"`
	NKVHeads     int     `json:"n_kv_heads"` // of llama; 0 (default): n_heads
	DFF          int     `json:"d_ff"`       // 0 (default): 4*d_model, of llama 8/3*d_model rounded up to 32
	Vocab        int     `json:"vocab"`      // 0 (default): as many tokens as the tokenizer has
	Context      int     `json:"context"`    // most tokens of a sequence: 1024
	Tied         bool    `json:"tied"`       // the head is the token table: true
	RopeTheta    float64 `json:"rope_theta"` // of llama: 10000
	// Tokenizer is made from the data: "char" (one token per character), "bpe" or
	// "wordpiece" (of Vocab tokens); or it is a folder with tokenizer.json, or
	// that file.
	Tokenizer string `json:"tokenizer"`
}

// DefaultShape has every default; the sizes and the tokenizer are to be set.
func DefaultShape() Shape {
	return Shape{Architecture: "llama", Context: 1024, Tied: true, RopeTheta: 10000}
}

// sizedTokenizers are made from the data and have as many tokens as the shape
// says; a char tokenizer has what the data need.
var sizedTokenizers = []string{"bpe", "wordpiece"}

// madeTokenizers are all that are made from the data.
var madeTokenizers = append([]string{"char"}, sizedTokenizers...)

// padding is how many rows a token table may have beyond the tokenizer's ids:
// people round up to a multiple of 64 or 128.
const padding = 127

// Bounds of a described model: larger values are taken for typing errors.
const (
	maxWidth   = 1 << 16
	maxLayers  = 1 << 10
	maxRows    = 1 << 22
	maxContext = 1 << 22
)

// validate returns the error of the first invalid field.
func (s *Shape) validate(c *Config) error {
	within := func(name string, v, least, most int) check {
		return check{name, v >= least && v <= most, fmt.Sprintf("%d to %d", least, most), v}
	}
	divides := func(name, of string, v, n int) check {
		want := fmt.Sprintf("a multiple of %s (%d)", of, n)
		if n > 0 && v > n {
			want += fmt.Sprintf(", such as %d or %d", v/n*n, (v/n+1)*n)
		}
		return check{name, n > 0 && v%n == 0, want, v}
	}
	kv := max(s.NKVHeads, 0)
	if kv == 0 {
		kv = s.NHeads
	}
	return firstWrong("model.", []check{
		oneOf("architecture", s.Architecture, slices.Sorted(maps.Keys(architectures))),
		within("d_model", s.DModel, 1, maxWidth),
		within("n_layers", s.NLayers, 1, maxLayers),
		within("n_heads", s.NHeads, 1, maxWidth),
		divides("d_model", "n_heads", s.DModel, s.NHeads),
		{"n_heads", s.Architecture != "llama" || s.NHeads == 0 || s.DModel/s.NHeads%2 == 0, "heads of an even size, for positions that rotate pairs", s.NHeads},
		within("n_kv_heads", s.NKVHeads, 0, s.NHeads),
		{"n_kv_heads", s.Architecture == "llama" || s.NKVHeads == 0 || s.NKVHeads == s.NHeads, "n_heads in this architecture", s.NKVHeads},
		divides("n_heads", "n_kv_heads", s.NHeads, kv),
		within("d_ff", s.DFF, 0, 1<<20),
		within("vocab", s.Vocab, 0, maxRows),
		within("context", s.Context, 2, maxContext),
		{"context", c.SeqLen <= s.Context, fmt.Sprintf("at least seq_len (%d)", c.SeqLen), s.Context},
		{"rope_theta", s.RopeTheta > 0 && fits32(s.RopeTheta), "a positive number that fits 32 bits", s.RopeTheta},
		{"tied", s.Architecture != "bert" || s.Tied, "true in this architecture", s.Tied},
		{"tokenizer", s.Tokenizer != "", `"char", "bpe", "wordpiece", or a folder with tokenizer.json`, s.Tokenizer},
		{"vocab", s.Vocab > 0 || !slices.Contains(sizedTokenizers, s.Tokenizer), "the number of tokens to learn", s.Vocab},
	})
}

// sized is the shape with the sizes that follow from others.
func (s Shape) sized() Shape {
	if s.NKVHeads == 0 {
		s.NKVHeads = s.NHeads
	}
	if s.DFF == 0 {
		s.DFF = 4 * s.DModel
		if s.Architecture == "llama" {
			s.DFF = (8*s.DModel/3 + 31) / 32 * 32
		}
	}
	return s
}

// complete is the shape with every size that has a default filled in, for a
// tokenizer of so many tokens.
func (s Shape) complete(tokens int) (Shape, error) {
	if s = s.sized(); s.Vocab == 0 {
		s.Vocab = tokens
	}
	if s.Vocab < tokens || s.Vocab > tokens+padding {
		if slices.Contains(sizedTokenizers, s.Tokenizer) {
			return s, fmt.Errorf("field model.vocab: expected %d, as many tokens as %s finds in the data, or up to %d more, found %d: %w", tokens, s.Tokenizer, padding, s.Vocab, ErrConfig)
		}
		return s, fmt.Errorf("field model.vocab: expected %d, as many tokens as %s has, or up to %d more, found %d: %w", tokens, s.Tokenizer, padding, s.Vocab, ErrConfig)
	}
	return s, nil
}

// architectures are the files of each architecture: config.json, and the dimensions
// of tensors by name. "{}" stands for the layer.
var architectures = map[string]struct {
	config  func(s Shape) map[string]any
	tensors func(s Shape) map[string][]int
}{
	"llama": {llamaConfig, llamaTensors},
	"gpt2":  {gpt2Config, gpt2Tensors},
	"bert":  {bertConfig, bertTensors},
}

func llamaConfig(s Shape) map[string]any {
	return map[string]any{
		"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5,
		"hidden_size": s.DModel, "num_hidden_layers": s.NLayers, "num_attention_heads": s.NHeads, "num_key_value_heads": s.NKVHeads,
		"head_dim": s.DModel / s.NHeads, "intermediate_size": s.DFF, "vocab_size": s.Vocab, "max_position_embeddings": s.Context,
		"rope_theta": s.RopeTheta, "tie_word_embeddings": s.Tied, "attention_bias": false, "mlp_bias": false,
	}
}

func llamaTensors(s Shape) map[string][]int {
	d, kv := s.DModel, s.DModel/s.NHeads*s.NKVHeads
	t := map[string][]int{
		"model.embed_tokens.weight":                       {s.Vocab, d},
		"model.layers.{}.input_layernorm.weight":          {d},
		"model.layers.{}.self_attn.q_proj.weight":         {d, d},
		"model.layers.{}.self_attn.k_proj.weight":         {kv, d},
		"model.layers.{}.self_attn.v_proj.weight":         {kv, d},
		"model.layers.{}.self_attn.o_proj.weight":         {d, d},
		"model.layers.{}.post_attention_layernorm.weight": {d},
		"model.layers.{}.mlp.gate_proj.weight":            {s.DFF, d},
		"model.layers.{}.mlp.up_proj.weight":              {s.DFF, d},
		"model.layers.{}.mlp.down_proj.weight":            {d, s.DFF},
		"model.norm.weight":                               {d},
	}
	if !s.Tied {
		t["lm_head.weight"] = []int{s.Vocab, d}
	}
	return t
}

func gpt2Config(s Shape) map[string]any {
	return map[string]any{
		"architectures": []string{"GPT2LMHeadModel"}, "model_type": "gpt2", "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
		"n_embd": s.DModel, "n_layer": s.NLayers, "n_head": s.NHeads, "n_inner": s.DFF, "vocab_size": s.Vocab,
		"n_positions": s.Context, "n_ctx": s.Context, "tie_word_embeddings": s.Tied,
	}
}

func gpt2Tensors(s Shape) map[string][]int {
	d := s.DModel
	t := map[string][]int{
		"transformer.wte.weight":              {s.Vocab, d},
		"transformer.wpe.weight":              {s.Context, d},
		"transformer.h.{}.ln_1.weight":        {d},
		"transformer.h.{}.ln_1.bias":          {d},
		"transformer.h.{}.attn.c_attn.weight": {d, 3 * d},
		"transformer.h.{}.attn.c_attn.bias":   {3 * d},
		"transformer.h.{}.attn.c_proj.weight": {d, d},
		"transformer.h.{}.attn.c_proj.bias":   {d},
		"transformer.h.{}.ln_2.weight":        {d},
		"transformer.h.{}.ln_2.bias":          {d},
		"transformer.h.{}.mlp.c_fc.weight":    {d, s.DFF},
		"transformer.h.{}.mlp.c_fc.bias":      {s.DFF},
		"transformer.h.{}.mlp.c_proj.weight":  {s.DFF, d},
		"transformer.h.{}.mlp.c_proj.bias":    {d},
		"transformer.ln_f.weight":             {d},
		"transformer.ln_f.bias":               {d},
	}
	if !s.Tied {
		t["lm_head.weight"] = []int{s.Vocab, d}
	}
	return t
}

func bertConfig(s Shape) map[string]any {
	return map[string]any{
		"architectures": []string{"BertModel"}, "model_type": "bert", "hidden_act": "gelu", "layer_norm_eps": 1e-12,
		"hidden_size": s.DModel, "num_hidden_layers": s.NLayers, "num_attention_heads": s.NHeads, "intermediate_size": s.DFF,
		"vocab_size": s.Vocab, "max_position_embeddings": s.Context, "type_vocab_size": 2, "position_embedding_type": "absolute",
	}
}

func bertTensors(s Shape) map[string][]int {
	d := s.DModel
	t := map[string][]int{
		"embeddings.word_embeddings.weight":       {s.Vocab, d},
		"embeddings.position_embeddings.weight":   {s.Context, d},
		"embeddings.token_type_embeddings.weight": {2, d},
	}
	for name, out := range map[string][2]int{
		"attention.self.query": {d, d}, "attention.self.key": {d, d}, "attention.self.value": {d, d},
		"attention.output.dense": {d, d}, "intermediate.dense": {s.DFF, d}, "output.dense": {d, s.DFF},
	} {
		t["encoder.layer.{}."+name+".weight"], t["encoder.layer.{}."+name+".bias"] = out[:], []int{out[0]}
	}
	for _, name := range []string{"embeddings.LayerNorm", "encoder.layer.{}.attention.output.LayerNorm", "encoder.layer.{}.output.LayerNorm"} {
		t[name+".weight"], t[name+".bias"] = []int{d}, []int{d}
	}
	return t
}

// layout is config.json with the tokenizer's ids in it, and the dimensions of
// every tensor.
func (s Shape) layout(ids map[string]any) ([]byte, map[string][]int, error) {
	l := architectures[s.Architecture]
	fields := l.config(s)
	maps.Copy(fields, ids)
	config, err := json.MarshalIndent(fields, "", "  ")
	dims := map[string][]int{}
	for name, d := range l.tensors(s) {
		for i := range s.NLayers {
			dims[strings.Replace(name, "{}", strconv.Itoa(i), 1)] = d
		}
	}
	return config, dims, err
}

package convert

// rename is where a tensor of a directory goes, both without their ending
// .weight or .bias. "{}" stands for the layer and "{e}" for the expert, which
// become one tensor.
type rename struct {
	from, to string
	how      change
}

// Names are given without the prefix of the whole model. q and k of families
// whose rows are turned are told by where they go.
var decoderNames = []rename{
	{from: "embed_tokens", to: "token_embd"},
	{from: "norm", to: "output_norm"},
	{from: "lm_head", to: "output"},
	{from: "layers.{}.input_layernorm", to: "blk.{}.attn_norm"},
	{from: "layers.{}.post_attention_layernorm", to: "blk.{}.ffn_norm"},
	{from: "layers.{}.self_attn.q_proj", to: "blk.{}.attn_q"},
	{from: "layers.{}.self_attn.k_proj", to: "blk.{}.attn_k"},
	{from: "layers.{}.self_attn.v_proj", to: "blk.{}.attn_v"},
	{from: "layers.{}.self_attn.o_proj", to: "blk.{}.attn_output"},
	{from: "layers.{}.self_attn.q_norm", to: "blk.{}.attn_q_norm"},
	{from: "layers.{}.self_attn.k_norm", to: "blk.{}.attn_k_norm"},
	{from: "layers.{}.mlp.gate_proj", to: "blk.{}.ffn_gate"},
	{from: "layers.{}.mlp.up_proj", to: "blk.{}.ffn_up"},
	{from: "layers.{}.mlp.down_proj", to: "blk.{}.ffn_down"},
	{from: "layers.{}.block_sparse_moe.gate", to: "blk.{}.ffn_gate_inp"},
	{from: "layers.{}.block_sparse_moe.experts.{e}.w1", to: "blk.{}.ffn_gate_exps"},
	{from: "layers.{}.block_sparse_moe.experts.{e}.w2", to: "blk.{}.ffn_down_exps"},
	{from: "layers.{}.block_sparse_moe.experts.{e}.w3", to: "blk.{}.ffn_up_exps"},
	{from: "layers.{}.mlp.gate", to: "blk.{}.ffn_gate_inp"},
	{from: "layers.{}.mlp.shared_expert_gate", to: "blk.{}.ffn_gate_inp_shexp"},
	{from: "layers.{}.mlp.shared_expert.gate_proj", to: "blk.{}.ffn_gate_shexp"},
	{from: "layers.{}.mlp.shared_expert.up_proj", to: "blk.{}.ffn_up_shexp"},
	{from: "layers.{}.mlp.shared_expert.down_proj", to: "blk.{}.ffn_down_shexp"},
	{from: "layers.{}.mlp.experts.{e}.gate_proj", to: "blk.{}.ffn_gate_exps"},
	{from: "layers.{}.mlp.experts.{e}.up_proj", to: "blk.{}.ffn_up_exps"},
	{from: "layers.{}.mlp.experts.{e}.down_proj", to: "blk.{}.ffn_down_exps"},
}

// other is a table with rows before another one's, which come first.
func other(rest []rename, rows ...rename) []rename { return append(rows, rest...) }

var olmoNames = other(decoderNames,
	rename{from: "layers.{}.post_attention_layernorm", to: "blk.{}.post_attention_norm"},
	rename{from: "layers.{}.post_feedforward_layernorm", to: "blk.{}.post_ffw_norm"},
)

var gemmaNames = other(decoderNames,
	rename{from: "layers.{}.post_attention_layernorm", to: "blk.{}.post_attention_norm"},
	rename{from: "layers.{}.pre_feedforward_layernorm", to: "blk.{}.ffn_norm"},
	rename{from: "layers.{}.post_feedforward_layernorm", to: "blk.{}.post_ffw_norm"},
)

// plusOne has Gemma's norms, whose weights count from 1 in the directory.
func plusOne(rows []rename) []rename {
	out := append([]rename{}, rows...)
	for i, r := range out {
		if n := len(r.to); n >= 4 && r.to[n-4:] == "norm" {
			out[i].how = addOne
		}
	}
	return out
}

var phi3Names = other(decoderNames,
	rename{from: "layers.{}.self_attn.qkv_proj", to: "blk.{}.attn_qkv"},
	rename{from: "layers.{}.mlp.gate_up_proj", to: "blk.{}.ffn_up"},
)

var phi2Names = other(decoderNames,
	rename{from: "final_layernorm", to: "output_norm"},
	rename{from: "layers.{}.self_attn.dense", to: "blk.{}.attn_output"},
	rename{from: "layers.{}.mlp.fc1", to: "blk.{}.ffn_up"},
	rename{from: "layers.{}.mlp.fc2", to: "blk.{}.ffn_down"},
)

var stableNames = other(decoderNames,
	rename{from: "layers.{}.self_attn.q_layernorm.norms.{e}", to: "blk.{}.attn_q_norm"},
	rename{from: "layers.{}.self_attn.k_layernorm.norms.{e}", to: "blk.{}.attn_k_norm"},
)

var starcoderNames = other(decoderNames,
	rename{from: "layers.{}.mlp.c_fc", to: "blk.{}.ffn_up"},
	rename{from: "layers.{}.mlp.c_proj", to: "blk.{}.ffn_down"},
)

var gpt2Names = []rename{
	{from: "wte", to: "token_embd"},
	{from: "wpe", to: "position_embd"},
	{from: "ln_f", to: "output_norm"},
	{from: "lm_head", to: "output"},
	{from: "h.{}.ln_1", to: "blk.{}.attn_norm"},
	{from: "h.{}.ln_2", to: "blk.{}.ffn_norm"},
	{"h.{}.attn.c_attn", "blk.{}.attn_qkv", transpose},
	{"h.{}.attn.c_proj", "blk.{}.attn_output", transpose},
	{"h.{}.mlp.c_fc", "blk.{}.ffn_up", transpose},
	{"h.{}.mlp.c_proj", "blk.{}.ffn_down", transpose},
}

var neoxNames = []rename{
	{from: "embed_in", to: "token_embd"},
	{from: "embed_out", to: "output"},
	{from: "final_layer_norm", to: "output_norm"},
	{from: "layers.{}.input_layernorm", to: "blk.{}.attn_norm"},
	{from: "layers.{}.post_attention_layernorm", to: "blk.{}.ffn_norm"},
	{"layers.{}.attention.query_key_value", "blk.{}.attn_qkv", ungroup},
	{from: "layers.{}.attention.dense", to: "blk.{}.attn_output"},
	{from: "layers.{}.mlp.dense_h_to_4h", to: "blk.{}.ffn_up"},
	{from: "layers.{}.mlp.dense_4h_to_h", to: "blk.{}.ffn_down"},
}

var falconNames = []rename{
	{from: "word_embeddings", to: "token_embd"},
	{from: "ln_f", to: "output_norm"},
	{from: "lm_head", to: "output"},
	{from: "h.{}.input_layernorm", to: "blk.{}.attn_norm"},
	{from: "h.{}.ln_mlp", to: "blk.{}.attn_norm"},
	{from: "h.{}.ln_attn", to: "blk.{}.attn_norm_2"},
	{"h.{}.self_attention.query_key_value", "blk.{}.attn_qkv", ungroup},
	{from: "h.{}.self_attention.dense", to: "blk.{}.attn_output"},
	{from: "h.{}.mlp.dense_h_to_4h", to: "blk.{}.ffn_up"},
	{from: "h.{}.mlp.dense_4h_to_h", to: "blk.{}.ffn_down"},
}

var bertNames = []rename{
	{from: "embeddings.word_embeddings", to: "token_embd"},
	{from: "embeddings.position_embeddings", to: "position_embd"},
	{from: "embeddings.token_type_embeddings", to: "token_types"},
	{from: "embeddings.LayerNorm", to: "token_embd_norm"},
	{from: "encoder.layer.{}.attention.self.query", to: "blk.{}.attn_q"},
	{from: "encoder.layer.{}.attention.self.key", to: "blk.{}.attn_k"},
	{from: "encoder.layer.{}.attention.self.value", to: "blk.{}.attn_v"},
	{from: "encoder.layer.{}.attention.output.dense", to: "blk.{}.attn_output"},
	{from: "encoder.layer.{}.attention.output.LayerNorm", to: "blk.{}.attn_output_norm"},
	{from: "encoder.layer.{}.intermediate.dense", to: "blk.{}.ffn_up"},
	{from: "encoder.layer.{}.output.dense", to: "blk.{}.ffn_down"},
	{from: "encoder.layer.{}.output.LayerNorm", to: "blk.{}.layer_output_norm"},
	{from: "pooler.dense", to: "cls"},
	{from: "classifier", to: "cls.output"},
	{from: "classifier.dense", to: "cls"},
	{from: "classifier.out_proj", to: "cls.output"},
}

// bertSkips are parts of heads that neither embeddings nor scores need.
var bertSkips = []string{"position_ids", "cls.predictions", "cls.seq_relationship"}

var robertaNames = other(bertNames,
	rename{"embeddings.position_embeddings", "position_embd", afterPadding},
)

var distilNames = []rename{
	{from: "embeddings.word_embeddings", to: "token_embd"},
	{from: "embeddings.position_embeddings", to: "position_embd"},
	{from: "embeddings.LayerNorm", to: "token_embd_norm"},
	{from: "transformer.layer.{}.attention.q_lin", to: "blk.{}.attn_q"},
	{from: "transformer.layer.{}.attention.k_lin", to: "blk.{}.attn_k"},
	{from: "transformer.layer.{}.attention.v_lin", to: "blk.{}.attn_v"},
	{from: "transformer.layer.{}.attention.out_lin", to: "blk.{}.attn_output"},
	{from: "transformer.layer.{}.sa_layer_norm", to: "blk.{}.attn_output_norm"},
	{from: "transformer.layer.{}.ffn.lin1", to: "blk.{}.ffn_up"},
	{from: "transformer.layer.{}.ffn.lin2", to: "blk.{}.ffn_down"},
	{from: "transformer.layer.{}.output_layer_norm", to: "blk.{}.layer_output_norm"},
}

var nomicNames = []rename{
	{from: "embeddings.word_embeddings", to: "token_embd"},
	{from: "embeddings.token_type_embeddings", to: "token_types"},
	{from: "emb_ln", to: "token_embd_norm"},
	{from: "encoder.layers.{}.attn.Wqkv", to: "blk.{}.attn_qkv"},
	{from: "encoder.layers.{}.attn.out_proj", to: "blk.{}.attn_output"},
	{from: "encoder.layers.{}.norm1", to: "blk.{}.attn_output_norm"},
	{from: "encoder.layers.{}.mlp.fc11", to: "blk.{}.ffn_up"},
	{from: "encoder.layers.{}.mlp.fc12", to: "blk.{}.ffn_gate"},
	{from: "encoder.layers.{}.mlp.fc2", to: "blk.{}.ffn_down"},
	{from: "encoder.layers.{}.norm2", to: "blk.{}.layer_output_norm"},
}

var modernNames = []rename{
	{from: "embeddings.tok_embeddings", to: "token_embd"},
	{from: "embeddings.norm", to: "token_embd_norm"},
	{from: "final_norm", to: "output_norm"},
	{from: "layers.{}.attn_norm", to: "blk.{}.attn_norm"},
	{from: "layers.{}.attn.Wqkv", to: "blk.{}.attn_qkv"},
	{from: "layers.{}.attn.Wo", to: "blk.{}.attn_output"},
	{from: "layers.{}.mlp_norm", to: "blk.{}.ffn_norm"},
	{from: "layers.{}.mlp.Wi", to: "blk.{}.ffn_up"},
	{from: "layers.{}.mlp.Wo", to: "blk.{}.ffn_down"},
}

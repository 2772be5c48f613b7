package model

// GTE (new-impl of the hub): Nomic BERT with biases on the projections of
// attention and behind the feed-forward.

func init() {
	register(&architecture{name: "gte", hf: []string{"gte", "new"}, readHF: gteHF})
}

func gteHF(r *fields) description {
	if kind := r.text("position_embedding_type", "rope"); kind != "rope" {
		r.unsupported("position_embedding_type", "%q, expected rope", kind)
	}
	if kind := r.text("layer_norm_type", "layer_norm"); kind != "layer_norm" {
		r.unsupported("layer_norm_type", "%q, expected layer_norm", kind)
	}
	if r.flag("logn_attention_scale", false) {
		r.unsupported("logn_attention_scale", "true, expected false")
	}
	d := &nomic{
		Config: Config{
			Layers: r.size("num_hidden_layers", maxLayers),
			Dim:    r.size("hidden_size", maxDim),
			Heads:  r.size("num_attention_heads", maxHeads),
			FFN:    r.size("intermediate_size", maxFFN),
			Vocab:  r.size("vocab_size", maxVocab),
			MaxSeq: r.size("max_position_embeddings", maxContext),
		},
		segments: r.natural("type_vocab_size", maxVocab, 1),
		eps:      float32(r.positive("layer_norm_eps", 1e-12)),
		act:      r.activation("hidden_act", "gelu"),
		gated:    true,
		attnBias: needsBias, downBias: needsBias,
		prefixes: []string{"", "new.", "gte."},
	}
	d.heads(r, "num_attention_heads")
	d.rope = ropeHF(r, d.HeadDim, ropeDefaults{theta: 160000})
	d.table = append([]nameRow{
		{key: "token_embd", file: "embeddings.word_embeddings"},
		{"segment", "embeddings.token_type_embeddings", transform{firstRow: true}},
		{key: "token_types", file: "embeddings.token_type_embeddings"},
		{key: "token_embd_norm", file: "embeddings.LayerNorm"},
		{key: "blk.{}.attn_output", file: "encoder.layer.{}.attention.o_proj"},
		{key: "blk.{}.attn_output_norm", file: "encoder.layer.{}.attn_ln"},
		{"blk.{}.ffn_up", "encoder.layer.{}.mlp.up_gate_proj", transform{part: 0, of: 2}},
		{"blk.{}.ffn_gate", "encoder.layer.{}.mlp.up_gate_proj", transform{part: 1, of: 2}},
		{key: "blk.{}.ffn_down", file: "encoder.layer.{}.mlp.down_proj"},
		{key: "blk.{}.layer_output_norm", file: "encoder.layer.{}.mlp_ln"},
	}, fusedThree("encoder.layer.{}.attention.qkv_proj")...)
	return d
}

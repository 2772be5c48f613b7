package model

import "hotpath/internal/graph"

// DistilBERT: BERT without segments, under other names. GGUF files hold it as
// bert.

func init() {
	register(&architecture{name: "distilbert", hf: []string{"distilbert"}, readHF: distilbertHF})
}

func distilbertHF(r *fields) description {
	d := &bert{
		Config: Config{
			Layers: r.size("n_layers", maxLayers),
			Dim:    r.size("dim", maxDim),
			Heads:  r.size("n_heads", maxHeads),
			FFN:    r.size("hidden_dim", maxFFN),
			Vocab:  r.size("vocab_size", maxVocab),
		},
		positions: r.size("max_position_embeddings", maxContext),
		eps:       1e-12, // no field has it
		act:       r.activation("activation", "gelu"),
		headAct:   graph.ReLU,
		pad:       -1,
		prefixes:  []string{"", "distilbert."},
		table: []nameRow{
			{key: "token_embd", file: "embeddings.word_embeddings"},
			{key: "position_embd", file: "embeddings.position_embeddings"},
			{key: "token_embd_norm", file: "embeddings.LayerNorm"},
			{key: "blk.{}.attn_q", file: "transformer.layer.{}.attention.q_lin"},
			{key: "blk.{}.attn_k", file: "transformer.layer.{}.attention.k_lin"},
			{key: "blk.{}.attn_v", file: "transformer.layer.{}.attention.v_lin"},
			{key: "blk.{}.attn_output", file: "transformer.layer.{}.attention.out_lin"},
			{key: "blk.{}.attn_output_norm", file: "transformer.layer.{}.sa_layer_norm"},
			{key: "blk.{}.ffn_up", file: "transformer.layer.{}.ffn.lin1"},
			{key: "blk.{}.ffn_down", file: "transformer.layer.{}.ffn.lin2"},
			{key: "blk.{}.layer_output_norm", file: "transformer.layer.{}.output_layer_norm"},
			{key: "cls", file: "pre_classifier"},
			{key: "cls.output", file: "classifier"},
		},
	}
	d.complete(r, "n_heads")
	return d
}

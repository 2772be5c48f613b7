package model

import "hotpath/internal/weights"

// Phi-3 and Phi-4 are Llama whose files keep q, k and v as one matrix, and gate
// and up as another. Some have LongRoPE, some rotate a part of each head only.

func init() {
	register(&architecture{name: "phi3", gguf: []string{"phi3"}, hf: []string{"phi3"}, readGGUF: phi3GGUF, readHF: phi3HF})
}

type phi3 struct{ *decoder }

func phi3GGUF(r *fields) description {
	d := sizesGGUF(r)
	d.windowGGUF(r)
	return phi3{d}
}

func phi3HF(r *fields) description {
	d := sizesHF(r, 4096, 1e-5, ropeDefaults{part: 1, kinds: map[string]string{"yarn": "longrope"}})
	d.everyWindow(r, 0)
	return phi3{d}
}

func (d phi3) names(f weights.Format) naming {
	halves := func(ffn string) []nameRow {
		return []nameRow{
			{"blk.{}.ffn_gate", ffn, transform{part: 0, of: 2}},
			{"blk.{}.ffn_up", ffn, transform{part: 1, of: 2}},
		}
	}
	if f == weights.GGUF {
		return d.ggufNames(halves("blk.{}.ffn_up")...)
	}
	return d.hfNames(append(d.fused("layers.{}.self_attn.qkv_proj"), halves("layers.{}.mlp.gate_up_proj")...)...)
}

// fused are the rows of q, k and v in a matrix that has them one below the
// other.
func (d *decoder) fused(file string) []nameRow {
	q, kv := d.Heads*d.HeadDim, d.KVHeads*d.HeadDim
	all := q + 2*kv
	return []nameRow{
		{"blk.{}.attn_q", file, transform{height: all, first: 0, count: q}},
		{"blk.{}.attn_k", file, transform{height: all, first: q, count: kv}},
		{"blk.{}.attn_v", file, transform{height: all, first: q + kv, count: kv}},
	}
}

// grouped are the rows of q, k and v in a matrix that has the queries of each
// key head followed by its key and its value.
func (d *decoder) grouped(file string) []nameRow {
	q := d.Heads / d.KVHeads * d.HeadDim
	all := q + 2*d.HeadDim
	return []nameRow{
		{"blk.{}.attn_q", file, transform{groups: d.KVHeads, height: all, first: 0, count: q}},
		{"blk.{}.attn_k", file, transform{groups: d.KVHeads, height: all, first: q, count: d.HeadDim}},
		{"blk.{}.attn_v", file, transform{groups: d.KVHeads, height: all, first: q + d.HeadDim, count: d.HeadDim}},
	}
}

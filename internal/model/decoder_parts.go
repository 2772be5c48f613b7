package model

import "hotpath/internal/graph"

// embed is tokens to the stream that the blocks add to, [T,Dim].
func (d *decoder) embed(c *Context) *graph.Value {
	words := c.Tensor("token_embd.weight", graph.RoleEmbedding, d.Vocab, d.Dim)
	return c.Embed("embed", words, c.Tokens, d.embedding)
}

// normed is the family's norm over chunks of width elements.
func (d *decoder) normed(c *Context, name string, x *graph.Value, key string, width int) *graph.Value {
	w := c.Tensor(key+".weight", graph.RoleNorm, width)
	if d.norm.kind == graph.RMSNorm {
		return c.RMSNorm(name, x, w, d.norm.eps, d.norm.offset)
	}
	return c.LayerNorm(name, x, w, c.bias(key, d.norm.bias, width), d.norm.eps)
}

// ownNormed is a layer norm of each head of x[T,width] by a weight of its own;
// such norms have no bias.
func (d *decoder) ownNormed(c *Context, name string, x *graph.Value, key string, width int) *graph.Value {
	return c.HeadNorm(name, x, c.Tensor(key+".weight", graph.RoleNorm, width), nil, d.HeadDim, d.norm.eps)
}

// attention is h[T,Dim], after its norm, to what a layer adds, [T,Dim].
func (d *decoder) attention(c *Context, h *graph.Value, layer int, key string) *graph.Value {
	wide, narrow := d.Heads*d.HeadDim, d.KVHeads*d.HeadDim
	q := c.Project("q_proj", h, key+"attn_q", graph.RoleQ, wide, mayHaveBias)
	k := c.Project("k_proj", h, key+"attn_k", graph.RoleK, narrow, mayHaveBias)
	v := c.Project("v_proj", h, key+"attn_v", graph.RoleV, narrow, mayHaveBias)
	switch d.headNorms {
	case eachHeadNorms:
		q = d.normed(c, "q_norm", q, key+"attn_q_norm", d.HeadDim)
		k = d.normed(c, "k_norm", k, key+"attn_k_norm", d.HeadDim)
	case ownHeadNorms:
		q = d.ownNormed(c, "q_norm", q, key+"attn_q_norm", wide)
		k = d.ownNormed(c, "k_norm", k, key+"attn_k_norm", narrow)
	case wholeNorms:
		q = d.normed(c, "q_norm", q, key+"attn_q_norm", wide)
		k = d.normed(c, "k_norm", k, key+"attn_k_norm", narrow)
	}
	attr := graph.AttentionAttr{Heads: d.Heads, KVHeads: d.KVHeads, HeadDim: d.HeadDim, Scale: d.scale, SoftCap: d.scoreCap, Causal: d.Causal, Alibi: d.alibi}
	if d.Windows != nil {
		attr.Window = d.Windows[layer]
	}
	if d.noRope == nil || !d.noRope[layer] {
		rope := &d.rope
		if attr.Window > 0 && d.local != nil {
			rope = d.local
		}
		q = c.Rotate("q_rope", q, rope, d.HeadDim, d.interleaved)
		k = c.Rotate("k_rope", k, rope, d.HeadDim, d.interleaved)
	}
	return c.Project("o_proj", c.Attend(q, k, v, attr), key+"attn_output", graph.RoleO, d.Dim, mayHaveBias)
}

// gated is a feed-forward with a gate, h[T,Dim] to [T,Dim].
func (d *decoder) gated(c *Context, h *graph.Value, key string) *graph.Value {
	gate := c.Project("gate_proj", h, key+"ffn_gate", graph.RoleGate, d.FFN, mayHaveBias)
	up := c.Project("up_proj", h, key+"ffn_up", graph.RoleUp, d.FFN, mayHaveBias)
	return c.Project("down_proj", c.GLU("glu", gate, up, d.act), key+"ffn_down", graph.RoleDown, d.Dim, mayHaveBias)
}

// plain is a feed-forward without a gate.
func (d *decoder) plain(c *Context, h *graph.Value, key string) *graph.Value {
	up := c.Project("up_proj", h, key+"ffn_up", graph.RoleUp, d.FFN, mayHaveBias)
	return c.Project("down_proj", c.Act("act", up, d.act), key+"ffn_down", graph.RoleDown, d.Dim, mayHaveBias)
}

// addResidual is the stream with what a part adds to it.
func (d *decoder) addResidual(c *Context, name string, x, part *graph.Value) *graph.Value {
	if d.residual != 0 && d.residual != 1 {
		part = c.Scale(name+"_scale", part, d.residual)
	}
	return c.Add(name, x, part)
}

// body is the usual order: a norm before attention, one before a gated
// feed-forward, and each added to the stream.
func (d *decoder) body(c *Context) *graph.Value {
	return c.Layers(d.Layers, d.embed(c), func(c *Context, x *graph.Value, layer int, key string) *graph.Value {
		h := d.normed(c, "attn_norm", x, key+"attn_norm", d.Dim)
		x = d.addResidual(c, "attn_add", x, d.attention(c, h, layer, key))
		h = d.normed(c, "ffn_norm", x, key+"ffn_norm", d.Dim)
		return d.addResidual(c, "ffn_add", x, d.gated(c, h, key))
	})
}

func (d *decoder) final(c *Context, x *graph.Value) *graph.Value {
	return d.normed(c, "output_norm", x, "output_norm", d.Dim)
}

func (d *decoder) head(c *Context, x *graph.Value) *graph.Value {
	x = c.Logits(x, d.tied, d.Vocab)
	if d.logits != 0 && d.logits != 1 {
		x = c.Scale("head_scale", x, d.logits)
	}
	if d.logitCap > 0 {
		x = c.Scale("uncap", c.Act("cap", c.Scale("cap_scale", x, 1/d.logitCap), graph.Tanh), d.logitCap)
	}
	return x
}

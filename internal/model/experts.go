package model

import (
	"hotpath/internal/graph"
	"hotpath/internal/weights"
)

// Mixtures of experts: Mixtral is Mistral, Qwen 2 and 3 MoE are Qwen 2 and 3,
// whose feed-forward is made of many small ones of which each token uses a few.
// Qwen 2 MoE adds one that all tokens use, behind a gate of its own.

func init() {
	register(&architecture{name: "mixtral", hf: []string{"mixtral"}, readHF: mixtralHF})
	register(&architecture{name: "qwen2moe", gguf: []string{"qwen2moe"}, hf: []string{"qwen2_moe"}, readGGUF: qwenMoEGGUF, readHF: qwen2MoEHF})
	register(&architecture{name: "qwen3moe", gguf: []string{"qwen3moe"}, hf: []string{"qwen3_moe"}, readGGUF: qwenMoEGGUF, readHF: qwen3MoEHF})
}

// maxExperts bounds what a configuration may claim.
const maxExperts = 1 << 12

// mixture is a decoder with experts.
type mixture struct {
	*decoder
	used      int  // by each token
	ffn       int  // width of an expert
	normalize bool // the weights of a token's experts add up to 1
	shared    int  // width of the expert that all tokens use; 0: there is none
	dense     []bool
}

func mixtralHF(r *fields) description {
	d := sizesHF(r, 131072, 1e-5, ropeDefaults{theta: 1e6})
	d.everyWindow(r, 0)
	m := &mixture{decoder: d, ffn: d.FFN, normalize: true}
	m.Experts = r.sizeOr(expertsHF(r), maxExperts, 8)
	m.used = r.sizeOr("num_experts_per_tok", maxExperts, 2)
	return m.checked(r, "num_experts_per_tok")
}

func qwen2MoEHF(r *fields) description {
	m := qwenMoEHF(r)
	m.shared = r.sizeOr("shared_expert_intermediate_size", maxFFN, 5632)
	sliding := r.layerTypes(m.Layers)
	first, err := r.hf.IDOr("max_window_layers", 28)
	r.keep(err)
	if size := r.window("sliding_window", 4096); size > 0 && r.flag("use_sliding_window", false) {
		m.windows(size, func(layer int) bool {
			return sliding == nil && layer%2 == 0 && layer < first || sliding != nil && sliding[layer]
		})
	}
	return m.checked(r, "num_experts_per_tok")
}

func qwen3MoEHF(r *fields) description {
	m := qwenMoEHF(r)
	m.headNorms = eachHeadNorms
	if r.flag("use_sliding_window", false) {
		m.everyWindow(r, 4096)
	}
	return m.checked(r, "num_experts_per_tok")
}

// qwenMoEHF reads what both Qwens with experts have.
func qwenMoEHF(r *fields) *mixture {
	d := sizesHF(r, 32768, 1e-6, ropeDefaults{})
	m := &mixture{decoder: d}
	m.Experts = r.size(expertsHF(r), maxExperts)
	m.used = r.size("num_experts_per_tok", maxExperts)
	m.ffn = r.size("moe_intermediate_size", maxFFN)
	m.normalize = r.flag("norm_topk_prob", false)
	m.dense = make([]bool, d.Layers)
	step := r.sizeOr("decoder_sparse_step", maxLayers, 1)
	for i := range m.dense {
		m.dense[i] = (i+1)%step != 0
	}
	if key := "mlp_only_layers"; r.has(key) {
		list, err := r.hf.IDs(key)
		r.keep(err)
		for _, i := range list {
			if i < d.Layers {
				m.dense[i] = true
			}
		}
	}
	return m
}

// expertsHF is how a config.json calls the number of experts.
func expertsHF(r *fields) string {
	if r.has("num_experts") {
		return "num_experts"
	}
	return "num_local_experts"
}

// mixtureGGUF reads the experts of a GGUF file.
func mixtureGGUF(r *fields, d *decoder) *mixture {
	m := &mixture{decoder: d, used: r.size("expert_used_count", maxExperts)}
	m.Experts = r.size("expert_count", maxExperts)
	m.ffn = r.sizeOr("expert_feed_forward_length", maxFFN, d.FFN)
	m.dense = make([]bool, d.Layers)
	return m.checked(r, "expert_used_count")
}

func qwenMoEGGUF(r *fields) description {
	m := mixtureGGUF(r, sizesGGUF(r))
	m.windowGGUF(r)
	if r.prefix == "qwen3moe." {
		m.headNorms, m.normalize = eachHeadNorms, true // as files of the family mean it
		return m
	}
	if key := "expert_shared_feed_forward_length"; r.has(key) {
		m.shared = r.size(key, maxFFN)
	} else if t, ok := r.gguf.Tensor("blk.0.ffn_gate_shexp.weight"); ok {
		m.shared = t.Dims()[0]
	}
	return m
}

// checked holds the numbers of experts against each other.
func (m *mixture) checked(r *fields, used string) *mixture {
	if r.failed() == nil && m.used > m.Experts {
		r.invalid(used, "expected at most the number of experts (%d), found %d", m.Experts, m.used)
	}
	return m
}

func (m *mixture) names(f weights.Format) naming {
	each := func(key, file string) nameRow {
		return nameRow{key, file, transform{stack: m.Experts}}
	}
	whole := func(key, file string, how transform) nameRow {
		how.flat = true
		return nameRow{key, file, how}
	}
	if f == weights.GGUF {
		return m.ggufNames(
			whole("blk.{}.ffn_gate_exps", "blk.{}.ffn_gate_exps", transform{}),
			whole("blk.{}.ffn_up_exps", "blk.{}.ffn_up_exps", transform{}),
			whole("blk.{}.ffn_down_exps", "blk.{}.ffn_down_exps", transform{}),
			// Gate and up of an expert may lie together.
			whole("blk.{}.ffn_gate_exps", "blk.{}.ffn_gate_up_exps", transform{groups: m.Experts, height: 2 * m.ffn, count: m.ffn}),
			whole("blk.{}.ffn_up_exps", "blk.{}.ffn_gate_up_exps", transform{groups: m.Experts, height: 2 * m.ffn, first: m.ffn, count: m.ffn}),
			each("blk.{}.ffn_gate_exps", "blk.{}.ffn_gate.{e}"), // the first files with experts
			each("blk.{}.ffn_up_exps", "blk.{}.ffn_up.{e}"),
			each("blk.{}.ffn_down_exps", "blk.{}.ffn_down.{e}"),
		)
	}
	const qwen, mixtral = "layers.{}.mlp.", "layers.{}.block_sparse_moe."
	return m.hfNames(
		nameRow{key: "blk.{}.ffn_gate_inp", file: qwen + "gate"},
		nameRow{key: "blk.{}.ffn_gate_inp", file: mixtral + "gate"},
		each("blk.{}.ffn_gate_exps", qwen+"experts.{e}.gate_proj"),
		each("blk.{}.ffn_up_exps", qwen+"experts.{e}.up_proj"),
		each("blk.{}.ffn_down_exps", qwen+"experts.{e}.down_proj"),
		each("blk.{}.ffn_gate_exps", mixtral+"experts.{e}.w1"),
		each("blk.{}.ffn_up_exps", mixtral+"experts.{e}.w3"),
		each("blk.{}.ffn_down_exps", mixtral+"experts.{e}.w2"),
		// As transformers 5 has them in memory, and some files too.
		whole("blk.{}.ffn_gate_exps", qwen+"experts.gate_up_proj", transform{bare: true, groups: m.Experts, height: 2 * m.ffn, count: m.ffn}),
		whole("blk.{}.ffn_up_exps", qwen+"experts.gate_up_proj", transform{bare: true, groups: m.Experts, height: 2 * m.ffn, first: m.ffn, count: m.ffn}),
		whole("blk.{}.ffn_down_exps", qwen+"experts.down_proj", transform{bare: true}),
		nameRow{key: "blk.{}.ffn_gate_shexp", file: qwen + "shared_expert.gate_proj"},
		nameRow{key: "blk.{}.ffn_up_shexp", file: qwen + "shared_expert.up_proj"},
		nameRow{key: "blk.{}.ffn_down_shexp", file: qwen + "shared_expert.down_proj"},
		nameRow{key: "blk.{}.ffn_gate_inp_shexp", file: qwen + "shared_expert_gate"},
	)
}

func (m *mixture) body(c *Context) *graph.Value {
	return c.Layers(m.Layers, m.embed(c), func(c *Context, x *graph.Value, layer int, key string) *graph.Value {
		h := m.normed(c, "attn_norm", x, key+"attn_norm", m.Dim)
		x = c.Add("attn_add", x, m.attention(c, h, layer, key))
		h = m.normed(c, "ffn_norm", x, key+"ffn_norm", m.Dim)
		if m.dense != nil && m.dense[layer] {
			return c.Add("ffn_add", x, m.gated(c, h, key))
		}
		y := m.mixed(c, h, key)
		if m.shared > 0 {
			y = c.Add("shared_add", y, m.sharedExpert(c, h, key))
		}
		return c.Add("ffn_add", x, y)
	})
}

// mixed sends each token through its experts, h[T,Dim] to [T,Dim].
func (m *mixture) mixed(c *Context, h *graph.Value, key string) *graph.Value {
	logits := c.Project("router", h, key+"ffn_gate_inp", graph.RoleRouter, m.Experts, noBias)
	r := c.Route("route", logits, graph.RouteAttr{Used: m.used, Normalize: m.normalize})
	x := c.Gather("dispatch", h, r.Rows) // [used*T,Dim]
	matrix := func(name string, role graph.Role, rows, cols int) *graph.Value {
		return c.Tensor(key+name+".weight", role, m.Experts*rows, cols)
	}
	gate := c.GroupedLinear("gate_proj", x, matrix("ffn_gate_exps", graph.RoleGate, m.ffn, m.Dim), r.Offsets)
	up := c.GroupedLinear("up_proj", x, matrix("ffn_up_exps", graph.RoleUp, m.ffn, m.Dim), r.Offsets)
	y := c.GroupedLinear("down_proj", c.GLU("glu", gate, up, m.act), matrix("ffn_down_exps", graph.RoleDown, m.Dim, m.ffn), r.Offsets)
	return c.Combine("combine", y, r)
}

// sharedExpert is what all tokens go through, behind a gate.
func (m *mixture) sharedExpert(c *Context, h *graph.Value, key string) *graph.Value {
	gate := c.Project("shared_gate_proj", h, key+"ffn_gate_shexp", graph.RoleGate, m.shared, noBias)
	up := c.Project("shared_up_proj", h, key+"ffn_up_shexp", graph.RoleUp, m.shared, noBias)
	y := c.Project("shared_down_proj", c.GLU("shared_glu", gate, up, m.act), key+"ffn_down_shexp", graph.RoleDown, m.Dim, noBias)
	open := c.Project("shared_gate", h, key+"ffn_gate_inp_shexp", graph.RoleRouter, 1, noBias)
	return c.MulRows("shared", y, c.Act("shared_open", open, graph.Sigmoid))
}

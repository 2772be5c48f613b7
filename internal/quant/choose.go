package quant

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hotpath/internal/tensor"
)

// role is what a matrix does, as far as mixes care.
type role uint8

const (
	otherRole role = iota
	embeddingRole
	outputRole
	queryRole
	keyRole
	valueRole
	fusedRole // queries, keys and values in one
	outRole
	downRole
)

// roles finds a role in a tensor's name, the first row that fits.
var roles = []struct {
	part string
	role role
}{
	{"attn_qkv.weight", fusedRole}, {"attn_kv_b.weight", fusedRole}, {"attn_v.weight", valueRole},
	{"attn_k.weight", keyRole}, {"attn_q.weight", queryRole}, {"attn_output.weight", outRole}, {"ffn_down", downRole},
}

func roleOf(name string) role {
	switch name {
	case "output.weight":
		return outputRole
	case "token_embd.weight", "per_layer_token_embd.weight":
		return embeddingRole
	}
	for _, r := range roles {
		if strings.Contains(name, r.part) {
			return r.role
		}
	}
	return otherRole
}

// kept are parts of the names of matrices that are small and touchy: norms,
// the choice of experts, positions and kinds of tokens, convolutions.
var kept = []string{"_norm.weight", "ffn_gate_inp.weight", "position_embd", "token_types", "altup", "laurel",
	"per_layer_model_proj", "ssm_conv1d", "shortconv.conv.weight", "attn_rel_b.weight"}

// encodes says whether mixes apply to a tensor at all: to matrices and stacks
// of them.
func encodes(t *Tensor) bool {
	wide := 0
	for _, d := range t.Dims {
		if d > 1 {
			wide++
		}
	}
	if len(t.Dims) < 2 || t.NumRows() < 2 || wide == 0 || !strings.HasSuffix(t.Name, "weight") {
		return false
	}
	return !slices.ContainsFunc(kept, func(part string) bool { return strings.Contains(t.Name, part) })
}

// place is where a matrix stands: its role, and its number among those that
// share it, by layer.
type place struct {
	role         role
	index, count int
	experts      bool // one matrix an expert
}

// moreBits picks the first and the last eighth of the layers, and every third
// one between.
func (p *place) moreBits() bool {
	n := p.count
	return p.index < n/8 || p.index >= 7*n/8 || (p.index-n/8)%3 == 2
}

// chooser is a mix applied to one model.
type chooser struct {
	mix        Mix
	facts      Facts
	opts       Options
	importance bool
	tied       bool // the embedding serves as output too
}

// Choose gives every tensor its encoding.
func Choose(mix Mix, facts Facts, tensors []Tensor, opts Options) ([]tensor.DType, error) {
	c := &chooser{mix: mix, facts: facts, opts: opts, importance: opts.Importance != nil, tied: true}
	places := placesOf(facts, tensors)
	for i := range places {
		if places[i].role == outputRole {
			c.tied = false
		}
	}
	out := make([]tensor.DType, len(tensors))
	for i := range tensors {
		t := &tensors[i]
		if len(t.Dims) == 0 {
			return nil, fmt.Errorf("tensor %q has no dimensions", t.Name)
		}
		out[i] = c.choose(t, &places[i])
	}
	return out, nil
}

// placesOf numbers the tensors of each role by layer.
func placesOf(facts Facts, tensors []Tensor) []place {
	out := make([]place, len(tensors))
	var values []int // of tensors that hold values
	for i := range tensors {
		t := &tensors[i]
		out[i] = place{role: roleOf(t.Name), index: layerOf(t.Name), count: facts.Layers, experts: len(t.Dims) > 2}
		if r := out[i].role; r == valueRole || r == fusedRole {
			values = append(values, i)
		}
	}
	slices.SortStableFunc(values, func(a, b int) int { return cmp.Compare(out[a].index, out[b].index) })
	for n, i := range values {
		out[i].index, out[i].count = n, len(values)
	}
	return out
}

// layerOf is the number in a name such as blk.7.ffn_down.weight, or 0.
func layerOf(name string) int {
	rest, ok := strings.CutPrefix(name, "blk.")
	if !ok {
		return 0
	}
	digits, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func (c *chooser) choose(t *Tensor, p *place) tensor.DType {
	if !encodes(t) || c.opts.KeepOutput && p.role == outputRole {
		return t.DType
	}
	if c.opts.Embedding != nil && p.role == embeddingRole {
		return fit(*c.opts.Embedding, t.Cols())
	}
	if c.opts.Output != nil && (p.role == outputRole || c.tied && p.role == embeddingRole) {
		return fit(*c.opts.Output, t.Cols())
	}
	d := c.mix.Base
	if !d.Quantized() {
		return d
	}
	switch {
	case c.opts.Pure:
	case p.role == outputRole || c.tied && p.role == embeddingRole:
		d = c.output(t)
	case p.role == embeddingRole:
		if c.mix.Base == tensor.MXFP4 {
			d = tensor.Q8_0
		}
	case c.mix.rule != nil:
		d = c.mix.rule(c, p)
		if eight := c.facts.Experts == 8 && c.mix.Base != tensor.MXFP4; eight && (p.role == valueRole || p.role == fusedRole || p.role == keyRole) {
			d = tensor.Q8_0 // small beside the experts
		} else if seventy := c.facts.Arch == "llama" && c.facts.Layers == 80; seventy && p.role == valueRole && (d == tensor.Q3_K || d == tensor.Q4_K) {
			d = tensor.Q5_K // eight heads share it
		}
	}
	return fit(d, t.Cols())
}

// output is the encoding of what makes the logits.
func (c *chooser) output(t *Tensor) tensor.DType {
	base := c.mix.Base
	if c.facts.Arch == "falcon" || base == tensor.MXFP4 || base == tensor.Q8_0 || t.Cols()%base.Info().BlockLen != 0 {
		return tensor.Q8_0
	}
	return tensor.Q6_K
}

// shorter is the encoding with blocks of 32 that replaces one with blocks of
// 256 where rows are not whole blocks.
var shorter = map[tensor.DType]tensor.DType{
	tensor.Q2_K: tensor.Q4_0, tensor.Q3_K: tensor.Q4_0, tensor.Q4_K: tensor.Q5_0, tensor.Q5_K: tensor.Q5_1,
	tensor.Q6_K: tensor.Q8_0, tensor.IQ4_XS: tensor.IQ4_NL,
}

// fit is the nearest encoding that rows of so many values can have.
func fit(d tensor.DType, cols int) tensor.DType {
	if cols%d.Info().BlockLen == 0 {
		return d
	}
	if s, ok := shorter[d]; ok && cols%32 == 0 {
		return s
	}
	return tensor.F16
}

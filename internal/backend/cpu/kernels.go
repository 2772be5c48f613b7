package cpu

import (
	"hotpath/internal/graph"
	"hotpath/internal/plan"
)

// kernels binds each kind of step. A kind without a row runs the reference
// implementation of its op.
var kernels = map[string]func(*binder, *plan.Step) (kernel, error){
	"linear":             bindLinear,
	"linear+act":         bindLinearAct,
	"linear+glu":         bindLinearGLU,
	"linear+linear":      bindSiblings,
	"linear_dx":          bindLinearDX,
	"linear_dx+add":      bindLinearDX,
	"linear_dw":          bindLinearDW,
	"col_sum":            bindColSum,
	"embed":              bindEmbed,
	"embed+embed":        bindEmbeds,
	"embed+embed+row":    bindEmbeds,
	"embed_bag":          bindEmbedBag,
	"embed_grad":         bindEmbedGrad,
	"embed_grad+add":     bindEmbedGradAdd,
	"norm":               bindNorms,
	"add+norm":           bindNorms,
	"norm+add+norm":      bindNorms,
	"norm+rope":          bindNormRope,
	"norm_dx":            bindNormDX,
	"norm_dx+add":        bindNormDX,
	"norm_dw":            bindNormDW,
	"rope":               bindRope,
	"attention":          bindAttention,
	"attention_kv":       bindAttentionKV,
	"attention_rel":      bindAttentionRel,
	"attention_grad":     bindAttentionGrad,
	"attention_rel_grad": bindAttentionRelGrad,
	"kv_write":           bindKVWrite,
	"rope+kv_write":      bindRopeKVWrite,
	"add":                bindAdd,
	"add_row":            bindAddRow,
	"mul":                bindMul,
	"scale":              bindScale,
	"dropout":            bindDropout,
	"act":                bindAct,
	"act_grad":           bindActGrad,
	"glu":                bindGLU,
	"glu_grad":           bindGLUGrad,
	"gather":             bindGather,
	"route":              bindRoute,
	"grouped_linear":     bindGrouped,
	"combine":            bindCombine,
	"mul_rows":           bindMulRows,
	"pool":               bindPool,
	"pool_grad":          bindPoolGrad,
	"l2norm":             bindL2Norm,
	"l2norm_grad":        bindL2NormGrad,
	"scatter_rows":       bindScatterRows,
	"embed_bag_grad":     bindEmbedBagGrad,
	"cross_entropy":      bindCrossEntropy,
	"cross_entropy_grad": bindCrossEntropyGrad,
	"infonce":            bindInfoNCE,
	"infonce_grad":       bindInfoNCEGrad,
	"distill":            bindDistill,
	"distill_grad":       bindDistillGrad,
	"sum_squares":        bindSumSquares,
	"accumulate":         bindAccumulate,
	"adamw":              bindAdamW,
	"sgd":                bindSGD,
	"convert":            bindConvert,
}

// ownScratch reports whether steps of a kind never run a reference
// implementation. Their kernels have a workspace per worker.
func ownScratch(kind string) bool { return kernels[kind] != nil && kind != "attention_grad" }

// patterns are the fusions that the planner may apply, larger ones first.
// Patterns adds linears that share one input, of any number, after them.
var patterns = []plan.Pattern{
	{Kind: "linear+glu", Root: graph.OpGLU, Inputs: []*plan.Pattern{{Root: graph.OpLinear}, {Root: graph.OpLinear}},
		Match: func(nodes []*graph.Node) bool { // of one input
			return nodes[0].In[0] == nodes[1].In[0]
		}},
	{Kind: "linear+act", Root: graph.OpAct, Inputs: []*plan.Pattern{{Root: graph.OpLinear}}},
	{Kind: "linear_dx+add", Root: graph.OpAdd, Inputs: []*plan.Pattern{nil, {Root: graph.OpLinearDX}}, InPlace: true},
	{Kind: "norm_dx+add", Root: graph.OpAdd, Inputs: []*plan.Pattern{nil, {Root: graph.OpNormDX}}, InPlace: true},
	{Kind: "embed_grad+add", Root: graph.OpAdd, Inputs: []*plan.Pattern{nil, {Root: graph.OpEmbedGrad}}, InPlace: true},
	{Kind: "embed+embed+row", Root: graph.OpAddRow, Inputs: []*plan.Pattern{embeds}},
	*embeds,
	{Kind: "rope+kv_write", Root: graph.OpKVWrite, Inputs: []*plan.Pattern{nil, nil, {Root: graph.OpRope}}},
	{Kind: "norm+rope", Root: graph.OpRope, Inputs: []*plan.Pattern{{Root: graph.OpNorm}}, InPlace: true},
	{Kind: "norm+add+norm", Root: graph.OpNorm, Inputs: []*plan.Pattern{{Root: graph.OpAdd, Keep: true, Inputs: []*plan.Pattern{nil, {Root: graph.OpNorm}}}},
		Match: func(nodes []*graph.Node) bool { return wholeRows(nodes[0]) && wholeRows(nodes[2]) }},
	{Kind: "add+norm", Root: graph.OpNorm, Inputs: []*plan.Pattern{{Root: graph.OpAdd, Keep: true}},
		Match: func(nodes []*graph.Node) bool { return wholeRows(nodes[1]) }},
}

// embeds is the sum of the embeddings of tokens and of positions.
var embeds = &plan.Pattern{Kind: "embed+embed", Root: graph.OpAdd, Inputs: []*plan.Pattern{{Root: graph.OpEmbed}, {Root: graph.OpEmbed}}}

// wholeRows reports whether a norm is one of whole rows: that of a head reads a
// projection, not a sum.
func wholeRows(norm *graph.Node) bool {
	return norm.In[1].Shape.Outer.Add == norm.In[0].Shape.RowLen()
}

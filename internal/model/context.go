package model

import (
	"fmt"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
)

// Context is what an architecture builds its graph with: the graph's own ops,
// weights by canonical key, and attention that knows whether there is a cache.
type Context struct {
	*graph.Builder
	m *Model

	Tokens *graph.Value // [T]
	Pos    *graph.Value // [T]
	QStart *graph.Value // [S+1]
	// Segments is which text of a pair a token belongs to, [T]; nil where all
	// are of the first.
	Segments *graph.Value

	cache    *cache // nil where attention sees the batch only
	training bool   // weights are trained, or may be
	// fresh says which weights that the files lack are trained from nothing; nil:
	// none. labels is the number of scores of a fresh classifier.
	fresh  func(key string) bool
	labels int
	// lora is what is added to projections, nil: nothing; adapters are what was.
	lora     *LoRA
	adapters []Adapter
	ports    *Ports // of the graph
	wrong    error  // the first weight that is missing or has another shape

	dropouts uint32 // so far
}

// cache is what attention over a KV cache needs.
type cache struct {
	layout                   KVLayout
	slots, kvLen, blockTable *graph.Value // [T], [S], [S,MaxBlocksPerSeq]
}

func (m *Model) context(b *graph.Builder) *Context {
	b.WeightType = func(key string) (tensor.DType, error) {
		in, err := m.inspect(key)
		return in.dtype, err
	}
	return &Context{Builder: b, m: m}
}

// tokens declares the inputs that every graph has.
func (c *Context) tokens(p *Ports) {
	t := tensor.Rows(tensor.Of(tensor.T, 1))
	c.Tokens = c.Input("tokens", tensor.I32, t)
	c.Pos = c.Input("pos", tensor.I32, t)
	c.QStart = c.Input("q_start", tensor.I32, tensor.Rows(tensor.Dim{Sym: tensor.S, Mul: 1, Add: 1}))
	p.Tokens, p.Pos, p.QStart = c.Tokens, c.Pos, c.QStart
	c.ports = p
}

// Length is the input with the length of each token's text, which only graphs
// have that ask for it.
func (c *Context) Length() *graph.Value {
	if c.ports.Length == nil {
		c.ports.Length = c.Input("length", tensor.I32, tensor.Rows(tensor.Of(tensor.T, 1)))
	}
	return c.ports.Length
}

// Has reports whether the files have an optional weight.
func (c *Context) Has(key string) bool { return c.m.has(key) || c.isFresh(key) }

// isFresh reports whether a weight is trained from nothing.
func (c *Context) isFresh(key string) bool { return c.fresh != nil && !c.m.has(key) && c.fresh(key) }

// Tensor is a weight, a matrix [rows,cols] or a vector [n].
func (c *Context) Tensor(key string, role graph.Role, dims ...int) *graph.Value {
	if c.isFresh(key) {
		return c.Fresh(key, role, tensor.Static(dims...))
	}
	if c.Err() == nil {
		if c.wrong = c.m.expect(key, dims); c.wrong != nil {
			c.Fail("%w", c.wrong)
		}
	}
	return c.Weight(key, role, tensor.Static(dims...))
}

// bias says what a projection or a norm does about its bias.
type bias uint8

const (
	noBias bias = iota
	mayHaveBias
	needsBias
)

func (c *Context) bias(key string, b bias, n int) *graph.Value {
	key += ".bias"
	if b == needsBias || b == mayHaveBias && c.Has(key) {
		return c.Tensor(key, graph.RoleBias, n)
	}
	return nil
}

// Project is x[rows,in] to [rows,out] by the weight and bias below key.
func (c *Context) Project(name string, x *graph.Value, key string, role graph.Role, out int, b bias) *graph.Value {
	w := c.Tensor(key+".weight", role, out, x.Shape.RowLen())
	y := c.adapted(name, x, c.Linear(name, x, w, c.bias(key, b, out)), key+".weight", role)
	if role == graph.RoleO || role == graph.RoleDown {
		return c.dropped(name+"_dropout", y)
	}
	return y
}

// dropped is x with dropout where the graph trains with it: what blocks add to
// the residual stream, and what the first block reads.
func (c *Context) dropped(name string, x *graph.Value) *graph.Value {
	var salt uint32
	if key := c.dropoutKey(&salt); key != nil {
		return c.Dropout(name, x, key, salt)
	}
	return x
}

// dropoutKey is the key of one more dropout, with its salt; nil where the graph
// has none.
func (c *Context) dropoutKey(salt *uint32) *graph.Value {
	if c.ports == nil || c.ports.Dropout == nil {
		return nil
	}
	c.dropouts++
	*salt = c.dropouts
	return c.ports.Dropout
}

// LayerNormed is a LayerNorm by the weight and bias below key.
func (c *Context) LayerNormed(name string, x *graph.Value, key string, eps float32) *graph.Value {
	n := x.Shape.RowLen()
	return c.LayerNorm(name, x, c.Tensor(key+".weight", graph.RoleNorm, n), c.bias(key, needsBias, n), eps)
}

// Layers builds the blocks one after the other, each in its scope; key is what
// its weights begin with. It ends early once something is wrong, so that the
// work done for a broken file does not grow with what it claims.
func (c *Context) Layers(n int, x *graph.Value, block func(c *Context, x *graph.Value, layer int, key string) *graph.Value) *graph.Value {
	x = c.dropped("embed_dropout", x)
	for i := 0; i < n && c.Err() == nil; i++ {
		end := c.LayerScope(i)
		x = block(c, x, i, fmt.Sprintf("blk.%d.", i))
		end()
	}
	return x
}

// Logits is rows of the final norm to [rows,vocab], by a head of its own or,
// where it is tied or absent, by the token table.
func (c *Context) Logits(x *graph.Value, tied bool, vocab int) *graph.Value {
	if tied || !c.Has("output.weight") {
		return c.Linear("head", x, c.Tensor("token_embd.weight", graph.RoleEmbedding, vocab, x.Shape.RowLen()), nil)
	}
	return c.Project("head", x, "output", graph.RoleHead, vocab, mayHaveBias)
}

// Attend is attention within each sequence of the batch, or, where the graph
// has a KV cache, over everything that the cache holds of the sequence.
func (c *Context) Attend(q, k, v *graph.Value, attr graph.AttentionAttr) *graph.Value {
	if c.cache == nil {
		out, _ := c.AttentionDropout("attention", q, k, v, c.QStart, c.dropoutKey(&attr.Salt), attr)
		return out
	}
	rows := tensor.Static(c.cache.layout.Blocks*graph.KVBlock, k.Shape.RowLen())
	ks := c.State("k_cache", graph.RoleKV, c.cache.layout.Type, rows)
	vs := c.State("v_cache", graph.RoleKV, c.cache.layout.Type, rows)
	ks, vs = c.KVWrite("kv_write", ks, vs, k, v, c.cache.slots)
	return c.AttentionKV("attention", q, ks, vs, c.QStart, c.cache.kvLen, c.cache.blockTable, graph.AttentionKVAttr{AttentionAttr: attr})
}

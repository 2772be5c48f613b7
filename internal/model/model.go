// Package model describes architectures: what a model's configuration says,
// which tensor of its files is which weight, and how its graph is built. An
// architecture is one file, whose init adds a row to the table; one
// description serves every encoding of weights, every backend and every use
// (embedding, generation, scoring, training).
//
// It imports tensor, format, tokenizer, weights and graph; engine and train
// import it, and a Model is the plan.Source of its graphs. Everything that can
// be wrong with a model is an error of Open, which names the file, the field
// or tensor and what was expected and wraps an error of package weights. After
// Open a Build can fail only through its arguments.
package model

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"hotpath/internal/format/gguf"
	"hotpath/internal/graph"
	"hotpath/internal/tensor"
	"hotpath/internal/tokenizer"
	"hotpath/internal/weights"
)

// Config is what every architecture has in common.
type Config struct {
	Arch string // name of the table's row: bert, llama, gpt2, gemma3
	Name string // of the model, for people

	Layers  int
	Dim     int // width of the residual stream and of embeddings
	Heads   int
	KVHeads int
	HeadDim int
	FFN     int
	Experts int // of which each token uses a few; 0 in most models
	// Delicate models compute in f32 unless asked otherwise: a rounded number
	// may send a token to other experts, or, where scores are scaled by much
	// more than the size of a head wants, to other keys.
	Delicate bool
	Vocab    int
	// MaxSeq is the largest number of tokens of one text: positions that the
	// model has, or fewer where an encoder's files say that texts are cut.
	MaxSeq  int
	Causal  bool
	Windows []int // by layer, how far attention reaches; 0 is unlimited
	// RopeContext is the length beyond which texts rotate otherwise; 0 where
	// all rotate alike. RopeRestarts says that what was computed of a text that
	// grows beyond it holds no longer.
	RopeContext  int
	RopeRestarts bool

	// Empty says that a text without tokens has an embedding too.
	Empty bool `json:",omitempty"`
	// CanEmbed and CanGenerate say which graphs can be built; what can
	// generate can also score and train.
	CanEmbed, CanGenerate bool

	Pooling   graph.PoolKind // how an embedding is made, unless asked otherwise
	Normalize bool           // whether it has unit length, unless asked otherwise
	EmbedDim  int            // width of an embedding: layers after the pooling may change it
	// Prompts are what the model wants before a text, by the name of a task, and
	// DefaultPrompt is the name of the one that a text gets unless asked
	// otherwise; "" is none.
	Prompts       map[string]string `json:",omitempty"`
	DefaultPrompt string            `json:",omitempty"`
	// TruncateDim is to which width the files cut embeddings, unless asked
	// otherwise; 0: they do not.
	TruncateDim int `json:",omitempty"`
	// MatryoshkaDims are the widths to which embeddings may be cut, where the
	// files say so.
	MatryoshkaDims []int `json:",omitempty"`

	// CanRerank says that pairs of texts can be scored, with Labels numbers each.
	CanRerank bool `json:",omitempty"`
	Labels    int  `json:",omitempty"`

	stages stages // after the pooling
	scorer scorer // of pairs

	ParamCount  int64 // elements of all weights; a tied head counts once
	BytesOnDisk int64 // of those weights in the model's files
}

// description is an architecture with its configuration filled in.
type description interface {
	config() *Config
	// names says where canonical keys are found in files of a format.
	names(f weights.Format) naming
	// body is tokens to the residual stream after the last block, [T,Dim].
	body(c *Context) *graph.Value
	// final is the norm between the last block and whatever reads it.
	final(c *Context, x *graph.Value) *graph.Value
	// head is rows of final to logits [R,Vocab]; it is called only where the
	// configuration says CanGenerate.
	head(c *Context, x *graph.Value) *graph.Value
}

// pooler is a description whose embeddings need no states of single tokens.
type pooler interface {
	// pooled is tokens to [S,kind.Len()*Dim].
	pooled(c *Context, kind graph.PoolKind) *graph.Value
}

// classifier is a description with a head of its own for scores of texts.
type classifier interface {
	// classify is rows of final [T,Dim] to [S,Labels].
	classify(c *Context, x *graph.Value) *graph.Value
}

// architecture is a row of the table.
type architecture struct {
	name string
	gguf []string // values of general.architecture
	hf   []string // values of model_type
	// One reader a source. They record what is wrong in r and may return a
	// description that makes no sense then.
	readGGUF func(r *fields) description
	readHF   func(r *fields) description
}

// architectures is filled by the init of each architecture's file.
var architectures []*architecture

func register(a *architecture) { architectures = append(architectures, a) }

// Model is an open model. All methods may be called by many goroutines at
// once, until the Store is closed.
type Model struct {
	store  *weights.Store
	cfg    *Config
	desc   description
	places map[string]place                     // canonical key -> place in the files
	want   map[string]tensor.Shape              // of every weight that the description uses
	live   map[string]func() ([]float32, error) // of With

	mu   sync.Mutex
	made map[string]*madeTensor // transposed copies by the name in the file

	tok struct {
		once sync.Once
		t    *tokenizer.Tokenizer
		err  error
	}
}

// Open detects the architecture of a model, reads its configuration and checks
// that every tensor is there in the right shape. The Store stays the caller's
// to close, after the Model's last use.
func Open(st *weights.Store) (*Model, error) {
	m, err := openStore(st)
	return m, weights.Damage(err)
}

func openStore(st *weights.Store) (*Model, error) {
	desc, err := describe(st)
	if err != nil {
		return nil, err
	}
	m := &Model{store: st, cfg: desc.config(), desc: desc, made: map[string]*madeTensor{}}
	if m.cfg.Name == "" {
		m.cfg.Name = strings.TrimSuffix(filepath.Base(filepath.Clean(st.Path())), ".gguf")
	}
	if m.places, err = desc.names(st.Format()).resolve(st, m.cfg.Layers); err != nil {
		return nil, err
	}
	if err := m.readScorer(); err != nil {
		return nil, err
	}
	m.cfg.EmbedDim = m.cfg.stages.width(m.cfg.Pooling.Len() * m.cfg.Dim)
	if err := m.checkWeights(); err != nil {
		return nil, err
	}
	return m, nil
}

// Config is what the files say; it must not be changed.
func (m *Model) Config() *Config { return m.cfg }

// Store is what the model was opened from.
func (m *Model) Store() *weights.Store { return m.store }

// describe finds the table's row and reads the configuration.
func describe(st *weights.Store) (description, error) {
	if f := st.GGUF(); f != nil {
		return describeGGUF(f)
	}
	if isStatic(st.HF()) {
		return describeStatic(st)
	}
	d, err := describeHF(st.HF().Config)
	if err != nil {
		return nil, err
	}
	return d, readSentence(d, st.HF())
}

func describeGGUF(f *gguf.File) (description, error) {
	name, err := f.NeedString("general.architecture")
	if err != nil {
		return nil, err
	}
	for _, a := range architectures {
		if slices.Contains(a.gguf, name) {
			r := ggufFields(f, name)
			d := a.readGGUF(r)
			if err := r.failed(); err != nil {
				return nil, err
			}
			c := d.config()
			c.Arch = a.name
			if c.Name, err = f.StringOr("general.name", ""); err != nil {
				return nil, err
			}
			return d, nil
		}
	}
	return nil, fmt.Errorf("%s: key %q: architecture %q, expected one of %s: %w",
		f.Name(), "general.architecture", name, supported(func(a *architecture) []string { return a.gguf }), weights.ErrUnsupported)
}

func describeHF(c *weights.Config) (description, error) {
	name, err := c.String("model_type")
	if err != nil {
		return nil, err
	}
	for _, a := range architectures {
		if slices.Contains(a.hf, name) {
			r := hfFields(c)
			if r.has("quantization_config") {
				r.unsupported("quantization_config", "quantized weights, expected plain ones (a GGUF file can hold quantized ones)")
			}
			d := a.readHF(r)
			if err := r.failed(); err != nil {
				return nil, err
			}
			d.config().Arch = a.name
			return d, nil
		}
	}
	return nil, fmt.Errorf("%s: field model_type: %q, expected one of %s: %w",
		c.File(), name, supported(func(a *architecture) []string { return a.hf }), weights.ErrUnsupported)
}

func supported(names func(*architecture) []string) string {
	var all []string
	for _, a := range architectures {
		all = append(all, names(a)...)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// checkWeights builds every use of the model once at its smallest, which asks
// for every weight by key and shape, and keeps what was asked for.
func (m *Model) checkWeights() error {
	m.want = map[string]tensor.Shape{}
	m.cfg.Delicate = m.cfg.Experts > 0
	counted := map[site]bool{}
	var wrong error
	m.eachUse(func(c *Context, out []*graph.Value) bool {
		wrong = m.keepWeights(c, out, counted)
		return wrong == nil
	})
	if wrong == nil {
		wrong = m.keepTrained()
	}
	return wrong
}

// keepTrained keeps weights that only training asks for: those of a file that
// other graphs read in another form. They are counted there.
func (m *Model) keepTrained() error {
	m.keepMasked()
	if _, ok := m.desc.(pooler); ok {
		return nil
	}
	c, p := m.context(graph.NewBuilder(tensor.Bind{T: 1, S: 1, R: 1})), &Ports{}
	c.training = true
	c.tokens(p)
	m.segments(c, p)
	x := m.desc.body(c)
	if d, ok := m.desc.(classifier); ok && !m.cfg.CanRerank { // what the files have of one
		c.labels, c.fresh = 1, ofClassifier
		d.classify(c, m.desc.final(c, x))
	}
	if c.wrong != nil {
		return c.wrong
	}
	for _, n := range c.Nodes() {
		if n.Leaf != nil && n.Leaf.Kind == graph.WeightLeaf {
			m.want[n.Leaf.Key] = n.Out[0].Shape
		}
	}
	return nil
}

// eachUse gives f the context and the outputs of what the model can do.
func (m *Model) eachUse(f func(c *Context, out []*graph.Value) bool) {
	begin := func() (*Context, *Ports) {
		c, p := m.context(graph.NewBuilder(tensor.Bind{T: 1, S: 1, R: 1})), &Ports{}
		c.tokens(p)
		return c, p
	}
	if m.cfg.CanRerank {
		c, p := begin()
		if !f(c, []*graph.Value{m.pairScores(c, p)}) {
			return
		}
	}
	c, _ := begin()
	if p, ok := m.desc.(pooler); ok {
		f(c, []*graph.Value{m.cfg.stages.apply(c, p.pooled(c, m.cfg.Pooling))})
		return
	}
	x := m.desc.final(c, m.desc.body(c))
	out := []*graph.Value{x}
	if m.cfg.CanGenerate {
		out = append(out, m.desc.head(c, x))
	}
	if m.cfg.CanEmbed {
		out = append(out, m.cfg.stages.apply(c, c.Pool("pool", x, c.QStart, m.cfg.Pooling)))
	}
	f(c, out)
}

// steep is the scale of scores, in units of the usual one, beyond which a model
// is delicate: rounding errors of scores grow by it, in an exponent.
const steep = 2

// keepWeights keeps the weights of one graph. What lies in one place counts
// once, in the form that was asked for first.
func (m *Model) keepWeights(c *Context, out []*graph.Value, counted map[site]bool) error {
	if c.wrong != nil {
		return c.wrong // without the scope that a graph's own errors carry
	}
	g, err := c.Freeze(out...)
	if err != nil {
		return fmt.Errorf("%s: %w", m.store.Path(), err)
	}
	magnitude := 1.0 // of the rope before attention, on queries and on keys
	for _, n := range g.Nodes {
		switch a := n.Attr.(type) {
		case graph.RopeAttr:
			magnitude = max(float64(a.Magnitude), 1)
		case graph.AttentionAttr:
			if float64(a.Scale)*math.Sqrt(float64(a.HeadDim))*magnitude*magnitude > steep {
				m.cfg.Delicate = true
			}
		}
		if n.Leaf == nil || n.Leaf.Kind != graph.WeightLeaf {
			continue
		}
		v := n.Out[0]
		info, err := m.inspect(n.Leaf.Key)
		if err != nil {
			return err
		}
		m.want[n.Leaf.Key] = v.Shape
		at := m.place(n.Leaf.Key).site()
		if counted[at] && at.name != "" {
			continue
		}
		counted[at] = true
		m.cfg.ParamCount += int64(v.Shape.Len(tensor.Bind{}))
		m.cfg.BytesOnDisk += info.bytes
	}
	return nil
}

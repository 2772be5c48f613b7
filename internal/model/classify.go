package model

import (
	"cmp"
	"fmt"
	"strings"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// Scores of texts and of pairs: the classifiers of encoders, a score layer over
// the last token of a decoder, and decoders that answer yes or no.

// scorer is how a model scores, beside its head.
type scorer struct {
	act   graph.ActKind // of scores
	acted bool          // whether there is one
	// key is the projection that reads a decoder's last token; "" where the
	// description has a classifier.
	key string
	// asked says that a decoder is to answer yes or no, for which it needs
	// words around a pair.
	asked bool
}

// maxLabels bounds what a head may claim.
const maxLabels = 1 << 16

// readScorer finds out whether and how the model scores pairs of texts.
func (m *Model) readScorer() error {
	c, s := m.cfg, &m.cfg.scorer
	if hf := m.store.HF(); hf != nil {
		if err := m.scorerHF(hf); err != nil {
			return err
		}
	} else if err := m.scorerGGUF(); err != nil {
		return err
	}
	if !c.CanRerank {
		return nil
	}
	key := s.key
	if key == "" {
		key = "cls.output"
	}
	in, err := m.inspect(key + ".weight")
	if err != nil {
		return err
	}
	if len(in.dims) != 2 {
		return m.fault(m.place(key+".weight").name, "dimensions %v, expected [labels, width]", in.dims)
	}
	if c.Labels = in.dims[0]; c.Labels > maxLabels {
		return m.fault(m.place(key+".weight").name, "%d labels, expected at most %d", c.Labels, maxLabels)
	}
	if !s.acted && c.Labels == 1 {
		s.act, s.acted = graph.Sigmoid, true
	}
	return nil
}

// scorerHF: config.json names the class that the weights were saved from.
func (m *Model) scorerHF(h *weights.HFDir) error {
	c, s := m.cfg, &m.cfg.scorer
	classes, err := h.Config.Strings("architectures")
	if err != nil {
		return err
	}
	for _, name := range classes {
		if !strings.HasSuffix(name, "ForSequenceClassification") {
			continue
		}
		c.CanRerank = true
		if _, ok := m.desc.(classifier); !ok {
			if s.key = "score"; !c.Causal {
				return fmt.Errorf("%s: field architectures: %s, expected a %s model without a classifier: %w", h.Config.File(), name, c.Arch, weights.ErrUnsupported)
			}
		}
		return s.activationHF(h)
	}
	return m.asksHF(h)
}

// activationHF reads what sentence-transformers applies to scores.
func (s *scorer) activationHF(h *weights.HFDir) error {
	r := hfFields(h.Config)
	key := "sbert_ce_default_activation_function"
	name := r.text(key, "")
	if o := r.object("sentence_transformers"); o != nil && o.has("activation_fn") {
		r, key = o, "activation_fn"
		name = o.text(key, "")
	} else if h.Sentence != nil && h.Sentence.Has("activation_fn") {
		r, key = hfFields(h.Sentence), "activation_fn"
		name = r.text(key, "")
	}
	if name != "" {
		s.act, s.acted = r.torchActivation(key, name)
		if !s.acted {
			s.acted, s.act = true, identity
		}
	}
	return r.failed()
}

// identity stands for no activation where a default would be one.
const identity = graph.ActKind(255)

// torchActivations are classes of torch by the end of their path.
var torchActivations = map[string]graph.ActKind{
	"Tanh": graph.Tanh, "Sigmoid": graph.Sigmoid, "ReLU": graph.ReLU, "GELU": graph.GELU, "SiLU": graph.SiLU,
}

// torchActivation is the activation that a path like
// torch.nn.modules.activation.Tanh names; Identity is none.
func (r *fields) torchActivation(key, path string) (graph.ActKind, bool) {
	name := path[strings.LastIndexByte(path, '.')+1:]
	kind, ok := torchActivations[name]
	if !ok && name != "Identity" {
		r.unsupported(key, "%q, expected Identity, Tanh, Sigmoid, ReLU, GELU or SiLU of torch", path)
	}
	return kind, ok
}

// scorerGGUF: a file with a classifier has its tensors.
func (m *Model) scorerGGUF() error {
	c, s := m.cfg, &m.cfg.scorer
	_, own := m.desc.(classifier)
	switch {
	case m.store.Has("cls.output.weight"):
		if c.CanRerank = true; !own {
			s.key = "cls.output"
		}
	case m.store.Has("cls.weight") && own: // a single layer goes by the name of the first
		c.CanRerank = true
		m.places["cls.output.weight"], m.places["cls.output.bias"] = place{name: "cls.weight"}, place{name: "cls.bias"}
	default:
		return nil
	}
	if s.key != "" {
		return m.asksGGUF()
	}
	return nil
}

// classes is the number of scores of a text.
func (c *Context) classes() int { return cmp.Or(c.labels, c.m.cfg.Labels) }

// rawScores is rows of final [T,Dim] to [S,Labels], before the activation.
func (m *Model) rawScores(c *Context, x *graph.Value) *graph.Value {
	if d, ok := m.desc.(classifier); ok && m.cfg.scorer.key == "" {
		return d.classify(c, x)
	}
	x = c.Pool("last", x, c.QStart, graph.PoolLast)
	return c.Project("score", x, m.cfg.scorer.key, graph.RoleHead, c.classes(), mayHaveBias)
}

// scores is rows of final [T,Dim] to [S,Labels].
func (m *Model) scores(c *Context, x *graph.Value) *graph.Value {
	s := &m.cfg.scorer
	x = m.rawScores(c, x)
	if s.acted && s.act != identity {
		x = c.Act("score_act", x, s.act)
	}
	return x
}

// pairScores is tokens, and segments where the model has them, to scores.
func (m *Model) pairScores(c *Context, p *Ports) *graph.Value {
	m.segments(c, p)
	p.Scores = m.scores(c, m.desc.final(c, m.desc.body(c)))
	return p.Scores
}

// segments declares the input of segments where the model tells them apart.
func (m *Model) segments(c *Context, p *Ports) {
	if s, ok := m.desc.(segmenter); ok && s.segmentRows() > 1 {
		c.Segments = c.Input("segments", tensor.I32, tensor.Rows(tensor.Of(tensor.T, 1)))
		p.Segments = c.Segments
	}
}

// BuildClassify is tokens to the scores of each sequence, which is a text or a
// pair of texts as Pairs puts it together. It uses the symbols T and S.
func (m *Model) BuildClassify(most tensor.Bind) (*graph.Graph, *Ports, error) {
	if err := m.able(m.cfg.CanRerank, "score pairs of texts"); err != nil {
		return nil, nil, err
	}
	b, err := start(most, most.T, most.S)
	if err != nil {
		return nil, nil, err
	}
	c, p := m.context(b), &Ports{}
	c.tokens(p)
	g, err := b.Freeze(m.pairScores(c, p))
	return g, p, err
}

// segmenter is a description whose tokens know which text of a pair they
// belong to.
type segmenter interface{ segmentRows() int }

// Segmented adds the table of segments, of n rows: each token's, or the first
// row where all belong to the first text.
func (c *Context) Segmented(x *graph.Value, n int) *graph.Value {
	switch {
	case n == 0:
		return x
	case c.Segments == nil || n == 1:
		return c.AddRow("segment", x, c.Tensor("segment.weight", graph.RoleEmbedding, x.Shape.RowLen()))
	}
	table := c.Tensor("token_types.weight", graph.RoleEmbedding, n, x.Shape.RowLen())
	return c.Add("embed_segments", x, c.Embed("segments", table, c.Segments, 1))
}

// Classified is a text's vector [S,Dim] to scores [S,Labels]: a dense layer,
// which GGUF files may lack, and the output.
func (c *Context) Classified(x *graph.Value, act graph.ActKind) *graph.Value {
	if c.m.store.HF() != nil || c.Has("cls.weight") && c.m.place("cls.output.weight").name != "cls.weight" {
		x = c.Act("cls_act", c.Project("cls", x, "cls", graph.RoleHead, x.Shape.RowLen(), mayHaveBias), act)
	}
	return c.Project("cls_output", x, "cls.output", graph.RoleHead, c.classes(), mayHaveBias)
}

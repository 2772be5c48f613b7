package model

import (
	"fmt"
	"strings"

	"hotpath/internal/graph"
	"hotpath/internal/tensor"
	"hotpath/internal/weights"
)

// What objectives take from a model: logits, states, vectors and scores.

// NextToken is the mean negative log-likelihood of Ports.Targets over the rows
// Ports.Rows, where the target is not negative.
func (t *Trainee) NextToken() *graph.Value {
	nll := t.NLL()
	return t.Mean("loss", nll, t.Ports.Targets)
}

// NLL is the negative log-likelihood of Ports.Targets at the rows Ports.Rows.
func (t *Trainee) NLL() *graph.Value {
	t.can(t.m.cfg.CanGenerate, "be trained on next tokens")
	if t.Err() != nil {
		return t.QStart
	}
	t.m.nll(t.Context, t.Ports)
	nll := t.Ports.NLL
	t.Ports.NLL = nil // it is no output
	return nll
}

// Logits are those of the rows Ports.Rows, [R,Vocab].
func (t *Trainee) Logits() *graph.Value {
	t.can(t.m.cfg.CanGenerate, "predict next tokens")
	if t.Err() != nil {
		return t.QStart
	}
	return t.m.logits(t.Context, t.Ports)
}

// Hidden is the state of each token after the last norm, [T,Dim].
func (t *Trainee) Hidden() *graph.Value { return t.m.desc.final(t.Context, t.m.desc.body(t.Context)) }

// Embedding is one vector per sequence, [S,EmbedDim], as the model makes it.
func (t *Trainee) Embedding() *graph.Value {
	t.can(t.m.cfg.CanEmbed, "embed")
	if t.Err() != nil {
		return t.QStart
	}
	x := t.m.embedding(t.Context, t.m.cfg.Pooling)
	if t.m.cfg.Normalize {
		x = t.L2Norm("normalize", x)
	}
	return x
}

// Scores are the labels' scores of each sequence before any activation,
// [S,labels]: by the model's own classifier, or by a fresh one where it has
// none.
func (t *Trainee) Scores(labels int) *graph.Value {
	c, m := t.Context, t.m
	if m.cfg.CanRerank {
		t.can(!m.cfg.scorer.asked, "be trained as a classifier: it answers yes or no")
		t.can(m.cfg.Labels == labels, fmt.Sprintf("score %d labels: it has %d", labels, m.cfg.Labels))
	} else {
		c.labels = labels
		c.fresh = func(key string) bool {
			return strings.HasPrefix(key, "cls") || strings.HasPrefix(key, "score") && !strings.HasSuffix(key, ".bias")
		}
		if _, ok := m.desc.(classifier); !ok {
			t.can(m.cfg.Causal, "classify texts")
		}
	}
	if t.Err() != nil {
		return t.QStart
	}
	m.segments(c, t.Ports)
	x := t.Hidden()
	if _, ok := m.desc.(classifier); m.cfg.CanRerank || ok {
		return m.rawScores(c, x)
	}
	x = c.Pool("last", x, c.QStart, graph.PoolLast)
	return c.Project("score", x, m.scoreKey(), graph.RoleHead, labels, mayHaveBias)
}

// ofClassifier says which weights a fresh classifier consists of; the score
// layer of decoders has no bias.
func ofClassifier(key string) bool { return strings.HasPrefix(key, "cls") || key == "score.weight" }

// scoreKey is where a decoder's classifier lies.
func (m *Model) scoreKey() string {
	if m.store.Format() == weights.GGUF {
		return "cls.output"
	}
	return "score"
}

// masker is an encoder that can predict masked tokens.
type masker interface {
	// masked is the epsilon of the head's norm, its activation, and what it does
	// about biases before the last.
	masked() (eps float32, act graph.ActKind, b bias)
}

func (d *bert) masked() (float32, graph.ActKind, bias)   { return d.eps, d.act, needsBias }
func (d *nomic) masked() (float32, graph.ActKind, bias)  { return d.eps, graph.GELU, needsBias }
func (d *modern) masked() (float32, graph.ActKind, bias) { return d.eps, graph.GELU, d.normBias }

// maskedNames are the dense layer, the norm and the owner of the last bias of a
// head for masked tokens, by architecture; others have BERT's.
var maskedNames = map[string][3]string{
	"bert":       {"cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions"},
	"roberta":    {"lm_head.dense", "lm_head.layer_norm", "lm_head"},
	"mpnet":      {"lm_head.dense", "lm_head.layer_norm", "lm_head"},
	"distilbert": {"vocab_transform", "vocab_layer_norm", "vocab_projector"},
	"modernbert": {"head.dense", "head.norm", "decoder"},
}

// maskedKeys are the canonical keys of such a head and their files' names.
func (m *Model) maskedKeys() map[string]string {
	names, ok := maskedNames[m.cfg.Arch]
	if !ok {
		names = maskedNames["bert"]
	}
	return map[string]string{
		"mlm.weight": names[0] + ".weight", "mlm.bias": names[0] + ".bias",
		"mlm_norm.weight": names[1] + ".weight", "mlm_norm.bias": names[1] + ".bias",
		"mlm_output.bias": names[2] + ".bias",
	}
}

// keepMasked finds the head for masked tokens where the files have one.
func (m *Model) keepMasked() {
	if _, ok := m.desc.(masker); !ok || m.store.HF() == nil || m.cfg.CanRerank { // a classifier may have the same names
		return
	}
	for key, name := range m.maskedKeys() {
		if t, err := m.store.Get(name); err == nil {
			m.places[key], m.want[key] = place{name: name}, tensor.Static(t.Dims...)
		}
	}
}

// MaskedLM are the logits of the rows Ports.Rows, [R,Vocab], by a dense layer,
// an activation, a norm and the token table. What the files lack of that head
// is fresh.
func (t *Trainee) MaskedLM() *graph.Value {
	d, ok := t.m.desc.(masker)
	if t.can(ok && !t.m.cfg.Causal, "predict masked tokens"); t.Err() != nil {
		return t.QStart
	}
	eps, act, b := d.masked()
	c, dim := t.Context, t.m.cfg.Dim
	c.fresh = func(key string) bool { return strings.HasPrefix(key, "mlm") }
	t.Ports.Rows = c.Input("rows", tensor.I32, tensor.Rows(tensor.Of(tensor.R, 1)))
	x := c.Gather("gather", t.Hidden(), t.Ports.Rows)
	x = c.Act("mlm_act", c.Project("mlm", x, "mlm", graph.RoleHead, dim, b), act)
	x = c.LayerNorm("mlm_norm", x, c.Tensor("mlm_norm.weight", graph.RoleNorm, dim), c.bias("mlm_norm", b, dim), eps)
	words := c.Tensor("token_embd.weight", graph.RoleEmbedding, t.m.cfg.Vocab, dim)
	return c.Linear("mlm_output", x, words, c.Tensor("mlm_output.bias", graph.RoleBias, t.m.cfg.Vocab))
}

// BuildFrozen is a forward graph whose weights are those of the file: end
// builds what is read after a run.
func (m *Model) BuildFrozen(most tensor.Bind, end func(t *Trainee) *graph.Value) (*graph.Graph, *Ports, *graph.Value, error) {
	b, err := start(most, most.T, most.S, most.R)
	if err != nil {
		return nil, nil, nil, err
	}
	c, p := m.context(b), &Ports{}
	c.tokens(p)
	t := &Trainee{Context: c, Ports: p}
	out := end(t)
	if t.wrong != nil {
		return nil, nil, nil, t.wrong
	}
	g, err := b.Freeze(out)
	return g, p, out, err
}

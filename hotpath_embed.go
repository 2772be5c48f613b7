package hotpath

import (
	"context"
	"fmt"
	"math"
	"slices"

	"hotpath/internal/engine"
	"hotpath/internal/graph"
	"hotpath/internal/model"
	"hotpath/internal/tokenizer"
	"hotpath/profile"
)

// EmbedOptions say how texts become vectors. The zero value does as the model
// was made for, with vectors of unit length.
type EmbedOptions struct {
	Pooling     string // "mean", "cls", "last", "max", "mean_sqrt_len" or "weightedmean"; "" is the model's own
	NoNormalize bool   // leave vectors as the model makes them, which may end with unit length itself
	Dim         int    // keep the first Dim elements, and make them unit length again; 0 keeps what the model's files say

	// What stands before each text: at most one of these. Without any of them it
	// is the prompt that the model's files name as the default, which most have
	// none of.
	Task       string // the prompt that the model has for one of Tasks
	PromptName string // one of the model's own prompts, see Info
	Prompt     string // this text
	NoPrompt   bool   // nothing, not even the model's default

	// What is done about a text that is too long for the model. It is cut unless
	// one of these is set.
	NoTruncate bool // it is an error, a *TooLongError
	Chunk      bool // it is split, and its vector is the mean of those of its parts
	// Chunks are ChunkTokens long, prompt and special tokens included; 0 means
	// as long as the model allows. Neighbours share ChunkOverlap tokens.
	ChunkTokens, ChunkOverlap int

	// Usage, if not nil, is filled with what was embedded.
	Usage *EmbedUsage
}

// EmbedUsage says what a call embedded. Its slices are reused when a call gets
// it again.
type EmbedUsage struct {
	Tokens    []int // of each text, after it was cut; of all its chunks
	Chunks    []int // of each text; 1 where it was not split
	Truncated []int // indices of texts that were cut
}

// Dim is the length of the vectors that Embed makes unless asked otherwise: all
// that the model has, or fewer where its files cut them.
func (m *Model) Dim() int {
	if m.cfg == nil {
		return 0
	}
	if cut := m.cfg.TruncateDim; cut > 0 {
		return min(cut, m.cfg.EmbedDim)
	}
	return m.cfg.EmbedDim
}

// Embed gives one vector a text. Texts that are too long are cut to the
// model's maximum; Usage tells which.
func (m *Model) Embed(ctx context.Context, texts []string, o EmbedOptions) (out [][]float32, err error) {
	defer engine.Guard(&err)
	if err := m.ready(ctx); err != nil {
		return nil, err
	}
	p, err := m.embedPlan(o)
	if err != nil {
		return nil, err
	}
	flat := make([]float32, len(texts)*p.dim)
	if err := m.embedInto(ctx, flat, texts, &p, o.Usage); err != nil {
		return nil, err
	}
	out = make([][]float32, len(texts))
	for i := range out {
		out[i] = flat[i*p.dim : (i+1)*p.dim : (i+1)*p.dim]
	}
	return out, nil
}

// EmbedInto is Embed into dst[len(texts),Dim]. After the first calls it
// allocates nothing, unless there is a prompt.
func (m *Model) EmbedInto(ctx context.Context, dst []float32, texts []string, o EmbedOptions) (err error) {
	defer engine.Guard(&err)
	if err := m.ready(ctx); err != nil {
		return err
	}
	p, err := m.embedPlan(o)
	if err != nil {
		return err
	}
	return m.embedInto(ctx, dst, texts, &p, o.Usage)
}

func (m *Model) embedInto(ctx context.Context, dst []float32, texts []string, p *embedPlan, u *EmbedUsage) (err error) {
	if len(dst) < len(texts)*p.dim {
		return fmt.Errorf("%w: dst has %d floats, expected %d for %d embeddings", ErrInput, len(dst), len(texts)*p.dim, len(texts))
	}
	ctx = m.recorded(ctx)
	b := m.takeBatch()
	defer m.putBatch(b)
	_, end := profile.Scope(ctx, "tokenize")
	b.reset()
	for i, text := range texts {
		if err = b.addText(ctx, p, i, text, &b.scratch); err != nil {
			break
		}
	}
	end()
	if err != nil {
		return err
	}
	b.use(u)
	b.sequences()
	if p.direct() {
		return m.eng.EmbedIDs(ctx, b.seqs, dst, p.model)
	}
	b.vectors = slices.Grow(b.vectors[:0], len(b.seqs)*p.width)[:len(b.seqs)*p.width]
	if err := m.eng.EmbedIDs(ctx, b.seqs, b.vectors, p.model); err != nil {
		return err
	}
	for i, t := range b.texts {
		p.finish(dst[i*p.dim:(i+1)*p.dim], b.pieces[t.first:t.first+t.n], b.vectors[t.first*p.width:])
	}
	return nil
}

// embedPlan is EmbedOptions held against a model.
type embedPlan struct {
	tok     *tokenizer.Tokenizer
	model   model.EmbedOptions
	frame   frame
	maxSeq  int
	width   int  // of the model's vectors
	dim     int  // of the answer
	unit    bool // the answer has unit length
	prompt  string
	ids     []int32 // of the prompt, for chunks
	empty   bool    // a text may have no tokens
	refuse  bool    // what is too long
	window  int     // tokens of a chunk without what frames it; 0: texts are cut
	overlap int
}

func (m *Model) embedPlan(o EmbedOptions) (_ embedPlan, err error) {
	defer engine.Guard(&err)
	p := embedPlan{
		tok: m.tok, frame: m.frame, maxSeq: m.cfg.MaxSeq, width: m.cfg.EmbedDim, dim: m.Dim(), unit: !o.NoNormalize, empty: m.cfg.Empty, refuse: o.NoTruncate,
		model: model.EmbedOptions{Pooling: m.cfg.Pooling, Normalize: !o.NoNormalize || m.store.HF() != nil && m.cfg.Normalize},
	}
	if o.Dim < 0 || o.Dim > p.width {
		return p, fmt.Errorf("%w: %d dimensions, expected 1 to %d, the model's dimension", ErrInput, o.Dim, p.width)
	}
	if o.Dim > 0 {
		p.dim = o.Dim
	}
	if o.Pooling != "" {
		kind, err := graph.ParsePool(o.Pooling)
		if err != nil {
			return p, fmt.Errorf("%w: %v", ErrInput, err)
		}
		if own := m.cfg.Pooling; own.Len() != kind.Len() {
			return p, fmt.Errorf("%w: pooling %s, expected %d joined by + as in the model's own pooling, %s", ErrInput, kind, own.Len(), own)
		}
		p.model.Pooling = kind
	}
	if p.prompt, err = m.prompts.find(&o); err != nil {
		return p, err
	}
	return p, p.chunks(&o)
}

// direct tells that the model's vectors are the answer as they come.
func (p *embedPlan) direct() bool { return p.dim == p.width && p.window == 0 }

// finish makes the vector of a text of those of its pieces, [pieces,width].
func (p *embedPlan) finish(dst []float32, pieces []piece, vectors []float32) {
	if len(pieces) == 1 {
		copy(dst, vectors)
	} else {
		mean(dst, pieces, vectors, p.width)
	}
	if p.unit && (len(pieces) > 1 || p.dim < p.width) {
		normalize(dst)
	}
}

// normalize makes v unit length.
func normalize(v []float32) {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return
	}
	scale := float32(1 / math.Sqrt(sum))
	for i := range v {
		v[i] *= scale
	}
}

func (m *Model) takeBatch() *textBatch {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.free); n > 0 {
		b := m.free[n-1]
		m.free = m.free[:n-1]
		return b
	}
	return new(textBatch)
}

func (m *Model) putBatch(b *textBatch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free = append(m.free, b)
}

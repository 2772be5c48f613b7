package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"hotpath/internal/engine"
	"hotpath/internal/model"
)

// vectorTests judge the vectors of a model: by people's scores of pairs (STS),
// and by how well anchors find their positives (retrieval).
type vectorTests struct {
	texts     [][]int32 // different texts, as token ids
	known     map[string]int
	sts       []scoredPair
	queries   []query
	documents []int // texts that queries choose from
}

// scoredPair is two texts, by their place in texts, and what people say.
type scoredPair struct {
	a, b  int
	score float64
}

// query is an anchor with its positives, by their places in documents.
type query struct {
	text     int
	relevant map[int]float64
}

// openVectorTests reads what evaluations embed: the fields validation.sts and
// validation.retrieval, else the validation data where they are of such a kind.
// It is nil where there is nothing.
func (t *Trainer) openVectorTests(ctx context.Context, m *model.Model, valid Source) (*vectorTests, error) {
	v := &vectorTests{known: map[string]int{}}
	c := &t.cfg.Validation
	for _, f := range []struct {
		name  string
		paths []string
		kind  Kind
		want  string
		add   func(s Source, i []int) error
	}{
		{"sts", c.STS, Scored, `pairs of texts with "score"`, v.addSTS},
		{"retrieval", c.Retrieval, Pairs, "an anchor, its positive, and negatives", v.addRetrieval},
	} {
		source := valid
		if len(f.paths) > 0 {
			var err error
			if source, err = t.vectorSource(ctx, m, f.paths); err != nil {
				return nil, fmt.Errorf("field validation.%s: %w", f.name, err)
			}
			if s := source.Stats(); source.Kind() != f.kind || s.Sequences < 2*s.Examples || s.Examples == 0 {
				return nil, fmt.Errorf("field validation.%s: %s: %d examples of kind %s, expected %s: %w",
					f.name, strings.Join(f.paths, ", "), s.Examples, source.Kind(), f.want, ErrData)
			}
		} else if !m.Config().CanEmbed || source == nil || source.Kind() != f.kind || source.Stats().Sequences < 2*source.Stats().Examples {
			continue
		}
		examples, err := someOf(source, c.Tokens, t.cfg.Seed)
		if err == nil {
			err = f.add(source, examples)
		}
		if err != nil {
			return nil, fmt.Errorf("field validation.%s: %w", f.name, err)
		}
	}
	if len(v.texts) == 0 {
		return nil, nil
	}
	return v, nil
}

// vectorSource reads texts for a model that embeds.
func (t *Trainer) vectorSource(ctx context.Context, m *model.Model, paths []string) (Source, error) {
	if c := m.Config(); !c.CanEmbed {
		return nil, fmt.Errorf("this %s model computes no vectors, expected an embedding model: %w", c.Arch, ErrConfig)
	}
	return t.files(ctx, m, paths, false, false)
}

// someOf are the examples of an evaluation of at most so many tokens, 0 for
// all, in the order in which the loss takes them.
func someOf(s Source, tokens int, seed uint64) ([]int, error) {
	n := s.Stats().Examples
	w, at, read := newWalk(n, seed), Position{}, 0
	var e Example
	var list []int
	for len(list) < n && (tokens == 0 || read < tokens) {
		i := w.at(at)
		if err := s.Example(i, &e); err != nil {
			return nil, fmt.Errorf("example %d: %w", i, err)
		}
		read += whole(&e).T
		list, at = append(list, i), w.after(at)
	}
	return list, nil
}

// text is the place of a text.
func (v *vectorTests) text(ids []int32) int {
	key := string(bytesOf(ids))
	i, ok := v.known[key]
	if !ok {
		i = len(v.texts)
		v.texts, v.known[key] = append(v.texts, append([]int32(nil), ids...)), i
	}
	return i
}

func (v *vectorTests) addSTS(s Source, examples []int) error {
	var e Example
	for _, i := range examples {
		if err := s.Example(i, &e); err != nil {
			return err
		}
		v.sts = append(v.sts, scoredPair{v.text(e.Seqs[0].IDs), v.text(e.Seqs[1].IDs), float64(e.Score)})
	}
	return nil
}

// addRetrieval makes one query per different anchor and one document per
// different positive or negative.
func (v *vectorTests) addRetrieval(s Source, examples []int) error {
	var e Example
	anchors, documents := map[int]int{}, map[int]int{}
	for _, i := range examples {
		if err := s.Example(i, &e); err != nil {
			return err
		}
		anchor := v.text(e.Seqs[0].IDs)
		q, ok := anchors[anchor]
		if !ok {
			q = len(v.queries)
			anchors[anchor] = q
			v.queries = append(v.queries, query{anchor, map[int]float64{}})
		}
		for k, seq := range e.Seqs[1:] {
			text := v.text(seq.IDs)
			doc, ok := documents[text]
			if !ok {
				doc = len(v.documents)
				documents[text], v.documents = doc, append(v.documents, text)
			}
			if k == 0 {
				v.queries[q].relevant[doc] = 1
			}
		}
	}
	return nil
}

// judgeVectors embeds the texts with the weights as they are now, as hotpath
// embed does with a checkpoint, and adds what the tests say to e.
func (t *Trainer) judgeVectors(ctx context.Context, e *Evaluation) (err error) {
	v := t.vectors
	if v == nil {
		return nil
	}
	m := t.runner.model.With(t.runner.live())
	eng, err := engine.Open(m, t.opts.Backend, t.embedding())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	x := make([]float32, len(v.texts)*m.Config().EmbedDim) // [texts,EmbedDim]
	if err := eng.EmbedIDs(ctx, v.texts, x, unitVectors(m)); err != nil {
		return err
	}
	v.judge(func(i int) []float32 { return x[i*m.Config().EmbedDim : (i+1)*m.Config().EmbedDim] }, e)
	return nil
}

// embedding are the options of an engine that embeds for evaluations.
func (t *Trainer) embedding() engine.Options {
	return engine.Options{Workers: t.opts.Workers, Parallel: engine.Fine, Invariant: true}
}

func unitVectors(m *model.Model) model.EmbedOptions {
	return model.EmbedOptions{Pooling: m.Config().Pooling, Normalize: true}
}

// judge holds unit vectors of the texts, by their places, against people's
// scores and positives.
func (v *vectorTests) judge(x func(text int) []float32, e *Evaluation) {
	cosines, scores := make([]float64, len(v.sts)), make([]float64, len(v.sts))
	for i, p := range v.sts {
		cosines[i], scores[i] = cosine(x(p.a), x(p.b)), p.score
	}
	e.Pearson, e.Spearman = pearson(cosines, scores), spearman(cosines, scores)
	if e.STS = !math.IsNaN(e.Pearson) && !math.IsNaN(e.Spearman); !e.STS {
		e.Pearson, e.Spearman = 0, 0
	}
	r := ranking{scores: make([]float64, len(v.documents))}
	for _, q := range v.queries {
		for i, doc := range v.documents {
			r.scores[i] = cosine(x(q.text), x(doc))
		}
		r.relevant = q.relevant
		e.MRR += r.reciprocal() / float64(len(v.queries))
		e.NDCG10 += r.ndcg(10) / float64(len(v.queries))
	}
	e.Retrieval = len(v.queries) > 0
}

// cosine is that of unit vectors.
func cosine(a, b []float32) float64 {
	var s0, s1, s2, s3 float64 // four sums, so that one addition does not wait for the other
	n := len(a) &^ 3
	for i := 0; i < n; i += 4 {
		s0 += float64(a[i]) * float64(b[i])
		s1 += float64(a[i+1]) * float64(b[i+1])
		s2 += float64(a[i+2]) * float64(b[i+2])
		s3 += float64(a[i+3]) * float64(b[i+3])
	}
	for i := n; i < len(a); i++ {
		s0 += float64(a[i]) * float64(b[i])
	}
	return s0 + s1 + s2 + s3
}

package hotpath

import (
	"cmp"
	"context"
	"slices"

	"hotpath/internal/engine"
)

// Ranked is one document of Rerank.
type Ranked struct {
	Index int // of the document in the call
	Score float32
}

// Rerank scores documents against a query with a cross-encoder, which reads
// both together, and returns them best first; equal scores keep their order.
// Scores are from 0 to 1 unless the model's files say otherwise. Texts that are
// too long are cut. Where the model is no reranker the error is ErrUnsupported.
func (m *Model) Rerank(ctx context.Context, query string, docs []string) ([]Ranked, error) {
	scores := make([]float32, len(docs))
	if err := m.RerankInto(ctx, scores, query, docs, RerankOptions{}); err != nil {
		return nil, err
	}
	out := make([]Ranked, len(docs))
	for i, s := range scores {
		out[i] = Ranked{Index: i, Score: s}
	}
	slices.SortStableFunc(out, func(a, b Ranked) int { return cmp.Compare(b.Score, a.Score) })
	return out, nil
}

// RerankOptions say what is done about documents that are too long for the model
// together with the query. They are cut unless NoTruncate is set.
type RerankOptions struct {
	NoTruncate bool // they are an error, a *TooLongError
	// Truncated, if not nil, is filled with the indices of documents that were
	// cut, or with which the query was.
	Truncated *[]int
}

// RerankInto writes the score of each document into scores[len(docs)].
func (m *Model) RerankInto(ctx context.Context, scores []float32, query string, docs []string, o RerankOptions) (err error) {
	defer engine.Guard(&err)
	if err := m.ready(ctx); err != nil {
		return err
	}
	if o.Truncated != nil {
		*o.Truncated = (*o.Truncated)[:0]
	}
	return m.eng.Rerank(m.recorded(ctx), query, docs, scores, func(doc, tokens, most int) error {
		if o.NoTruncate {
			return &TooLongError{Index: doc, Tokens: tokens, Max: most}
		}
		if o.Truncated != nil {
			*o.Truncated = append(*o.Truncated, doc)
		}
		return nil
	})
}

package hotpath

import (
	"cmp"
	"context"
	"slices"
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
	if err := m.RerankInto(ctx, scores, query, docs); err != nil {
		return nil, err
	}
	out := make([]Ranked, len(docs))
	for i, s := range scores {
		out[i] = Ranked{Index: i, Score: s}
	}
	slices.SortStableFunc(out, func(a, b Ranked) int { return cmp.Compare(b.Score, a.Score) })
	return out, nil
}

// RerankInto writes the score of each document into scores[len(docs)].
func (m *Model) RerankInto(ctx context.Context, scores []float32, query string, docs []string) (err error) {
	defer guard(&err)
	return m.eng.Rerank(m.recorded(ctx), query, docs, scores)
}

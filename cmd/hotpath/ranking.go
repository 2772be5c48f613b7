package main

import (
	"bufio"
	"cmp"
	"container/heap"
	"fmt"
	"io"
	"slices"

	"hotpath/internal/term"
)

// ranking keeps the best of any number of texts.
type ranking struct {
	top  int
	best []rankedText // a heap, the worst of them first
	n    int          // texts that were scored
}

type rankedText struct {
	text
	score float32
}

// compare puts better ones first, and equal ones in the order of input.
func (a rankedText) compare(b rankedText) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.index, b.index))
}

func (r *ranking) Len() int           { return len(r.best) }
func (r *ranking) Less(i, j int) bool { return r.best[i].compare(r.best[j]) > 0 }
func (r *ranking) Swap(i, j int)      { r.best[i], r.best[j] = r.best[j], r.best[i] }
func (r *ranking) Push(x any)         { r.best = append(r.best, x.(rankedText)) }
func (r *ranking) Pop() any {
	last := r.best[len(r.best)-1]
	r.best = r.best[:len(r.best)-1]
	return last
}

// addScore takes note of a text.
func (r *ranking) addScore(in text, score float32) {
	r.n++
	t := rankedText{in, score}
	switch {
	case len(r.best) < r.top:
		heap.Push(r, t)
	case t.compare(r.best[0]) < 0:
		r.best[0] = t
		heap.Fix(r, 0)
	}
}

// rankedRecord is one answer of similar and rerank.
type rankedRecord struct {
	Index int     `json:"index"`
	Score float32 `json:"score"`
	Text  string  `json:"text"`
}

// rankedFields are those that the output has itself.
var rankedFields = []string{"index", "score", "text"}

// write writes the texts, best first.
func (r *ranking) write(w io.Writer, format string) error {
	slices.SortFunc(r.best, rankedText.compare)
	if format == "text" {
		b := bufio.NewWriter(w)
		for _, t := range r.best {
			fmt.Fprintf(b, "%7.4f  %s  %s\n", t.score, term.Printable(t.where), excerpt(t.body, 80))
		}
		return b.Flush()
	}
	rec := newRecords(w, format)
	for _, t := range r.best {
		if err := rec.encode(rankedRecord{t.index, t.score, t.body}, t.carry); err != nil {
			return err
		}
	}
	return rec.end()
}

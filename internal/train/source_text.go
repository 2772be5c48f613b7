package train

import "sort"

// texts are documents cut into pieces of at most so many tokens to predict, or
// to read.
type texts struct {
	*fileSource
	seqLen int
	next   int   // 1 where a piece has one token more, which is a target only
	before []int // [documents+1] pieces before each
	stats  Stats
}

func newTexts(f *fileSource, seqLen int, next bool) *texts {
	t := &texts{fileSource: f, seqLen: seqLen, before: make([]int, 1, f.stats.Documents+1)}
	if next {
		t.next = 1
	}
	t.stats = Stats{Documents: f.stats.Documents, Most: 1}
	pieces := 0
	for _, s := range f.shards {
		begin := int64(0)
		for _, end := range s.seqs {
			n := int(end - begin)
			if steps := n - t.next; steps > 0 {
				k := (steps + seqLen - 1) / seqLen
				pieces += k
				t.stats.Tokens += int64(n + (k-1)*t.next)
				t.stats.Longest = max(t.stats.Longest, min(n, seqLen+t.next))
			}
			t.before = append(t.before, pieces)
			begin = end
		}
	}
	t.stats.Examples, t.stats.Sequences = pieces, pieces
	return t
}

func (t *texts) Stats() Stats { return t.stats }

// Example is piece i. Pieces of a document follow one another, so that every
// token but its first is predicted once per epoch.
func (t *texts) Example(i int, e *Example) error {
	d := sort.SearchInts(t.before, i+1) - 1
	s, n := t.locate(d) // a document is an example of one sequence
	from, to := s.span(int64(n))
	from += int64((i - t.before[d]) * t.seqLen)
	to = min(to, from+int64(t.seqLen+t.next))
	e.Seqs = append(e.Seqs[:0], Sequence{IDs: s.ids[from:to:to]})
	e.Text, e.Part = d, t.before[d+1]-t.before[d] > 1
	return checkIDs(e.Seqs[0].IDs, t.vocab)
}

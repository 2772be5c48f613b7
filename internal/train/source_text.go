package train

// texts is a corpus cut into stretches of at most so many tokens to predict.
type texts struct {
	corpus *corpus
	pieces []piece
	stats  Stats
}

func newTexts(c *corpus, seqLen int) *texts {
	t := &texts{corpus: c, pieces: c.pieces(seqLen)}
	t.stats = Stats{Documents: len(c.ends), Examples: len(t.pieces), Sequences: len(t.pieces), Most: 1}
	for _, p := range t.pieces {
		t.stats.Tokens += int64(p.n + 1)
		t.stats.Longest = max(t.stats.Longest, p.n+1)
	}
	return t
}

func (t *texts) Kind() Kind          { return Text }
func (t *texts) Stats() Stats        { return t.stats }
func (t *texts) Fingerprint() string { return t.corpus.fingerprint() }

func (t *texts) Example(i int, e *Example) error {
	p := t.pieces[i]
	e.Seqs = append(e.Seqs[:0], Sequence{IDs: t.corpus.ids[p.start : p.start+p.n+1]})
	return nil
}

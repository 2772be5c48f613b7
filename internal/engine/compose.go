package engine

import (
	"context"
	"slices"
	"sort"
)

// compose fills a worker's batch with whole sequences from the head of the queue,
// up to limit tokens. It returns the context of the run. If the batch has only
// one caller, that is the caller's context, so that cancelling ends the run. The
// batch stays empty if the first waiting text is longer than the worker's largest
// run.
func (m *embedder) compose(w *worker, limit int) context.Context {
	w.Reset()
	w.parts = w.parts[:0]
	for c := m.head; c != nil; {
		next, p := c.next, part{call: c, first: c.taken, row: w.Bind.S}
		for c.taken < len(c.seqs) && w.Bind.S < w.Max.S {
			at := c.taken
			if w.Bind.T > 0 && c.sorted && m.split.Last() {
				at = c.prefer(limit - w.Bind.T)
			}
			text := c.order[at]
			ids := c.seqs[text]
			// A run takes one text of any length that it has memory for.
			if w.Bind.T+len(ids) > w.Max.T || w.Bind.T > 0 && w.Bind.T+len(ids) > limit && !m.split.Whole(w.Bind.T, len(ids), limit) {
				break
			}
			var segments []int32
			if c.segments != nil {
				segments = c.segments[text]
			}
			w.AddPair(ids, segments)
			c.take(at)
		}
		if p.n = c.taken - p.first; p.n == 0 {
			break
		}
		w.parts = append(w.parts, p)
		c.flying++
		if c.taken < len(c.seqs) {
			m.rotate(c)
			break
		}
		m.remove(c)
		c = next
	}
	m.tokens.Add(int64(w.Bind.T))
	return m.context(w)
}

// handRows copies the rows of a part to the caller's memory.
func (m *embedder) handRows(w *worker, p part) error {
	rows := w.out[p.row*w.width : (p.row+p.n)*w.width]
	if !finite(rows) {
		return errNumbers
	}
	if c := p.call; !c.gone {
		for k, i := range c.order[p.first : p.first+p.n] {
			copy(c.dst[int(i)*w.width:], rows[k*w.width:(k+1)*w.width])
		}
	}
	return nil
}

// load sums up the queue.
func (m *embedder) load() load {
	var l load
	for c := m.head; c != nil; c = c.next {
		l.seqs += c.load.seqs - c.taken
		for _, i := range c.order[c.taken:] {
			l.tokens += len(c.seqs[i])
			l.longest = max(l.longest, len(c.seqs[i]))
		}
	}
	return l
}

// longestFirst sorts the texts that no run has taken yet, longest first. The last
// runs then have short texts and can be balanced.
func (c *call) longestFirst() {
	c.sorted = true
	slices.SortStableFunc(c.order[c.taken:], func(a, b int32) int { return len(c.seqs[b]) - len(c.seqs[a]) })
}

// empty reports whether the next text has no tokens: no share of a load counts it.
func (c *call) empty() bool { return len(c.seqs[c.order[c.taken]]) == 0 }

// prefer returns the position of the longest text that fits into room tokens, or
// of the shortest text if none fits. The call is sorted.
func (c *call) prefer(room int) int {
	rest := c.order[c.taken:]
	return c.taken + sort.Search(len(rest)-1, func(i int) bool { return len(c.seqs[rest[i]]) <= room })
}

// take assigns the text at a position of the order to a run. The other texts keep
// their order.
func (c *call) take(at int) {
	text := c.order[at]
	copy(c.order[c.taken+1:at+1], c.order[c.taken:at])
	c.order[c.taken] = text
	c.taken++
}

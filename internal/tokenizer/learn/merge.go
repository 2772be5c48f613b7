package learn

import (
	"context"
	"math"
	"strings"
)

// merger joins the most frequent pair of neighbours into a token, again and
// again. Of pairs that are equally frequent the one with the lower ids comes
// first, as in Hugging Face's trainer.
type merger struct {
	prefix string // of tokens that continue a word
	tokens []string
	ids    map[string]int32
	length []int32    // [tokens] symbols that a token was made of
	merges [][2]int32 // pairs in the order of their merges
	floor  int64      // least count of a pair that is merged

	// The symbols of all words with a boundary around each. The first and the
	// last place of a token hold its id, so that its neighbours are found from
	// either side by their lengths.
	symbols []int32
	words   []int32 // [symbols] which word a place belongs to
	counts  []int64 // [words]

	pairs pairTable
	queue pairQueue
	left  neighbours // of the token that is being made
	right neighbours
}

const (
	boundary = -1 // between words
	inside   = -2 // an end of a token that became part of a longer one
	// maxSymbols keeps places within 32 bits.
	maxSymbols = math.MaxInt32 - 64
	// maxToken is the longest token in bytes that package tokenizer reads.
	maxToken = 1024
)

// pair is two tokens that stand beside each other.
type pair struct {
	count  int64
	places []int32 // where it stood, rising; it may be gone from some of them
}

func pairKey(a, b int32) uint64 { return uint64(a)<<32 | uint64(b) }

// addWord takes a word as symbols. Words of one symbol have no pairs.
func (m *merger) addWord(symbols []int32, count int64) {
	if len(symbols) < 2 {
		return
	}
	m.symbols = append(append(m.symbols, symbols...), boundary)
	for range len(symbols) + 1 {
		m.words = append(m.words, int32(len(m.counts)))
	}
	m.counts = append(m.counts, count)
}

// begin counts the pairs of all words.
func (m *merger) begin() {
	var totals []int64
	var places []int32 // how many of each pair
	at := func(i int) int32 {
		n, found := m.pairs.slot(pairKey(m.symbols[i], m.symbols[i+1]), int32(len(totals)))
		if !found {
			totals, places = append(totals, 0), append(places, 0)
		}
		return n
	}
	for i := 1; i+1 < len(m.symbols); i++ {
		if m.symbols[i] >= 0 && m.symbols[i+1] >= 0 {
			n := at(i)
			totals[n] += m.counts[m.words[i]]
			places[n]++
		}
	}
	m.pairs.list = make([]pair, len(totals))
	for n := range totals {
		m.pairs.list[n] = pair{totals[n], make([]int32, 0, places[n])}
	}
	for i := 1; i+1 < len(m.symbols); i++ {
		if m.symbols[i] >= 0 && m.symbols[i+1] >= 0 {
			p := &m.pairs.list[at(i)]
			p.places = append(p.places, int32(i))
		}
	}
	m.pairs.each(func(key uint64, n int32) {
		if c := m.pairs.list[n].count; c >= m.floor {
			m.queue = append(m.queue, queued{c, key, n})
		}
	})
	m.queue.order()
}

// mergeAll merges until there are size tokens, or no pair is left that is frequent
// enough.
func (m *merger) mergeAll(ctx context.Context, size int, progress func(tokens int)) error {
	m.begin()
	m.left.grow(size)
	m.right.grow(size)
	for len(m.tokens) < size && len(m.queue) > 0 {
		top := &m.queue[0]
		p := &m.pairs.list[top.pair]
		if p.count != top.count {
			// Counts only fall, so that the best pair of the queue is the best of all
			// once its count is right.
			if top.count = p.count; p.count < m.floor {
				m.queue.pop()
			} else {
				m.queue.down(0)
			}
			continue
		}
		a, b, places := int32(top.key>>32), int32(top.key), p.places
		p.count, p.places = 0, nil
		m.queue.pop()
		if len(m.merges)%64 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if len(m.tokens[a])+len(m.tokens[b]) > maxToken {
			continue
		}
		m.merges = append(m.merges, [2]int32{a, b})
		m.merge(a, b, m.token(a, b), places)
		if progress != nil {
			progress(len(m.tokens))
		}
	}
	return nil
}

// token is the id of two tokens together.
func (m *merger) token(a, b int32) int32 {
	text := m.tokens[a] + strings.TrimPrefix(m.tokens[b], m.prefix)
	id, ok := m.ids[text]
	if !ok {
		id = int32(len(m.tokens))
		m.tokens, m.length = append(m.tokens, text), append(m.length, 0)
		m.ids[text] = id
	}
	m.length[id] = m.length[a] + m.length[b]
	return id
}

// merge replaces a and b by t where they stand together, and counts the pairs
// that this makes and unmakes.
func (m *merger) merge(a, b, t int32, places []int32) {
	aLen, bLen := m.length[a], m.length[b]
	for _, i := range places {
		j := i + aLen
		if m.symbols[i] != a || m.symbols[j] != b {
			continue
		}
		end := j + bLen // what follows
		count := m.counts[m.words[i]]
		m.symbols[j-1], m.symbols[j] = inside, inside
		m.symbols[i], m.symbols[end-1] = t, t
		if x := m.symbols[i-1]; x >= 0 {
			m.left.addCount(x, i-m.length[x], count)
		}
		if y := m.symbols[end]; y >= 0 {
			m.right.addCount(y, i, count)
		}
	}
	// Where t follows t, its neighbour was counted as an a before.
	if n := m.left.count[t]; n > 0 {
		m.right.count[a] -= n
	}
	for _, x := range m.left.seen {
		if x != t {
			m.fewer(pairKey(x, a), m.left.count[x])
		}
	}
	for _, y := range m.right.seen {
		lost := m.right.count[y]
		if y == a {
			lost += m.left.count[t]
		}
		m.fewer(pairKey(b, y), lost)
	}
	m.left.take(m.floor, func(x int32, p pair) { m.more(pairKey(x, t), p) })
	m.right.take(m.floor, func(y int32, p pair) { m.more(pairKey(t, y), p) })
}

func (m *merger) fewer(key uint64, n int64) {
	if at, ok := m.pairs.find(key); ok {
		m.pairs.list[at].count -= n
	}
}

// more takes a pair that is new. Every new pair holds the new token, so it is
// complete when it comes; only a token that is made of two different pairs
// comes with pairs that were there before.
func (m *merger) more(key uint64, p pair) {
	at, found := m.pairs.slot(key, int32(len(m.pairs.list)))
	if found {
		old := &m.pairs.list[at]
		old.count += p.count
		old.places = append(old.places, p.places...)
		p.count = old.count
	} else {
		m.pairs.list = append(m.pairs.list, p)
	}
	m.queue.push(queued{p.count, key, at})
}

// neighbours gathers the tokens on one side of the token that is being made.
type neighbours struct {
	count  []int64 // [tokens] how often each stands there
	number []int32 // [tokens] in how many places
	seen   []int32 // tokens that do
	events []place
}

type place struct{ token, at int32 }

func (n *neighbours) grow(tokens int) {
	n.count, n.number = make([]int64, tokens), make([]int32, tokens)
}

func (n *neighbours) addCount(token, at int32, count int64) {
	if n.number[token] == 0 {
		n.seen = append(n.seen, token)
	}
	n.number[token]++
	n.count[token] += count
	n.events = append(n.events, place{token, at})
}

// take hands over the pairs that are frequent enough, and forgets all.
func (n *neighbours) take(floor int64, each func(token int32, p pair)) {
	total := 0
	for _, x := range n.seen {
		if n.count[x] < floor {
			n.number[x] = -1
		} else {
			total += int(n.number[x])
		}
	}
	places := make([]int32, total)
	begin := int32(0)
	for _, x := range n.seen {
		if k := n.number[x]; k > 0 {
			n.number[x], begin = begin, begin+k
		}
	}
	for _, e := range n.events {
		if at := n.number[e.token]; at >= 0 {
			places[at] = e.at
			n.number[e.token]++
		}
	}
	begin = 0
	for _, x := range n.seen {
		if end := n.number[x]; end >= 0 {
			each(x, pair{n.count[x], places[begin:end:end]})
			begin = end
		}
		n.count[x], n.number[x] = 0, 0
	}
	n.seen, n.events = n.seen[:0], n.events[:0]
}

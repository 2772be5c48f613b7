package tokenizer

import (
	"math"
	"unicode/utf8"
)

// unigram finds the most likely tokens that spell a piece: each has the logarithm of its probability, and
// the best path to every place is kept (Viterbi).
type unigram struct {
	vocab        *vocab
	begin        *beginnings
	scores       []float64   // by id; nil where all fit into
	narrow       []float32   // less
	unk          int32       // -1: none, what cannot be spelled is dropped
	unkScore     float64     // of one unknown character
	byteFallback *[256]int32 // nil: not asked for
}

// unkPenalty is what an unknown character costs beyond the least likely token.
const unkPenalty = 10

// unigramScratch holds the best path to every place of a piece, [bytes+1].
type unigramScratch struct {
	best []pathNode
	path []pathStep // the best one, from its end
}

type pathNode struct {
	score float64
	start int32 // where the last token of the path begins, -1: no path
	id    int32
}

type pathStep struct{ start, end, id int32 }

func (m *unigram) score(id int32) float64 {
	if m.scores != nil {
		return m.scores[id]
	}
	return float64(m.narrow[id])
}

func (m *unigram) encode(dst []int32, word []byte, s *Scratch) []int32 {
	if len(word) > math.MaxInt32-1 {
		return dst
	}
	u := &s.unigram
	if cap(u.best) < len(word)+1 {
		u.best = make([]pathNode, len(word)+1+len(word)/4)
	}
	best := u.best[:len(word)+1]
	for i := range best {
		best[i] = pathNode{start: -1}
	}
	for at, places := 0, 1; at < len(word); places++ {
		if places%placesBetween == 0 && s.options.ended() {
			return dst
		}
		_, width := utf8.DecodeRune(word[at:])
		m.extend(best, word, at, width)
		at += width
	}
	u.path = u.path[:0]
	for end := len(word); end > 0; {
		node := best[end]
		u.path = append(u.path, pathStep{node.start, int32(end), node.id})
		end = int(node.start)
	}
	for i := len(u.path) - 1; i >= 0; i-- {
		node := u.path[i]
		if node.id != m.unk {
			dst = append(dst, node.id)
			continue
		}
		for i > 0 && u.path[i-1].id == m.unk { // unknown characters side by side are one
			i--
		}
		dst = m.unknown(dst, word[node.start:u.path[i].end])
	}
	return dst
}

// extend tries every token that begins at a place, and the unknown one.
func (m *unigram) extend(best []pathNode, word []byte, at, width int) {
	here, single := best[at].score, false
	h := hashSeed
	for i := at; i < len(word); {
		h = hashByte(h, word[i])
		i++
		if i < len(word) && !utf8.RuneStart(word[i]) {
			continue
		}
		cell := m.begin.get(h)
		if cell&cellToken != 0 {
			if id, ok := m.vocab.find(h, "", word[at:i]); ok && m.vocab.at[id]&moreFlag == 0 && m.matches(id) {
				if score := here + m.score(id); best[i].start < 0 || score > best[i].score {
					best[i] = pathNode{score, int32(at), id}
				}
				single = single || i == at+width
			}
		}
		if cell&cellLonger == 0 {
			break
		}
	}
	if end := at + width; !single {
		if score := here + m.unkScore; best[end].start < 0 || score > best[end].score {
			best[end] = pathNode{score, int32(at), m.unk}
		}
	}
}

// matches tells whether the model may make a token of text: a score of no number keeps it out.
func (m *unigram) matches(id int32) bool { return m.scores == nil || m.scores[id] == m.scores[id] }

// unknown appends the ids of characters that no token spells.
func (m *unigram) unknown(dst []int32, text []byte) []int32 {
	if id, ok := m.vocab.known(text); ok {
		return append(dst, id)
	}
	if m.byteFallback != nil && hasAll(m.byteFallback, text) {
		for _, c := range text {
			dst = append(dst, m.byteFallback[c])
		}
		return dst
	}
	if m.unk >= 0 {
		dst = append(dst, m.unk)
	}
	return dst
}

// readUnigram reads {"vocab": [["token", score], ...], "unk_id": 0}.
func readUnigram(t *Tokenizer, p *jsonPart, byteLevel bool, more room) error {
	raw := pick(p.raw, "vocab", "unk_id", "byte_fallback")
	size, narrow := more, true
	entry := func(i int, item []byte) (token []byte, score float64, err error) {
		var parts [2][]byte
		n := 0
		eachItem(item, func(i int, part []byte) error {
			parts[min(i, 1)] = part
			n++
			return nil
		})
		ok := n == 2 && parts[0][0] == '"'
		if ok {
			score, ok = asFloat(parts[1])
		}
		if !ok {
			return nil, 0, p.errorf("vocab", "entry %d is %.100s, expected [token, score]", i, item)
		}
		return parts[0], score, nil
	}
	count := 0
	ok, err := eachItem(raw[0], func(i int, item []byte) error {
		token, score, err := entry(i, item)
		if err != nil {
			return err
		}
		count++
		size.reserve(stringLength(token))
		narrow = narrow && float64(float32(score)) == score
		return nil
	})
	if err == nil && !ok {
		err = p.errorf("vocab", "expected an array of tokens and scores")
	}
	if err != nil {
		return err
	}
	v, err := newVocab(size, int64(count)-1, more.tokens)
	if err != nil {
		return p.errorf("vocab", "%w", err)
	}
	v.twice = true
	m := &unigram{vocab: v, unk: -1}
	if narrow {
		m.narrow = make([]float32, count)
	} else {
		m.scores = make([]float64, count)
	}
	least := math.Inf(1)
	var buf []byte
	if _, err = eachItem(raw[0], func(i int, item []byte) error {
		token, score, _ := entry(i, item)
		if narrow {
			m.narrow[i] = float32(score)
		} else {
			m.scores[i] = score
		}
		least = min(least, score)
		buf = appendString(buf[:0], token)
		if err := v.addToken(buf, int64(i), true); err != nil {
			return p.errorf("vocab", "%w", err)
		}
		return nil
	}); err != nil {
		return err
	}
	if !isNull(raw[1]) {
		id, ok := asID(raw[1])
		if !ok || id >= int64(count) {
			return p.errorf("unk_id", "is %.20s, expected less than the %d tokens", raw[1], count)
		}
		m.unk = int32(id)
	}
	fallback, err := p.flag("byte_fallback", raw[2])
	if err != nil {
		return err
	}
	if fallback {
		m.byteFallback = fallbackBytes(v)
	}
	m.unkScore = least - unkPenalty
	if m.begin, err = newBeginnings(v); err != nil {
		return p.errorf("vocab", "%w", err)
	}
	t.vocab, t.model = v, m
	if byteLevel {
		t.steps = append(t.steps, spellBytes{})
	}
	return nil
}

package learn

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/bits"
	"slices"
	"sync/atomic"

	"hotpath/internal/dataset"
	"hotpath/internal/format/jsonview"
	"hotpath/internal/tokenizer"
)

// words counts the pieces that texts are cut into.
type words struct {
	text  []byte  // all words, one after the other
	at    []int   // [n+1] where each begins in text
	count []int64 // [n]
	hash  []uint32
	slots []int32 // hashed by word: its number plus one, 0 is empty
}

func newWords() *words {
	return &words{at: []int{0}, slots: make([]int32, 1<<12)}
}

func (w *words) word(i int) []byte { return w.text[w.at[i]:w.at[i+1]] }

// hashWord mixes eight bytes at a time. Texts that are made to collide make it
// slow, not wrong.
func hashWord(word []byte) uint32 {
	const prime = 0x9E3779B97F4A7C15
	h := uint64(len(word)) * prime
	for ; len(word) >= 8; word = word[8:] {
		hi, lo := bits.Mul64(h^binary.LittleEndian.Uint64(word), prime)
		h = hi ^ lo
	}
	var tail uint64
	switch n := len(word); {
	case n >= 4:
		tail = uint64(binary.LittleEndian.Uint32(word)) | uint64(binary.LittleEndian.Uint32(word[n-4:]))<<32
	case n > 0:
		tail = uint64(word[0]) | uint64(word[n/2])<<8 | uint64(word[n-1])<<16
	}
	hi, lo := bits.Mul64(h^tail, prime)
	return uint32(hi ^ lo)
}

// addWord counts a word n times more.
func (w *words) addWord(word []byte, n int64) { w.addHashed(hashWord(word), word, n) }

func (w *words) addHashed(hash uint32, word []byte, n int64) {
	mask := uint32(len(w.slots) - 1)
	i := hash & mask
	for ; w.slots[i] != 0; i = (i + 1) & mask {
		k := w.slots[i] - 1
		if w.hash[k] == hash && bytes.Equal(w.word(int(k)), word) {
			w.count[k] += n
			return
		}
	}
	w.text = append(w.text, word...)
	w.at = append(w.at, len(w.text))
	w.count = append(w.count, n)
	w.hash = append(w.hash, hash)
	w.slots[i] = int32(len(w.count))
	if 2*len(w.count) > len(w.slots) {
		w.grow()
	}
}

func (w *words) grow() {
	w.slots = make([]int32, 2*len(w.slots))
	mask := uint32(len(w.slots) - 1)
	for k, hash := range w.hash {
		i := hash & mask
		for w.slots[i] != 0 {
			i = (i + 1) & mask
		}
		w.slots[i] = int32(k + 1)
	}
}

// merge adds what another table counted.
func (w *words) merge(other *words) {
	for k, n := range other.count {
		w.addHashed(other.hash[k], other.word(k), n)
	}
}

// counter is one worker's share of the counting.
type counter struct {
	cut     *tokenizer.Cutter
	scratch tokenizer.Scratch
	text    []byte
	words   *words
	add     func(piece []byte)
}

// countWords cuts files into words and counts them on several workers. What
// comes out does not depend on how many there are.
func countWords(ctx context.Context, files []dataset.File, cut *tokenizer.Cutter, threads int, progress func(bytes int64)) (*words, error) {
	counters := make([]*counter, threads)
	for i := range counters {
		c := &counter{cut: cut, words: newWords()}
		c.add = func(piece []byte) { c.words.addWord(piece, 1) }
		counters[i] = c
	}
	var full atomic.Bool
	work := func(worker int, b *dataset.Block) (int, error) {
		c := counters[worker]
		err := c.block(b)
		if len(c.words.count) > maxWords {
			full.Store(true)
		}
		return len(b.Text), err
	}
	var done int64
	err := dataset.Each(ctx, files, threads, dataset.CutLines, work, func(b *dataset.Block, n int) error {
		if done += int64(n); progress != nil {
			progress(done)
		}
		if full.Load() {
			return tooMany(b)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := counters[0].words
	for _, c := range counters[1:] {
		all.merge(c.words)
	}
	return all, nil
}

// block counts the words of a block: of each line by itself, as Hugging Face's
// trainer reads files, or of each text of a .jsonl file.
func (c *counter) block(b *dataset.Block) error {
	if !b.File.Lines {
		for line := range bytes.Lines(b.Text) {
			c.cut.Cut(line, &c.scratch, c.add)
		}
		return nil
	}
	return b.Objects(func(l dataset.Line) error {
		if _, ok := l.Object.Get("text"); !ok && eachString(l.Object, func(jsonview.Value) {}) > 1 {
			eachString(l.Object, c.value)
			return nil
		}
		v, err := l.Text("text")
		if err != nil {
			return err
		}
		c.value(v)
		return nil
	})
}

// value counts the words of a string.
func (c *counter) value(v jsonview.Value) {
	c.text = v.AppendText(c.text[:0])
	c.cut.Cut(c.text, &c.scratch, c.add)
}

// eachString gives f all strings of a value but the names of fields, and counts
// them: an object with several is a pair, a conversation or an answer.
func eachString(v jsonview.Value, f func(jsonview.Value)) (n int) {
	switch v.Kind() {
	case jsonview.String:
		f(v)
		return 1
	case jsonview.Array:
		for item := range v.Items() {
			n += eachString(item, f)
		}
	case jsonview.Object:
		for _, member := range v.Members() {
			n += eachString(member, f)
		}
	}
	return n
}

// sorted lists words by their text, which no number of workers changes.
func (w *words) sorted() []int {
	order := make([]int, len(w.count))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(w.word(a), w.word(b)) })
	return order
}

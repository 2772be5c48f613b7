package tokenizer

import (
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// beginnings tells for the hash of a text whether it may be a token, and whether it may be the beginning
// of a longer one. It may be wrong when it says yes: the vocabulary decides. So walking over the tokens
// that a text begins with needs neither a trie nor a look at the vocabulary for every length.
type beginnings struct {
	cells []uint64 // 32 cells of two bits each
	shift uint
}

const (
	cellLonger = 1 // some token is longer
	cellToken  = 2
)

// maxCells bounds the filter at 2 MiB; what is beyond makes it less sharp.
const maxCells = 1 << 23

// maxPiece bounds the length in bytes of a token where a model tries the tokens that begin at each place of a
// text, which may cost text times this, or where a token may be joined of two wherever it can be cut.
const maxPiece = 1024

// newBeginnings looks at the tokens of a vocabulary.
func newBeginnings(v *vocab) (*beginnings, error) {
	size := min(max(10, bits.Len(uint(3*len(v.text)))), bits.Len(maxCells)-1)
	b := &beginnings{cells: make([]uint64, 1<<size/32), shift: uint(64 - size)}
	for i, at := range v.at {
		id := int32(i)
		if at == 0 {
			continue
		}
		token, h := v.spelling(id), hashSeed
		if len(token) > maxPiece {
			return nil, fmt.Errorf("token %d is %d bytes long, expected at most %d", id, len(token), maxPiece)
		}
		for i, c := range token {
			h = hashByte(h, c)
			if i+1 == len(token) {
				b.set(h, cellToken)
			} else if utf8.RuneStart(token[i+1]) {
				b.set(h, cellLonger)
			}
		}
	}
	return b, nil
}

// cell mixes the hash once more: its low bits decide, as those of a product are the good ones.
func (b *beginnings) cell(h uint64) (word, shift uint64) {
	h = (h ^ h>>32) * hashFactor >> b.shift
	return h >> 5, h & 31 * 2
}

func (b *beginnings) set(h uint64, bit uint64) {
	word, shift := b.cell(h)
	b.cells[word] |= bit << shift
}

func (b *beginnings) get(h uint64) uint64 {
	word, shift := b.cell(h)
	return b.cells[word] >> shift & 3
}

// longest finds the longest token that is prefix and the beginning of text; seed is the prefix's hash.
func (b *beginnings) longest(v *vocab, seed uint64, prefix string, text []byte) (id int32, n int) {
	id = -1
	h := seed
	for i := 0; i < len(text); {
		h = hashByte(h, text[i])
		i++
		if i < len(text) && !utf8.RuneStart(text[i]) {
			continue
		}
		cell := b.get(h)
		if cell&cellToken != 0 {
			if found, ok := v.find(h, prefix, text[:i]); ok && v.at[found]&moreFlag == 0 {
				id, n = found, i
			}
		}
		if cell&cellLonger == 0 {
			break
		}
	}
	return id, n
}

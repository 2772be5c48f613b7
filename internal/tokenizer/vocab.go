package tokenizer

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"unsafe"
)

// vocab is the two-way table of tokens and ids. Ids may have holes. It is made once, with room for all
// that will be entered, and takes about as much memory as the file takes to spell it.
type vocab struct {
	text  []byte   // every token, its length before it; the first byte is no token's
	at    []uint32 // by id: where its token stands in text, plus a flag; 0 for a hole
	slots []uint32 // hashed by token: the id plus one and eight bits of the hash; 0 is empty
	count int      // tokens that the model knows
	twice bool     // the other ids of a token that comes twice keep their spelling
	limit int64    // ids are below it
}

const (
	// maxHoles bounds how far ids may run ahead of the number of tokens, so that a small hostile file
	// cannot ask for a large table.
	maxHoles = 1 << 18
	// maxTokens is twice the largest vocabulary known, and leaves bits of a slot to the hash. The tables
	// of the shortest entries that a file can have take more than the file does, ten bytes an entry at
	// most: this keeps all of that under 20 MiB.
	maxTokens = 1 << 21
	// maxText is how many bytes all tokens may have together.
	maxText = 1<<31 - 1
	// moreFlag marks an added token that the model does not know: no piece of text may become one.
	moreFlag = 1 << 31
)

// room is how many tokens, and how many bytes of vocab.text they need.
type room struct{ tokens, bytes int }

// reserve makes room for a token of n bytes.
func (r *room) reserve(n int) {
	r.tokens++
	for r.bytes += n + 1; n >= 0x80; n >>= 7 {
		r.bytes++
	}
}

// newVocab makes room for tokens, which must be what a file really holds, and for ids up to top. more of
// them may come later, with ids of their own.
func newVocab(size room, top int64, more int) (*vocab, error) {
	tokens := size.tokens
	limit := int64(tokens) + maxHoles
	if tokens > maxTokens || size.bytes > maxText {
		return nil, fmt.Errorf("%d tokens of %d bytes, expected at most %d of %d", tokens, size.bytes, maxTokens, maxText)
	}
	if top >= limit {
		return nil, fmt.Errorf("a token has id %d, expected 0..%d for a vocabulary of this size", top, limit-1)
	}
	v := &vocab{limit: limit}
	v.text = make([]byte, 1, 1+size.bytes)
	v.at = make([]uint32, top+1, top+1+int64(more))
	slots := tokens + tokens/3
	if tokens < 1<<16 { // small tables may be roomy
		slots = 2 * tokens
	}
	v.slots = make([]uint32, slots+1)
	return v, nil
}

// The hash goes byte by byte, so that a walk over a text has the hash of every beginning. It begins
// elsewhere in every process: a file cannot know which tokens will meet.
var hashSeed = rand.Uint64()

func hashByte(h uint64, c byte) uint64 { return (h ^ uint64(c)) * hashFactor }

func hashBytes[T string | []byte](h uint64, text T) uint64 {
	for i := 0; i < len(text); i++ {
		h = hashByte(h, text[i])
	}
	return h
}

// slot is where the search for a hash begins, and tag the bits of it that slots keep.
func (v *vocab) slot(h uint64) (slot, tag uint32) {
	h ^= h >> 29
	hi, _ := bits.Mul64(h*0xBF58476D1CE4E5B9, uint64(len(v.slots)))
	return uint32(hi), uint32(h>>8) << 24
}

// spelling gives the bytes of an id that is no hole.
func (v *vocab) spelling(id int32) []byte {
	at := v.at[id] &^ moreFlag
	n, size := uint64(v.text[at]), 1
	if n >= 0x80 {
		n, size = binary.Uvarint(v.text[at:])
	}
	begin := int(at) + size
	return v.text[begin : begin+int(n) : begin+int(n)]
}

// find looks for prefix+rest, whose hash is h.
func (v *vocab) find(h uint64, prefix string, rest []byte) (id int32, ok bool) {
	i, tag := v.slot(h)
	for {
		slot := v.slots[i]
		if slot == 0 {
			return 0, false
		}
		if slot&0xFF000000 == tag {
			id := int32(slot&0xFFFFFF) - 1
			if s := v.spelling(id); len(s) == len(prefix)+len(rest) && string(s[len(prefix):]) == string(rest) && string(s[:len(prefix)]) == prefix {
				return id, true
			}
		}
		if i++; int(i) == len(v.slots) {
			i = 0
		}
	}
}

// known finds a token of the model.
func (v *vocab) known(token []byte) (int32, bool) {
	id, ok := v.find(hashBytes(hashSeed, token), "", token)
	return id, ok && v.at[id]&moreFlag == 0
}

// id finds a token, of the model or added.
func (v *vocab) id(token string) (int32, bool) {
	return v.find(hashBytes(hashSeed, token), "", unsafe.Slice(unsafe.StringData(token), len(token)))
}

// pair finds the token that a and b make together.
func (v *vocab) pair(a string, b []byte) (int32, bool) {
	id, ok := v.find(hashBytes(hashBytes(hashSeed, a), b), a, b)
	return id, ok && v.at[id]&moreFlag == 0
}

// addToken enters a token of the model. A token that comes twice has its last id with replace, else its first.
func (v *vocab) addToken(token []byte, id int64, replace bool) error {
	return v.enter(token, id, 0, replace)
}

// addMore enters a token that the model does not know.
func (v *vocab) addMore(token []byte, id int64) error { return v.enter(token, id, moreFlag, false) }

func (v *vocab) enter(token []byte, id int64, flag uint32, replace bool) error {
	if id < 0 || id >= v.limit {
		return fmt.Errorf("token %.100q has id %d, expected 0..%d for a vocabulary of this size", token, id, v.limit-1)
	}
	if grow := int(id) + 1 - len(v.at); grow > 0 { // only added tokens, which are few
		v.at = append(v.at, make([]uint32, grow)...)
	}
	if v.at[id] != 0 {
		return fmt.Errorf("tokens %.100q and %.100q have the same id %d", v.spelling(int32(id)), token, id)
	}
	h := hashBytes(hashSeed, token)
	old, twice := v.find(h, "", token)
	v.at[id] = uint32(len(v.text)) | flag
	v.text = binary.AppendUvarint(v.text, uint64(len(token)))
	v.text = append(v.text, token...)
	if twice && !replace {
		return nil
	}
	i, tag := v.slot(h)
	for v.slots[i] != 0 && !(twice && v.slots[i] == tag|uint32(old+1)) {
		if i++; int(i) == len(v.slots) {
			i = 0
		}
	}
	v.slots[i] = tag | uint32(id+1)
	if flag == 0 && (!twice || v.twice) {
		v.count++
	}
	if twice && !v.twice {
		v.at[old] = 0
	}
	return nil
}

// token gives an id's spelling. The string lives as long as the vocabulary, which never changes again.
func (v *vocab) token(id int32) (string, bool) {
	if id < 0 || int(id) >= len(v.at) || v.at[id] == 0 {
		return "", false
	}
	s := v.spelling(id)
	return unsafe.String(unsafe.SliceData(s), len(s)), true
}

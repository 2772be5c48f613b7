// Package kv keeps the books of the KV cache: which block of 64 tokens belongs
// to which sequences, and which full blocks can serve another sequence that
// begins with the same tokens, computed by the same class of kernels. It holds no keys or values itself: those are
// State of a plan, addressed by the slots that a Sequence hands out.
//
// It imports nothing of ours; engine imports it. A Pool and its Sequences
// belong to one goroutine at a time. The only error is ErrNoBlocks, and a call
// that returns it has changed nothing.
package kv

import (
	"errors"
	"slices"
)

// BlockTokens is the number of tokens in a block.
const BlockTokens = 64

// ErrNoBlocks reports that every block is in use.
var ErrNoBlocks = errors.New("kv: no free block")

// Blocks is the number of blocks that n tokens take.
func Blocks(n int) int { return (n + BlockTokens - 1) / BlockTokens }

const none = int32(-1)

// Class names the kernels that computed a token's keys and values. Those of
// another class have other bits, so they stand for another token.
type Class uint8

// block is one block's entry. A block is in exactly one of three places: owned
// by sequences (refs > 0), in the list of cached blocks (refs == 0, published)
// or on the free list (refs == 0, not published).
type block struct {
	refs      int32
	published bool   // in the index, so that other sequences can find it
	hash      uint64 // of the parent's chain, its tokens and their classes
	// chain names the content from the sequence's start to this block's end.
	// Two blocks have the same chain only if all those tokens and classes are
	// the same, which a hash alone cannot promise.
	chain  uint64
	parent uint64 // chain of the block before; 0 for the first

	bucket     int32 // next block in the same bucket of the index
	prev, next int32 // neighbours in the list of cached blocks, or the free list's next
	tokens     [BlockTokens]int32
	classes    [BlockTokens]Class // of tokens
}

// Pool owns the blocks.
type Pool struct {
	blocks []block
	index  []int32 // [bucket] first published block; the length is a power of two
	mask   uint64
	free   int32 // first free block
	nfree  int
	// Cached blocks that nobody refers to, least recently used first.
	oldest, newest int32
	ncached        int
	chains         uint64
}

// NewPool makes a pool of n blocks.
func NewPool(n int) *Pool {
	p := &Pool{blocks: make([]block, n), free: none, oldest: none, newest: none}
	size := 1
	for size < 2*n {
		size *= 2
	}
	p.index, p.mask = make([]int32, size), uint64(size-1)
	for i := range p.index {
		p.index[i] = none
	}
	for i := n - 1; i >= 0; i-- {
		p.blocks[i].next = p.free
		p.free = int32(i)
	}
	p.nfree = n
	return p
}

// Size is the number of blocks.
func (p *Pool) Size() int { return len(p.blocks) }

// Available is the number of blocks that sequences can still take, cached ones
// included.
func (p *Pool) Available() int { return p.nfree + p.ncached }

// Cached is the number of blocks kept only because somebody may want them.
func (p *Pool) Cached() int { return p.ncached }

// take gives an unpublished block with one reference; Available was checked.
func (p *Pool) take() int32 {
	id := p.free
	if id != none {
		p.free = p.blocks[id].next
		p.nfree--
	} else {
		id = p.oldest
		p.unlink(id)
		p.unpublish(id)
	}
	p.blocks[id].refs = 1
	return id
}

// retain adds an owner to a block that is published or owned already.
func (p *Pool) retain(id int32) {
	b := &p.blocks[id]
	if b.refs == 0 {
		p.unlink(id)
	}
	b.refs++
}

// release takes an owner away.
func (p *Pool) release(id int32) {
	b := &p.blocks[id]
	b.refs--
	switch {
	case b.refs > 0:
	case b.published:
		b.prev, b.next = p.newest, none
		if p.newest != none {
			p.blocks[p.newest].next = id
		} else {
			p.oldest = id
		}
		p.newest = id
		p.ncached++
	default:
		b.next = p.free
		p.free = id
		p.nfree++
	}
}

// unlink takes a block out of the list of cached blocks.
func (p *Pool) unlink(id int32) {
	b := &p.blocks[id]
	if b.prev != none {
		p.blocks[b.prev].next = b.next
	} else {
		p.oldest = b.next
	}
	if b.next != none {
		p.blocks[b.next].prev = b.prev
	} else {
		p.newest = b.prev
	}
	p.ncached--
}

// find looks for a published block with these tokens and classes behind a chain.
func (p *Pool) find(parent uint64, tokens []int32, classes []Class) int32 {
	h := hashTokens(parent, tokens, classes)
	for id := p.index[h&p.mask]; id != none; id = p.blocks[id].bucket {
		b := &p.blocks[id]
		if b.hash == h && b.parent == parent && slices.Equal(b.tokens[:], tokens) && slices.Equal(b.classes[:], classes) {
			return id
		}
	}
	return none
}

// publish names the content of a full block and puts it into the index, unless
// a block with that content is there already: then both carry its name.
func (p *Pool) publish(id int32, parent uint64) {
	b := &p.blocks[id]
	b.parent = parent
	if twin := p.find(parent, b.tokens[:], b.classes[:]); twin != none {
		b.chain = p.blocks[twin].chain
		return
	}
	p.chains++
	b.chain = p.chains
	b.hash = hashTokens(parent, b.tokens[:], b.classes[:])
	b.bucket = p.index[b.hash&p.mask]
	p.index[b.hash&p.mask] = id
	b.published = true
}

func (p *Pool) unpublish(id int32) {
	b := &p.blocks[id]
	if !b.published {
		return
	}
	at := &p.index[b.hash&p.mask]
	for *at != id {
		at = &p.blocks[*at].bucket
	}
	*at = b.bucket
	b.published = false
}

// hashTokens mixes a chain, a block's tokens and their classes.
func hashTokens(parent uint64, tokens []int32, classes []Class) uint64 {
	h := parent*0x9e3779b97f4a7c15 + 0x2545f4914f6cdd1d
	for i, t := range tokens {
		h ^= uint64(uint32(t)) | uint64(classes[i])<<32
		h *= 0xff51afd7ed558ccd
		h ^= h >> 32
	}
	return h
}

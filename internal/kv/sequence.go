package kv

// Sequence is the cache of one text. It is reused: Release makes it empty.
type Sequence struct {
	pool   *Pool
	blocks []int32 // block of tokens [64i, 64i+64)
	length int     // tokens that have a slot
	known  int     // of them, whose class is known
	done   int     // blocks at the front whose content has a name
}

// NewSequence makes an empty sequence; its table never grows beyond maxBlocks.
func (p *Pool) NewSequence(maxBlocks int) *Sequence {
	return &Sequence{pool: p, blocks: make([]int32, 0, maxBlocks)}
}

// Len is the number of tokens that have a slot.
func (s *Sequence) Len() int { return s.length }

// Table lists the sequence's blocks in order. It is valid until the next call.
func (s *Sequence) Table() []int32 { return s.blocks }

// Match takes over the longest cached prefix of tokens in whole blocks that were
// computed in these classes, one per token, and returns its length. One token at least stays for the caller to run, since
// only a run gives logits. The sequence must be empty.
func (s *Sequence) Match(tokens []int32, classes []Class) int {
	if s.length != 0 {
		panic("kv: Match on a sequence that is not empty")
	}
	p := s.pool
	var chain uint64
	for s.length+BlockTokens < len(tokens) && len(s.blocks) < cap(s.blocks) {
		to := s.length + BlockTokens
		id := p.find(chain, tokens[s.length:to], classes[s.length:to])
		if id == none {
			break
		}
		p.retain(id)
		chain = p.blocks[id].chain
		s.blocks = append(s.blocks, id)
		s.length = to
	}
	s.done, s.known = len(s.blocks), s.length
	return s.length
}

// Missing is the number of blocks that Append of n tokens would take.
func (s *Sequence) Missing(n int) int { return Blocks(s.length+n) - len(s.blocks) }

// Append gives slots to tokens: slots[i] = 64*block + offset, with
// len(slots) >= len(tokens). Their keys and values are the caller's to write
// before it calls Commit.
func (s *Sequence) Append(tokens, slots []int32) error {
	missing := s.Missing(len(tokens))
	if missing > s.pool.Available() || len(s.blocks)+missing > cap(s.blocks) {
		return ErrNoBlocks
	}
	for range missing {
		s.blocks = append(s.blocks, s.pool.take())
	}
	for i, t := range tokens {
		id, at := s.blocks[s.length/BlockTokens], s.length%BlockTokens
		s.pool.blocks[id].tokens[at] = t
		slots[i] = id*BlockTokens + int32(at)
		s.length++
	}
	return nil
}

// Commit says that the keys and values of all tokens are written, those that
// were appended since the last call in a class: full blocks can serve others
// from now on.
func (s *Sequence) Commit(class Class) { s.CommitTo(s.length, class) }

// CommitTo is Commit of the first n tokens: the others are still being computed.
func (s *Sequence) CommitTo(n int, class Class) {
	for ; s.known < n; s.known++ {
		s.pool.blocks[s.blocks[s.known/BlockTokens]].classes[s.known%BlockTokens] = class
	}
	for ; (s.done+1)*BlockTokens <= n; s.done++ {
		s.pool.publish(s.blocks[s.done], s.chain(s.done))
	}
}

// Name tells which token is at position i, for one that had a slot before it was
// known. It must come before CommitTo of more than i tokens.
func (s *Sequence) Name(i int, token int32) {
	s.pool.blocks[s.blocks[i/BlockTokens]].tokens[i%BlockTokens] = token
}

// chain names the content before block i.
func (s *Sequence) chain(i int) uint64 {
	if i == 0 {
		return 0
	}
	return s.pool.blocks[s.blocks[i-1]].chain
}

// Truncate drops tokens from position n on and returns the length that is
// kept. It is less than n where n lies inside a block that others read too:
// they keep the block, and the caller runs the rest of it again.
func (s *Sequence) Truncate(n int) int {
	if n >= s.length {
		return s.length
	}
	n = max(n, 0)
	keep := Blocks(n)
	if rest := n % BlockTokens; rest != 0 && keep <= s.done {
		// The block is full now and will be written again from rest on.
		id := s.blocks[keep-1]
		if s.pool.blocks[id].refs > 1 {
			keep--
			n = keep * BlockTokens
		} else {
			s.pool.unpublish(id)
		}
	}
	s.drop(keep)
	s.length, s.known = n, min(s.known, n)
	s.done = min(s.done, n/BlockTokens)
	return n
}

// Fork makes dst, which must be empty, share the committed full blocks of s,
// and returns how many tokens that is. The tail is dst's own to run: two
// sequences never write into one block.
func (s *Sequence) Fork(dst *Sequence) int {
	if dst.length != 0 || dst.pool != s.pool {
		panic("kv: Fork into a sequence that is not empty or of another pool")
	}
	n := min(s.done, cap(dst.blocks))
	for _, id := range s.blocks[:n] {
		s.pool.retain(id)
		dst.blocks = append(dst.blocks, id)
	}
	dst.done, dst.length = n, n*BlockTokens
	dst.known = dst.length
	return dst.length
}

// Release gives all blocks back. Committed ones stay cached until their memory
// is wanted.
func (s *Sequence) Release() {
	s.drop(0)
	s.length, s.known, s.done = 0, 0, 0
}

// drop releases the blocks from keep on, the last ones first: a block can only
// be found through the ones before it, so those should live longer.
func (s *Sequence) drop(keep int) {
	for i := len(s.blocks) - 1; i >= keep; i-- {
		s.pool.release(s.blocks[i])
	}
	s.blocks = s.blocks[:keep]
}

package kv

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

func ids(n, seed int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(i*7 + seed)
	}
	return out
}

func appendTokens(t *testing.T, s *Sequence, tokens []int32) []int32 {
	t.Helper()
	slots := make([]int32, len(tokens))
	if err := s.Append(tokens, slots); err != nil {
		t.Fatal(err)
	}
	return slots
}

func TestAppendGivesSlotsOfItsBlocks(t *testing.T) {
	p := NewPool(4)
	s := p.NewSequence(4)
	slots := appendTokens(t, s, ids(70, 0))
	for i, slot := range slots {
		if want := s.Table()[i/64]*64 + int32(i%64); slot != want {
			t.Fatalf("slot %d is %d, expected %d", i, slot, want)
		}
	}
	if s.Len() != 70 || len(s.Table()) != 2 || p.Available() != 2 {
		t.Fatalf("length %d, %d blocks, %d available", s.Len(), len(s.Table()), p.Available())
	}
}

func TestPrefixIsSharedOnlyAfterCommit(t *testing.T) {
	p := NewPool(8)
	a, b := p.NewSequence(8), p.NewSequence(8)
	text := ids(200, 0)
	appendTokens(t, a, text)
	if n := b.Match(text, make([]Class, len(text))); n != 0 {
		t.Fatalf("%d tokens found before they were written", n)
	}
	a.Commit(0)
	if n := b.Match(text, make([]Class, len(text))); n != 192 {
		t.Fatalf("%d tokens found, expected the three full blocks", n)
	}
	if !slices.Equal(a.Table()[:3], b.Table()) {
		t.Fatal("the blocks are not the same")
	}
	a.Release()
	b.Release()
	if p.Available() != 8 || p.Cached() != 3 {
		t.Fatalf("%d available, %d cached, expected 8 and 3", p.Available(), p.Cached())
	}
	// A text of whole blocks leaves one token to run.
	if n := b.Match(text[:192], make([]Class, len(text[:192]))); n != 128 {
		t.Fatalf("%d tokens of 192 found, expected 128", n)
	}
	b.Release()
	other := ids(200, 0)
	other[0]++
	if n := b.Match(other, make([]Class, len(other))); n != 0 {
		t.Fatalf("%d tokens found of a text that differs in its first token", n)
	}
}

// Blocks serve only who wants the classes that they were computed in, token by
// token; both versions of a text are kept.
func TestPrefixIsSharedOnlyWithinItsClasses(t *testing.T) {
	p := NewPool(16)
	a, b, c := p.NewSequence(8), p.NewSequence(8), p.NewSequence(8)
	text := ids(200, 0)
	classes := make([]Class, len(text))
	for i := range classes {
		classes[i] = 2
		if i >= 100 {
			classes[i] = 1
		}
	}
	appendTokens(t, a, text[:100])
	a.Commit(2)
	for i := 100; i < len(text); i++ {
		appendTokens(t, a, text[i:i+1])
		a.Commit(1)
	}
	appendTokens(t, b, text)
	b.Commit(2)
	other := append(a.Table()[:1:1], b.Table()[1:3]...) // the first block was there already
	for _, m := range []struct {
		change, from, want int
		table              []int32
	}{
		{change: -1, want: 192, table: a.Table()},
		{change: 63, want: 0},
		{change: 99, want: 64, table: a.Table()},
		{change: 191, want: 128, table: a.Table()},
		{change: 100, from: 2, want: 192, table: other},
	} {
		want := slices.Clone(classes)
		switch {
		case m.from > 0:
			for i := m.change; i < len(want); i++ {
				want[i] = Class(m.from)
			}
		case m.change >= 0:
			want[m.change] = 7
		}
		n := c.Match(text, want)
		if n != m.want || !slices.Equal(c.Table(), m.table[:n/BlockTokens]) {
			t.Errorf("%+v: %d tokens found, in blocks %d", m, n, c.Table())
		}
		c.Release()
	}
	// A block that is cut and written again has the classes of both times.
	b.Release()
	a.Release()
	b.Match(text, classes)
	if n := b.Truncate(150); n != 150 {
		t.Fatalf("cut to %d", n)
	}
	appendTokens(t, b, text[150:])
	b.Commit(3)
	for i := 150; i < len(classes); i++ {
		classes[i] = 3
	}
	if n := c.Match(text, classes); n != 192 {
		t.Errorf("%d tokens found, expected 192", n)
	}
}

func TestEvictionTakesTheLeastRecentlyUsedTailFirst(t *testing.T) {
	p := NewPool(4)
	a, b := p.NewSequence(4), p.NewSequence(4)
	old, recent := ids(129, 0), ids(129, 1000)
	appendTokens(t, a, old)
	a.Commit(0)
	a.Release() // two blocks cached, one free
	appendTokens(t, b, recent)
	b.Commit(0) // wants three: takes the tail of old
	if p.Cached() != 1 {
		t.Fatalf("%d blocks of the old text are cached, expected 1: the other one was evicted", p.Cached())
	}
	if n := a.Match(old, make([]Class, len(old))); n != 64 {
		t.Fatalf("%d tokens of the old text left, expected 64", n)
	}
	if err := a.Append(ids(64, 5), make([]int32, 64)); !errors.Is(err, ErrNoBlocks) {
		t.Fatalf("append beyond the pool: %v", err)
	}
	if a.Len() != 64 || len(a.Table()) != 1 {
		t.Fatal("a failed append changed the sequence")
	}
}

func TestTruncateNeverWritesIntoASharedBlock(t *testing.T) {
	p := NewPool(8)
	a, b := p.NewSequence(8), p.NewSequence(8)
	text := ids(130, 0)
	appendTokens(t, a, text)
	a.Commit(0)
	if n := a.Fork(b); n != 128 {
		t.Fatalf("fork shares %d tokens, expected 128", n)
	}
	if n := b.Truncate(100); n != 64 {
		t.Fatalf("truncated to %d, expected the block boundary 64", n)
	}
	a.Release()
	// Alone now: its own block may be cut, and must leave the index.
	if n := b.Truncate(10); n != 10 {
		t.Fatalf("truncated to %d, expected 10", n)
	}
	if n := a.Match(text, make([]Class, len(text))); n != 0 {
		t.Fatalf("%d tokens found although the first block is being rewritten", n)
	}
}

// check proves that every block is in exactly one place and that references
// are those of the sequences.
func check(t *testing.T, p *Pool, seqs []*Sequence) {
	t.Helper()
	refs := make([]int32, p.Size())
	writer := make([]int, p.Size())
	for i := range writer {
		writer[i] = -1
	}
	for i, s := range seqs {
		if len(s.blocks) != Blocks(s.length) {
			t.Fatalf("sequence %d has %d tokens in %d blocks", i, s.length, len(s.blocks))
		}
		for k, id := range s.blocks {
			refs[id]++
			if k >= s.done { // still written to
				if writer[id] >= 0 || p.blocks[id].published {
					t.Fatalf("block %d is written by sequence %d and seen by others", id, i)
				}
				writer[id] = i
			}
		}
	}
	for id, w := range writer {
		if w >= 0 && refs[id] != 1 {
			t.Fatalf("block %d is written by sequence %d and has %d owners", id, w, refs[id])
		}
	}
	place := make([]int, p.Size())
	for id := p.free; id != none; id = p.blocks[id].next {
		place[id]++
		if p.blocks[id].published {
			t.Fatalf("free block %d is published", id)
		}
	}
	cached := 0
	for id := p.oldest; id != none; id = p.blocks[id].next {
		place[id]++
		cached++
		if !p.blocks[id].published {
			t.Fatalf("cached block %d cannot be found", id)
		}
	}
	indexed := make([]bool, p.Size())
	for _, head := range p.index {
		for id := head; id != none; id = p.blocks[id].bucket {
			indexed[id] = true
		}
	}
	available := 0
	for id := range p.blocks {
		b := &p.blocks[id]
		if b.refs != refs[id] {
			t.Fatalf("block %d counts %d owners and has %d", id, b.refs, refs[id])
		}
		if b.published != indexed[id] {
			t.Fatalf("block %d: published %v, in the index %v", id, b.published, indexed[id])
		}
		want := 0
		if b.refs == 0 {
			want = 1
			available++
		}
		if place[id] != want {
			t.Fatalf("block %d with %d owners is in %d lists", id, b.refs, place[id])
		}
	}
	if cached != p.Cached() || available != p.Available() {
		t.Fatalf("%d cached and %d available, counted %d and %d", p.Cached(), p.Available(), cached, available)
	}
}

// FuzzPool runs random operations and checks the books after each.
func FuzzPool(f *testing.F) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		ops := make([]byte, 300)
		for i := range ops {
			ops[i] = byte(r.Uint32())
		}
		f.Add(ops)
	}
	f.Fuzz(func(t *testing.T, ops []byte) {
		p := NewPool(12)
		seqs := make([]*Sequence, 4)
		texts := make([][]int32, len(seqs))   // what each sequence holds
		classes := make([][]Class, len(seqs)) // of what was committed
		for i := range seqs {
			seqs[i] = p.NewSequence(8)
		}
		slots := make([]int32, 256)
		for len(ops) >= 2 {
			op, arg := ops[0], int(ops[1])
			ops = ops[2:]
			k := int(op>>3) % len(seqs)
			s := seqs[k]
			switch op % 8 {
			case 0, 1, 2: // few distinct tokens, so that prefixes meet
				tokens := ids(arg, int(op>>5)%2)
				if err := s.Append(tokens, slots); err == nil {
					texts[k] = append(texts[k], tokens...)
				} else if !errors.Is(err, ErrNoBlocks) {
					t.Fatal(err)
				}
			case 3, 4:
				for len(classes[k]) < len(texts[k]) {
					classes[k] = append(classes[k], Class(arg%2))
				}
				s.Commit(Class(arg % 2))
			case 5:
				texts[k] = texts[k][:s.Truncate(arg*2)]
				classes[k] = classes[k][:min(len(classes[k]), len(texts[k]))]
			case 6:
				s.Release()
				other := (k + 1 + arg) % len(seqs)
				if other != k && arg%2 == 0 {
					texts[k] = append(texts[k][:0], texts[other][:seqs[other].Fork(s)]...)
				} else {
					want := texts[other][:len(classes[other])]
					texts[k] = append([]int32(nil), want[:s.Match(want, classes[other])]...)
				}
				classes[k] = append([]Class(nil), classes[other][:len(texts[k])]...)
			case 7:
				s.Release()
				texts[k], classes[k] = texts[k][:0], classes[k][:0]
			}
			check(t, p, seqs)
			for i, s := range seqs {
				if s.Len() != len(texts[i]) {
					t.Fatalf("sequence %d has %d tokens, expected %d", i, s.Len(), len(texts[i]))
				}
				for j, want := range texts[i] {
					if got := p.blocks[s.blocks[j/64]].tokens[j%64]; got != want {
						t.Fatalf("sequence %d, token %d is %d, expected %d", i, j, got, want)
					}
					if got := p.blocks[s.blocks[j/64]].classes[j%64]; j < len(classes[i]) && got != classes[i][j] {
						t.Fatalf("sequence %d, token %d has class %d, expected %d", i, j, got, classes[i][j])
					}
				}
			}
		}
		for _, s := range seqs {
			s.Release()
		}
		check(t, p, nil)
		if p.Available() != p.Size() {
			t.Fatalf("%d of %d blocks came back", p.Available(), p.Size())
		}
	})
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	p := NewPool(8)
	s := p.NewSequence(8)
	slots := make([]int32, 256)
	seed := 0
	tokens, classes := ids(256, 0), make([]Class, 256)
	if n := testing.AllocsPerRun(50, func() {
		seed++
		tokens[0] = int32(seed)
		s.Match(tokens, classes)
		if err := s.Append(tokens[s.Len():], slots); err != nil {
			t.Fatal(err)
		}
		s.Commit(0)
		s.Truncate(200)
		s.Release()
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

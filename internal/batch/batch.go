// Package batch is the ragged batch of a run: sequences of tokens one behind the
// other without padding, in the input memory of a session, by the ports of a
// model's graph. Embedding, ranking, scoring, generation and training fill the
// same type. They differ in what they add to it.
//
// It imports model, plan and kv; engine and train import it. The only error is
// that of a KV cache without free blocks.
package batch

import (
	"hotpath/internal/graph"
	"hotpath/internal/kv"
	"hotpath/internal/model"
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

// Batch is one slot of a session and the sequences in it so far. Views of ports
// that the graph lacks are nil, and nothing is written for them.
type Batch struct {
	Max  tensor.Bind // of one run
	Bind tensor.Bind // of the batch so far

	Tokens, Pos   []int32   // [T]
	Length        []int32   // [T] tokens of the whole text
	Segments      []int32   // [T] text of a pair, 0 or 1
	QStart        []int32   // [S+1]
	Slots         []int32   // [T] rows of the KV cache to write
	KVLen         []int32   // [S]
	Table         []int32   // [S,MaxBlocks]
	MaxBlocks     int       // per sequence
	Rows, Targets []int32   // [R]
	Sampling      []float32 // [R,SampleLen]
	Random        []int32   // [R,2]
}

// New finds the ports of a graph in a slot of its session.
func New(sl *plan.Slot, p *model.Ports) *Batch {
	b := &Batch{Max: sl.Session().Program().Graph.Max}
	for _, v := range []struct {
		dst  *[]int32
		port *graph.Value
	}{
		{&b.Tokens, p.Tokens}, {&b.Pos, p.Pos}, {&b.Length, p.Length}, {&b.Segments, p.Segments}, {&b.QStart, p.QStart}, {&b.Slots, p.Slots},
		{&b.KVLen, p.KVLen}, {&b.Table, p.BlockTable}, {&b.Rows, p.Rows}, {&b.Targets, p.Targets}, {&b.Random, p.Random},
	} {
		if v.port != nil {
			*v.dst = sl.I32(v.port)
		}
	}
	if p.Sampling != nil {
		b.Sampling = sl.F32(p.Sampling)
	}
	if p.BlockTable != nil {
		b.MaxBlocks = p.BlockTable.Shape.RowLen()
	}
	return b
}

// Reset begins an empty batch.
func (b *Batch) Reset() {
	b.Bind = tensor.Bind{}
	b.QStart[0] = 0
}

// Add puts one sequence behind the others: tokens at positions from..., of a text
// that has length tokens in all. It returns the place of the first token.
func (b *Batch) Add(tokens []int32, from, length int) int {
	t := b.Bind.T
	copy(b.Tokens[t:], tokens)
	if b.Pos != nil {
		for i := range tokens {
			b.Pos[t+i] = int32(from + i)
		}
	}
	if b.Length != nil {
		for i := range tokens {
			b.Length[t+i] = int32(length)
		}
	}
	if b.Segments != nil {
		clear(b.Segments[t : t+len(tokens)])
	}
	b.Bind.T += len(tokens)
	b.Bind.S++
	b.QStart[b.Bind.S] = int32(b.Bind.T)
	return t
}

// AddPair is Add of a whole text or pair of texts: segments says which text of the
// pair each token belongs to, nil means the first.
func (b *Batch) AddPair(tokens, segments []int32) int {
	t := b.Add(tokens, 0, len(tokens))
	if b.Segments != nil {
		copy(b.Segments[t:], segments)
	}
	return t
}

// AddCached is Add for a graph with a KV cache: tokens follow those that seq
// holds. After an error the batch is as before.
func (b *Batch) AddCached(seq *kv.Sequence, tokens []int32, length int) error {
	from := seq.Len()
	if err := seq.Append(tokens, b.Slots[b.Bind.T:]); err != nil {
		return err
	}
	s := b.Bind.S
	b.KVLen[s] = int32(seq.Len())
	row := b.Table[s*b.MaxBlocks : (s+1)*b.MaxBlocks]
	clear(row[copy(row, seq.Table()):])
	b.Add(tokens, from, length)
	return nil
}

// Want asks for a row of the output for token t of the batch, and returns the row.
func (b *Batch) Want(t int) int {
	r := b.Bind.R
	if b.Rows != nil {
		b.Rows[r] = int32(t)
	}
	b.Bind.R++
	return r
}

// Target is Want with the id that should follow token t; negative: ignored.
func (b *Batch) Target(t int, id int32) {
	r := b.Want(t)
	if b.Targets != nil {
		b.Targets[r] = id
	}
}

// CopyFrom makes b the batch that another graph runs: its sequences, rows and
// targets.
func (b *Batch) CopyFrom(a *Batch) {
	b.Bind = a.Bind
	t, s, r := a.Bind.T, a.Bind.S, a.Bind.R
	for _, v := range []struct {
		dst, src []int32
		n        int
	}{{b.Tokens, a.Tokens, t}, {b.Pos, a.Pos, t}, {b.Segments, a.Segments, t}, {b.QStart, a.QStart, s + 1}, {b.Rows, a.Rows, r}, {b.Targets, a.Targets, r}} {
		if v.dst != nil && v.src != nil {
			copy(v.dst, v.src[:v.n])
		}
	}
	if b.Length == nil {
		return
	}
	for k := range s { // a graph without the port does not fill it
		for i := a.QStart[k]; i < a.QStart[k+1]; i++ {
			b.Length[i] = a.QStart[k+1] - a.QStart[k]
		}
	}
	if a.Length != nil {
		copy(b.Length, a.Length[:t])
	}
}

package tokenizer

import (
	"fmt"
	"math/bits"
)

// pairTable maps a pair of symbols to the merge that joins them: open addressing, never deleted from. One
// slot holds left, right and the rank of the merge in 64 bits, as wide as the ids and ranks need.
type pairTable struct {
	slots    []uint64
	merged   []int32 // by rank; where several pairs share a rank, see ranks
	ranks    []uint32
	idBits   uint
	rankBits uint
	rankMask uint64
}

const emptyPair = ^uint64(0)

// newPairTable makes room for so many merges of which at most distinct differ, between ids below top.
func newPairTable(merges, distinct int, top int) (*pairTable, error) {
	p := &pairTable{idBits: uint(bits.Len(uint(top))), rankBits: uint(bits.Len(uint(merges)))}
	if 2*p.idBits+p.rankBits > 64 {
		return nil, fmt.Errorf("%d merges and %d tokens, expected fewer merges", merges, top)
	}
	p.rankMask = 1<<p.rankBits - 1
	p.merged = make([]int32, 0, merges)
	n := min(merges, distinct)
	size := n + n/3 + 1
	if n < 1<<16 { // small tables may be roomy
		size = 2*n + 1
	}
	p.slots = make([]uint64, size)
	for i := range p.slots {
		p.slots[i] = emptyPair
	}
	return p, nil
}

// hashFactor spreads consecutive ids over the table (2^64 over the golden ratio).
const hashFactor = 0x9E3779B97F4A7C15

func (p *pairTable) slot(key uint64) uint64 {
	key = (key ^ hashSeed) * hashFactor
	i, _ := bits.Mul64(key^key>>32, uint64(len(p.slots)))
	return i
}

// put enters the next merge; with replace it takes the place of an earlier one of the same pair.
func (p *pairTable) put(left, right, merged int32, replace bool) {
	key := uint64(left)<<p.idBits | uint64(right)
	i := p.slot(key)
	for p.slots[i] != emptyPair {
		if p.slots[i]>>p.rankBits == key {
			if !replace {
				p.merged = append(p.merged, 0) // the rank is taken all the same
				return
			}
			break
		}
		if i++; i == uint64(len(p.slots)) {
			i = 0
		}
	}
	p.slots[i] = key<<p.rankBits | uint64(len(p.merged))
	p.merged = append(p.merged, merged)
}

// noRank is the rank of a pair that no merge joins.
const noRank = ^uint32(0)

// get gives a pair's rank, which says how early it is joined, and the symbol that it becomes.
func (p *pairTable) get(left, right int32) (rank uint32, merged int32) {
	key := uint64(left)<<p.idBits | uint64(right)
	i := p.slot(key)
	for {
		slot := p.slots[i]
		if slot>>p.rankBits == key && slot != emptyPair {
			n := slot & p.rankMask
			if p.ranks != nil {
				return p.ranks[n], p.merged[n]
			}
			return uint32(n), p.merged[n]
		}
		if slot == emptyPair {
			return noRank, 0
		}
		if i++; i == uint64(len(p.slots)) {
			i = 0
		}
	}
}

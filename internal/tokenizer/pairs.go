package tokenizer

import "math/bits"

// pairTable maps a pair of symbols to the merge that joins them: open addressing, never deleted from,
// at most half full.
type pairTable struct {
	slots []pairSlot
	shift uint
}

type pairSlot struct {
	key    uint64 // left<<32 | right, plus one: 0 is an empty slot
	rank   uint32
	merged int32
}

// newPairTable makes room for n pairs.
func newPairTable(n int) *pairTable {
	size := max(4, bits.Len(uint(2*n)))
	return &pairTable{slots: make([]pairSlot, 1<<size), shift: uint(64 - size)}
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) + 1 }

// put enters a merge; with replace a later rank takes the place of an earlier one.
func (p *pairTable) put(left, right int32, rank uint32, merged int32, replace bool) {
	key := pairKey(left, right)
	for i := key * hashFactor >> p.shift; ; i = (i + 1) & uint64(len(p.slots)-1) {
		switch slot := &p.slots[i]; {
		case slot.key == 0 || slot.key == key && replace:
			*slot = pairSlot{key, rank, merged}
			return
		case slot.key == key:
			return
		}
	}
}

// hashFactor spreads consecutive ids over the table (2^64 over the golden ratio).
const hashFactor = 0x9E3779B97F4A7C15

// noRank is the rank of a pair that no merge joins.
const noRank = ^uint32(0)

func (p *pairTable) get(left, right int32) (rank uint32, merged int32) {
	key := pairKey(left, right)
	for i := key * hashFactor >> p.shift; ; i = (i + 1) & uint64(len(p.slots)-1) {
		slot := &p.slots[i]
		if slot.key == key {
			return slot.rank, slot.merged
		}
		if slot.key == 0 {
			return noRank, 0
		}
	}
}

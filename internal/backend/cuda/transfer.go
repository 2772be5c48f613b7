package cuda

import (
	"hotpath/internal/backend/device"
	"hotpath/internal/tensor"
)

// travels is one value on its way; the layout is Part's in transfer.cu.
type travels struct {
	to, from      address
	sym, mul, add int32
	bytes         int32
	changes       address // 0: all rows travel
	blocks        int32
	ahead         int32
}

const (
	transferThreads = 256
	transferTurn    = 8  // words of a thread that are under way together: TURN in transfer.cu
	mostBlocks      = 64 // of a value: they have 512 KiB under way, more than the bus needs
	// latencyBlocks is up to how many blocks a thread has a single word.
	latencyBlocks = 16
	// changesAhead is the number of changes that are read before their count is known.
	changesAhead = 32
)

// byChanges reports whether an input travels by its changes.
func byChanges(in *device.Travels) bool { return in.Bytes >= leastRow }

// transferBlocks is the number of blocks that carry some bytes: a word per thread for
// little, and as many words as are under way together for much. Each block asks host
// memory for the sizes: 144 that did so took 20 us of every decode step of an H200. So a
// value that travels by its changes, which are a few words, has blocks for much only.
func transferBlocks(bytes int64, changes bool) int {
	words := (bytes + 3) / 4
	blocks := (words + transferThreads*transferTurn - 1) / (transferThreads * transferTurn)
	if !changes {
		blocks = max(blocks, min(latencyBlocks, (words+transferThreads-1)/transferThreads))
	}
	return int(max(1, min(mostBlocks, blocks)))
}

// transferGrid has a row of blocks per value: as many as one of them needs.
func transferGrid(values []travels) [3]int {
	grid := [3]int{1, max(1, len(values)), 1}
	for i := range values {
		grid[0] = max(grid[0], int(values[i].blocks))
	}
	return grid
}

// parts are values as the kernel takes them; back: from the card to the host. Blocks are
// for the largest run of a plan. Threads read a word of it before they know the sizes of
// the run: host memory has room for larger runs than the plan's.
func parts(values []device.Travels, io *ioArena, most tensor.Bind, back bool) (out []travels) {
	for i := range values {
		v := &values[i]
		blocks := transferBlocks(v.Size(most), !back && byChanges(v))
		t := travels{to: io.At + address(v.Offset), from: hostAt(io.Host(), v.Offset), sym: int32(v.Rows.Sym), mul: int32(v.Rows.Mul), add: int32(v.Rows.Add),
			bytes: int32(v.Bytes), blocks: int32(blocks), ahead: int32(min(v.Size(most)/4, int64(blocks)*transferThreads))}
		if back {
			t.to, t.from = t.from, t.to
		}
		out = append(out, t)
	}
	return out
}

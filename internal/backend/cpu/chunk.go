package cpu

import (
	"hotpath/internal/plan"
	"hotpath/internal/tensor"
)

const (
	// chunkBytes is the maximum size of logits that a training step keeps at
	// once.
	chunkBytes = 16 << 20
	// leastChunk is the fewest rows of a chunk, whatever their bytes: each chunk
	// reads the matrix twice and its gradient once more, and many rows make up for
	// that.
	leastChunk = 512
	// The rows of a chunk are a multiple of chunkGrain, so that products have
	// whole tiles.
	chunkGrain = 256
)

// chunk is how many rows of logits are computed at a time.
func (b *Backend) chunk(rowBytes int64) int {
	if b.opts.ChunkRows > 0 {
		return b.opts.ChunkRows
	}
	return max(leastChunk, int(chunkBytes/rowBytes)/chunkGrain*chunkGrain)
}

// chunked is a step for one chunk of rows. If the run has no rows in the chunk,
// the step does nothing.
type chunked struct {
	kernel
	chunk plan.Chunk
}

func (k *chunked) width(b tensor.Bind, n int) int {
	if b.R <= k.chunk.First {
		return 1
	}
	return k.kernel.width(b, n)
}

func (k *chunked) runShare(w *worker, b tensor.Bind, i, n int) {
	if b.R > k.chunk.First {
		k.kernel.runShare(w, b, i, n)
	}
}

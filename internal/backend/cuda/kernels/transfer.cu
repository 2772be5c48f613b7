// Inputs and outputs of a run. Host memory is mapped: kernels read and write it,
// so that a run is one list of launches, and only bytes that the run binds travel.

// Part is a value that travels: rows of some bytes. Where it has changes, host memory
// with a count and then an index and a value per word, these travel in place of all
// rows, unless the count is negative.
struct Part {
  u64 to, from;
  Dim rows;
  int bytes;
  const int *changes;
};

// sizes are the bound ones in host memory, and whether the run is profiled; bind is
// where all other kernels read them, or 0 where results travel back. A grid row per
// part, in words of 4 bytes. clocks are the stamps of the run, count of them: the one
// of the inputs is written here, and all go to home with the results, the end of the
// run behind them.
KERNEL k_transfer(STAMP, int *bind, const int *sizes, const Part *parts, int n, u64 *clocks, u64 *home, int count) {
  __shared__ int bound[4], changed;
  grid_wait();
  u64 begin = card_clock();
  bool first_block = (blockIdx.x | blockIdx.y) == 0;
  Part p = {};
  if (blockIdx.y < n) p = parts[blockIdx.y];
  // A read of host memory takes a microsecond: the first row, which most runs have, is
  // asked for together with what says how much there is, and that once per block.
  u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x, step = (u64)gridDim.x * blockDim.x, ahead = p.changes ? 0 : min((u64)p.bytes / 4, step);
  u32 first = i < ahead ? ((const u32 *)p.from)[i] : 0;
  if (threadIdx.x < 4) bound[threadIdx.x] = sizes[threadIdx.x];
  if (threadIdx.x == 32) changed = p.changes ? p.changes[0] : -1;
  __syncthreads();
  if (bind && blockIdx.y == 0 && i < 4) bind[i] = bound[i];
  if (bind && first_block && threadIdx.x == 0 && bound[3]) clocks[0] = begin;
  if (changed >= 0)
    for (; i < changed; i += step) ((int *)p.to)[p.changes[1 + 2 * i]] = p.changes[2 + 2 * i];
  else {
    u64 words = (u64)size(p.rows, bound) * p.bytes / 4;
    for (; i < words; i += step) ((u32 *)p.to)[i] = i < ahead ? first : ((const u32 *)p.from)[i];
  }
  if (bind || !first_block || !bound[3]) return;
  __syncthreads(); // the stamp of the results is there too
  for (int c = threadIdx.x; c < count; c += blockDim.x) home[c] = clocks[c];
  if (threadIdx.x == 0) home[count] = card_clock();
}

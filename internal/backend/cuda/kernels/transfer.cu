// Inputs and outputs of a run. Host memory is mapped: kernels read and write it,
// so that a run is one list of launches, and only bytes that the run binds travel.

// Part is a value that travels: rows of some bytes, by so many blocks. Where it has
// changes, host memory with a count and then an index and a value per word, these travel
// in place of all rows, unless the count is negative. ahead is the number of words, or of
// changes, that may be read before it is known how many the run has.
struct Part {
  u64 to, from;
  Dim rows;
  int bytes;
  const int *changes;
  int blocks, ahead;
};

// sizes are the bound ones in host memory, and whether the run is profiled; bind is
// where all other kernels read them, or 0 where results travel back. A grid row per
// part, in words of 4 bytes. clocks are the stamps of the run, count of them: the one
// of the inputs is written here, and all go to home with the results, the end of each
// block behind them: the last one is the end of the run.
KERNEL k_transfer(STAMP, int *bind, const int *sizes, const Part *parts, int n, u64 *clocks, u64 *home, int count) {
  __shared__ int bound[4], changed;
  grid_wait();
  u64 begin = card_clock();
  bool first_block = (blockIdx.x | blockIdx.y) == 0;
  // Stamps of the kernels before this one go home while results travel.
  bool stamps_home = stamp_.to && home && first_block;
  u64 clock = stamps_home && threadIdx.x + 1 < count ? clocks[threadIdx.x] : begin;
  Part p = {};
  p.blocks = 1;
  if (blockIdx.y < n) p = parts[blockIdx.y];
  if ((int)blockIdx.x >= p.blocks) return;
  // A read of host memory takes a microsecond: a word per thread is asked for together
  // with what says how many there are, and that once per block.
  u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x, step = (u64)p.blocks * blockDim.x, ahead = min((u64)p.ahead, step);
  u32 first = 0, second = 0;
  if (i < ahead) {
    if (p.changes) first = p.changes[1 + 2 * i], second = p.changes[2 + 2 * i];
    else first = ((const u32 *)p.from)[i];
  }
  if (threadIdx.x < 4) bound[threadIdx.x] = sizes[threadIdx.x];
  if (threadIdx.x == 32) changed = p.changes ? p.changes[0] : -1;
  __syncthreads();
  if (bind && blockIdx.y == 0 && i < 4) bind[i] = bound[i];
  if (bind && first_block && threadIdx.x == 0 && bound[3]) clocks[0] = begin;
  if (changed >= 0) {
    for (; i < changed; i += step) {
      bool early = i < ahead;
      ((u32 *)p.to)[early ? first : p.changes[1 + 2 * i]] = early ? second : p.changes[2 + 2 * i];
    }
  } else {
    constexpr int TURN = 8; // words of a thread that are under way together
    u64 words = (u64)size(p.rows, bound) * p.bytes / 4;
    if (p.changes) ahead = 0;
    for (; i < words; i += TURN * step) {
      u32 v[TURN];
#pragma unroll
      for (int e = 0; e < TURN; e++)
        if (i + e * step < words) v[e] = i + e * step < ahead ? first : ((const u32 *)p.from)[i + e * step];
#pragma unroll
      for (int e = 0; e < TURN; e++)
        if (i + e * step < words) ((u32 *)p.to)[i + e * step] = v[e];
    }
  }
  if (bind || !bound[3]) return;
  if (stamps_home)
    for (int c = threadIdx.x; c < count; c += blockDim.x) {
      home[c] = clock;
      int next = c + blockDim.x;
      if (next < count) clock = next + 1 < count ? clocks[next] : begin;
    }
  __syncthreads(); // results and stamps are on their way: nobody waits until they are there
  if (threadIdx.x == 0) home[count + blockIdx.y * gridDim.x + blockIdx.x] = card_clock();
}

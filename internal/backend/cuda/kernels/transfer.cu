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

// sizes are the bound ones in host memory; bind is where all other kernels read
// them. A grid row per part, in words of 4 bytes.
KERNEL k_transfer(int *bind, const int *sizes, const Part *parts, int n) {
  __shared__ int bound[3], changed;
  grid_wait();
  Part p = {};
  if (blockIdx.y < n) p = parts[blockIdx.y];
  // A read of host memory takes a microsecond: the first row, which most runs have, is
  // asked for together with what says how much there is, and that once per block.
  u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x, step = (u64)gridDim.x * blockDim.x, ahead = p.changes ? 0 : min((u64)p.bytes / 4, step);
  u32 first = i < ahead ? ((const u32 *)p.from)[i] : 0;
  if (threadIdx.x < 3) bound[threadIdx.x] = sizes[threadIdx.x];
  if (threadIdx.x == 32) changed = p.changes ? p.changes[0] : -1;
  __syncthreads();
  if (bind && blockIdx.y == 0 && i < 3) bind[i] = bound[i];
  if (blockIdx.y >= n) return;
  if (changed >= 0) {
    for (; i < changed; i += step) ((int *)p.to)[p.changes[1 + 2 * i]] = p.changes[2 + 2 * i];
    return;
  }
  u64 words = (u64)size(p.rows, bound) * p.bytes / 4;
  for (; i < words; i += step) ((u32 *)p.to)[i] = i < ahead ? first : ((const u32 *)p.from)[i];
}

// The card's clock in nanoseconds, after what was launched before.
KERNEL k_stamp(u64 *to) {
  grid_wait();
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  *to = t;
}

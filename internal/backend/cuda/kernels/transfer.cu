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
  grid_wait();
  if (bind && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x < 3) bind[threadIdx.x] = sizes[threadIdx.x];
  if (blockIdx.y >= n) return;
  Part p = parts[blockIdx.y];
  int changed = p.changes ? p.changes[0] : -1;
  if (changed >= 0) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < changed; i += gridDim.x * blockDim.x) ((int *)p.to)[p.changes[1 + 2 * i]] = p.changes[2 + 2 * i];
    return;
  }
  u64 words = (u64)size(p.rows, sizes) * p.bytes / 4;
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < words; i += (u64)gridDim.x * blockDim.x) ((u32 *)p.to)[i] = ((const u32 *)p.from)[i];
}

// The card's clock in nanoseconds, after what was launched before.
KERNEL k_stamp(u64 *to) {
  grid_wait();
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  *to = t;
}

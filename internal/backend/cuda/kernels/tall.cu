// Products of up to 16 rows with large matrices of weights in bf16 on sm_90a, where the
// memory is the limit. Weights are the left operand of wgmma, 64 rows at a time, and x is
// the right one. A producer thread has the copy engine bring both through a deep ring of
// shared memory; what fits into the ring of the weights is asked for before the kernels
// before this one have ended. Two blocks fit on a multiprocessor, of this kernel or of two:
// while one ends, the next one's weights arrive. Blocks of a cluster share k and add their
// sums in order.
//
// The RMS norm of a sum of x and these results has no kernel of its own where the next
// product can take its factor in (norms.go): a block writes the sum, what it is times the
// gains of the norm, and the squares of each 32 values of a row. The next product reads
// rows that lack the factor of the norm, and multiplies its results by it.

// Join is the sum of x and the results of a product, and what its norm needs.
struct Join {
  const float *x;    // [rows,n]; 0: the results are not added to anything
  float *sum;        // [rows,n], or 0
  const float *gain; // [n]
  float *squares;    // [rows][n / 32]
  float offset;      // of gains
};
struct Tall {
  Wg wg;
  Join join;
  Factor factor;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
__device__ __forceinline__ void wgmma(float (&d)[4], u64 a, u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
}
__device__ __forceinline__ void wgmma(float (&d)[8], u64 a, u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
               : "l"(a), "l"(b));
}

// ROWS of x. The host knows the size of the ring too (tall.go). Blocks take tiles of
// weights in turns; those of a cluster have one tile.
template <int ROWS, int STAGES> __device__ __forceinline__ void tall(STAMP, const Tall &all) {
  const Wg &p = all.wg;
  const Join &join = all.join;
  extern __shared__ __align__(1024) u8 ring[];
  __shared__ __align__(8) u64 bars[2 * STAGES];
  __shared__ float sums[2][ROWS][68]; // [turn][row of x][row of weights]
  __shared__ float factors[ROWS];
  constexpr int WEIGHTS = 64 * 128, STAGE = WEIGHTS + ROWS * 128;
  grid_next();
  int rows = p.glu ? 32 : 64, stride = gridDim.x, splits = gridDim.y, rank = blockIdx.y, tiles[3], count = 0, m = size(p.rows, p.bind);
#pragma unroll
  for (int i = 0; i < 3; i++) count += tiles[i] = i < (p.glu ? 1 : p.parts) ? (p.n[i] + rows - 1) / rows : 0;
  int kt = (size(p.k, p.bind) + 63) / 64, from = kt * rank / splits, iters = kt * (rank + 1) / splits - from;
  int total = (count - (int)blockIdx.x + stride - 1) / stride * iters; // steps of this block
  u32 base = (smem_at(ring) + 1023) & ~1023, full = smem_at(bars), empty = full + 8 * STAGES;
  int warp = threadIdx.x / 32;
  auto place = [&](int t, int &part) {
    part = 0;
    if (t >= tiles[0] + tiles[1]) part = 2, t -= tiles[0] + tiles[1];
    else if (t >= tiles[0]) part = 1, t -= tiles[0];
    return t * rows;
  };
  if (threadIdx.x == 0)
    for (int i = 0; i < STAGES; i++) bar_init(full + 8 * i, 1), bar_init(empty + 8 * i, 1);
  bars_ready();
  __syncthreads();

  if (warp == 4) {
    if (threadIdx.x != 128) return;
    int t = blockIdx.x, i = 0, begun = min(total, STAGES);
    asm volatile("prefetch.tensormap [%0];" ::"l"(&p.a) : "memory");
    auto weights = [&](int s) { // of the next step, into a stage of the ring
      int part, n0 = place(t, part);
      u32 to = base + s * STAGE, bar = full + 8 * s;
      bar_expect(bar, STAGE);
      load_box(to, &p.b[part], bar, (from + i) * 64, n0);
      if (p.glu) load_box(to + WEIGHTS / 2, &p.b[1], bar, (from + i) * 64, n0);
      if (++i == iters) i = 0, t += stride;
    };
    auto values = [&](int i, int s) { load_box(base + s * STAGE + WEIGHTS, &p.a, full + 8 * s, (from + i) * 64, 0); };
    if (!p.early) grid_wait();
    for (int g = 0; g < begun; g++) weights(g);
    if (p.early) grid_wait();
    for (int g = 0; g < begun; g++) values(g % iters, g);
    for (int g = begun, s = begun % STAGES, phase = begun / STAGES; g < total; g++) {
      bar_wait(empty + 8 * s, phase ^ 1);
      int step = i;
      weights(s);
      values(step, s);
      if (++s == STAGES) s = 0, phase ^= 1;
    }
    return;
  }
  // What the thread joins first, which no kernel before writes, is asked for before the wait.
  int i0 = rank * 128 + threadIdx.x;
  float gain = 0, x0 = 0;
  if (join.x && i0 < m * 64 && blockIdx.x < count) gain = join.gain[blockIdx.x * 64 + i0 % 64] + join.offset;
  grid_wait();
  if (join.x && i0 < m * 64 && blockIdx.x < count) x0 = join.x[(u64)(i0 / 64) * p.n[0] + blockIdx.x * 64 + i0 % 64];
  float squares = squares_of<128 / ROWS>(all.factor, m);
  int lane = threadIdx.x % 32, row = warp * 16 + lane / 4, s = 0, phase = 0, turn = 0;
  auto release = [&](int stage) {
    if (threadIdx.x == 0) bar_arrive(empty + 8 * stage);
  };
  for (int t = blockIdx.x; t < count; t += stride, turn ^= 1) {
    float d[ROWS / 2];
#pragma unroll
    for (int i = 0; i < ROWS / 2; i++) d[i] = 0;
    int before = 0;
    for (int i = 0; i < iters; i++) {
      u64 w = tile_at(base + s * STAGE), x = tile_at(base + s * STAGE + WEIGHTS);
      bar_wait(full + 8 * s, phase);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int k = 0; k < 4; k++) wgmma(d, w + 2 * k, x + 2 * k);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      if (total > STAGES) { // else nobody waits for a stage
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (i > 0) release(before);
        before = s;
      }
      if (++s == STAGES) s = 0, phase ^= 1;
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (total > STAGES) release(before);
#pragma unroll
    for (int i = 0; i < ROWS / 2; i++) asm volatile("" : "+f"(d[i])::"memory");
    if (all.factor.squares && t == blockIdx.x) write_factors<128 / ROWS>(all.factor, factors, m, squares);
#pragma unroll
    for (int i = 0; i < ROWS / 2; i++) sums[turn][i / 4 * 8 + lane % 4 * 2 + i % 2][row + i / 2 % 2 * 8] = d[i];
    // Sums of this turn are read until all come to the next one.
    if (splits > 1) cluster_sync();
    else asm volatile("bar.sync 1, 128;" ::: "memory");
    int part, n0 = place(t, part), n = p.n[part];
    u32 mine = smem_at(sums[turn]);
    for (int i = rank * 128 + threadIdx.x; i < m * rows; i += 128 * splits) {
      int r = i / rows, c = i % rows;
      if (n0 + c >= n) continue;
      float v[2] = {0, 0};
#pragma unroll
      for (int g = 0; g < 2; g++) {
        if (g && !p.glu) break;
        if (splits == 1) v[g] = sums[turn][r][c + 32 * g];
        else v[g] = sum_of_blocks(mine + (r * 68 + c + 32 * g) * 4, splits);
        if (all.factor.squares) v[g] *= factors[r];
        if (const float *bias = p.bias[part + g]) v[g] += bias[n0 + c];
      }
      if (join.x) { // the lanes of a warp have 32 values of a row
        bool first = t == blockIdx.x && i == i0;
        v[0] += first ? x0 : join.x[(u64)r * n + n0 + c];
        if (join.sum) join.sum[(u64)r * n + n0 + c] = v[0];
        float squares = warp_sum(v[0] * v[0]);
        if (lane == 0) join.squares[r * (n / 32) + (n0 + c) / 32] = squares;
        v[0] *= first ? gain : join.gain[n0 + c] + join.offset;
      }
      if (p.act >= 0) v[0] = act(p.act, v[0]);
      if (p.glu) v[0] *= v[1];
      u64 to = (u64)r * n + n0 + c;
      if (p.y[part]) p.y[part][to] = v[0];
      if (p.h[part]) p.h[part][(u64)r * ((n + 7) & ~7) + n0 + c] = (u16)bf16_pair(v[0], 0);
    }
    __syncwarp();
  }
  if (splits > 1) cluster_sync(); // others read this block's sums
}
#define TALL(ROWS, STAGES) \
  KERNEL __launch_bounds__(160, 2) k_tall_##ROWS(STAMP, const __grid_constant__ Tall p) { tall<ROWS, STAGES>(stamp_, p); }
#else
#define TALL(ROWS, STAGES) \
  KERNEL k_tall_##ROWS(STAMP, const __grid_constant__ Tall p) {}
#endif
TALL(8, 11)
TALL(16, 10)

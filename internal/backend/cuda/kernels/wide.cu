// Products of up to 16 rows with large matrices in bf16 on sm_90a. A block has the
// copy engine bring 64 rows of weights for its share of k at once, before it waits
// for what was launched before. Weights are the left operand of wgmma, and x the
// right one: each row of x as the sum of two rows in bf16, which lie side by side.
// Blocks of a cluster share k and add their sums in order.
struct Wide {
  Map w[3];       // [n,k]
  const float *x; // [rows,k]
  float *y[3];    // [rows,n]
  const float *bias[3];
  const int *bind;
  Dim rows;
  int n[3];
  int parts, k;
  int glu, act;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
__device__ __forceinline__ void wgmma(float (&d)[16], u64 a, u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
               "}, %16, %17, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
               : "l"(a), "l"(b));
}

// At most 16 steps of 64 of k per block, which takes tiles of rows in turns: the next
// tile is on its way while it ends one.
__device__ __forceinline__ void wide(STAMP, const Wide &p) {
  extern __shared__ __align__(1024) u8 ring[];
  __shared__ __align__(8) u64 bars[16];
  __shared__ float sums[2][16][68]; // [turn][row of x][row of weights]
  grid_next();
  int rows = p.glu ? 32 : 64, splits = gridDim.y, rank = blockIdx.y, tiles[3], count = 0;
#pragma unroll
  for (int i = 0; i < 3; i++) count += tiles[i] = i < (p.glu ? 1 : p.parts) ? (p.n[i] + rows - 1) / rows : 0;
  int kt = (p.k + 63) / 64, from = kt * rank / splits, iters = kt * (rank + 1) / splits - from, m = size(p.rows, p.bind);
  u32 base = (smem_at(ring) + 1023) & ~1023, xs = base + iters * 8192, full = smem_at(bars);
  auto place = [&](int t, int &part) {
    part = 0;
    if (t >= tiles[0] + tiles[1]) part = 2, t -= tiles[0] + tiles[1];
    else if (t >= tiles[0]) part = 1, t -= tiles[0];
    return t * rows;
  };
  auto bring = [&](int t) { // by one thread
    int part, n0 = place(t, part);
    for (int i = 0; i < iters; i++) {
      bar_expect(full + 8 * i, 8192);
      load_box(base + i * 8192, &p.w[part], full + 8 * i, (from + i) * 64, n0);
      if (p.glu) load_box(base + i * 8192 + 4096, &p.w[1], full + 8 * i, (from + i) * 64, n0);
    }
  };
  if (threadIdx.x == 0) {
    for (int i = 0; i < iters; i++) bar_init(full + 8 * i, 1);
    bars_ready();
    if (blockIdx.x < count) bring(blockIdx.x);
  }
  grid_wait();
  // Four parts of 8 values per thread are under way at a time.
  int per = 8 * iters, all = m * per;
  u8 *shared = ring + (xs - smem_at(ring));
  for (int i0 = threadIdx.x; i0 < all; i0 += 4 * 128) {
    float4 v[4][2];
#pragma unroll
    for (int e = 0; e < 4; e++) {
      int i = i0 + e * 128, at = from * 64 + i % per * 8;
      v[e][0] = v[e][1] = {0, 0, 0, 0};
      if (i < all && at < p.k) {
        const float4 *x = (const float4 *)(p.x + (u64)(i / per) * p.k + at);
        v[e][0] = x[0], v[e][1] = x[1];
      }
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
      int i = i0 + e * 128, r = i / per * 2, c = i % per, j = c % 8;
      if (i >= all) break;
      uint4 hi, lo;
      split8(hi, lo, v[e][0], v[e][1]);
      u8 *to = shared + c / 8 * 4096;
      *(uint4 *)(to + r * 128 + ((j ^ (r & 7)) << 4)) = hi;
      *(uint4 *)(to + (r + 1) * 128 + ((j ^ ((r + 1) & 7)) << 4)) = lo;
    }
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4, turn = 0;
  for (int t = blockIdx.x; t < count; t += gridDim.x, turn ^= 1) {
    float d[16];
#pragma unroll
    for (int i = 0; i < 16; i++) d[i] = 0;
    for (int i = 0; i < iters; i++) {
      bar_wait(full + 8 * i, turn);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int k = 0; k < 4; k++) wgmma(d, tile_at(base + i * 8192) + 2 * k, tile_at(xs + i * 4096) + 2 * k);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int i = 0; i < 16; i++) asm volatile("" : "+f"(d[i])::"memory");
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int e = 0; e < 2; e++) sums[turn][4 * j + lane % 4][row + 8 * e] = d[4 * j + 2 * e] + d[4 * j + 2 * e + 1];
    __syncthreads(); // nobody reads the tile any more
    if (threadIdx.x == 0 && t + gridDim.x < count) bring(t + gridDim.x);
    __syncwarp();
    if (splits > 1) cluster_sync();
    // A block of the cluster ends some of the results. Others may read its sums until
    // they come to the next turn but one.
    int part, n0 = place(t, part), n = p.n[part];
    u32 mine = smem_at(sums[turn]);
    for (int i = rank * 128 + threadIdx.x; i < m * rows; i += 128 * splits) {
      int r = i / rows, c = i % rows;
      if (n0 + c >= n) continue;
      float v[2] = {0, 0};
      for (int g = 0; g < (p.glu ? 2 : 1); g++) {
        if (splits == 1) v[g] = sums[turn][r][c + 32 * g];
        else v[g] = sum_of_blocks(mine + (r * 68 + c + 32 * g) * 4, splits);
        if (const float *bias = p.bias[part + g]) v[g] += bias[n0 + c];
      }
      if (p.act >= 0) v[0] = act(p.act, v[0]);
      if (p.glu) v[0] *= v[1];
      p.y[part][(u64)r * n + n0 + c] = v[0];
    }
    __syncwarp();
  }
  if (splits > 1) cluster_sync(); // others read this block's sums
}
KERNEL __launch_bounds__(128) k_wide(STAMP, const __grid_constant__ Wide p) { wide(stamp_, p); }
#else
KERNEL k_wide(STAMP, const __grid_constant__ Wide p) {}
#endif

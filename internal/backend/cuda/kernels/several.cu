// Products of 2 to 8 rows with matrices in bf16 on sm_90a, with what comes after them in
// a decoder, as a single row has it in one.cu: rotation and the way into the cache. A
// block has 8 warps. It takes units of 8 pairs of rows of weights, which come by
// asynchronous copies, several ahead: the first ones are asked for before the kernel
// before this one has ended, and two kernels fit on a multiprocessor. The norm before
// them is a kernel of its own: here each block would have to norm all rows. A warp
// multiplies the same part of k of every unit that it takes, so its part of x, in bf16,
// stays in registers: all of it is under way at once. The 16 rows of weights of a unit are
// the left operand of mma.sync, and x is the right one. Lanes hold 8 neighbours of k of both
// operands: the order of k within a product does not matter as long as it is the same.
// Blocks of a cluster share k and add their sums in order.

// Factor is the factor of the norm of rows that lack it.
struct Factor {
  const float *squares; // [rows][slots]; 0: they are whole
  int slots;
  float per, eps; // 1 / k
};
struct Several {
  One one;
  const int *bind;
  Dim rows;
  Factor factor;
};

// LANES threads add up the squares of a row, four or none each at a time: what a thread
// has is asked for early, and used where it stands.
template <int LANES> __device__ __forceinline__ float squares_of(const Factor &f, int rows) {
  int row = threadIdx.x / LANES;
  float sum = 0;
  if (f.squares && row < rows)
#pragma unroll 1
    for (int i = 4 * (threadIdx.x % LANES); i < f.slots; i += 4 * LANES) {
      float4 v = *(const float4 *)(f.squares + row * f.slots + i);
      sum += v.x + v.y + (v.z + v.w);
    }
  return sum;
}
// The factors are there behind the next barrier of the block.
template <int LANES> __device__ __forceinline__ void write_factors(const Factor &f, float *factors, int rows, float sum) {
#pragma unroll
  for (int o = LANES / 2; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  if (threadIdx.x / LANES < rows && threadIdx.x % LANES == 0) factors[threadIdx.x / LANES] = rsqrtf(sum * f.per + f.eps);
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
constexpr int SEVERAL_WARPS = 8, SEVERAL_STAGES = 5, SEVERAL_STAGE = 16 * 128; // 64 values of 16 rows of weights

__device__ __forceinline__ void add_product(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// A value in the shared memory of a block of the cluster.
__device__ __forceinline__ float of_rank(const float *p, int rank) {
  float f;
  u32 at;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(smem_at(p)), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(f) : "r"(at) : "memory");
  return f;
}

// Up to 8 rows of x. A warp holds TURNS parts of 64 values of k. Sums of UNITS units
// per group of warps are put together at a time. The host knows the layout of shared
// memory too (several.go).
__device__ __forceinline__ void several(STAMP, const Several &all) {
  constexpr int THREADS = 32 * SEVERAL_WARPS, TURNS = 4, UNITS = 2, SUM = 128;
  extern __shared__ __align__(128) u8 ring[]; // [warps][STAGES][16][128], sums [2][UNITS * groups][split][8][2][8], addresses [rows]
  __shared__ float factors[8];
  grid_next();
  const One &p = all.one;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, groups = SEVERAL_WARPS / p.split, group = warp / p.split, share = warp % p.split;
  int splits = gridDim.y, rank = blockIdx.y, m = size(all.rows, all.bind), pairs = p.glu ? p.n[0] : 0;
  for (int i = 0; i < p.parts && !p.glu; i++) pairs += (p.n[i] + 1) / 2;
  int units = (pairs + 7) / 8, first = (u64)units * blockIdx.x / gridDim.x, mine = (int)((u64)units * (blockIdx.x + 1) / gridDim.x) - first;
  // Parts of 64 values of k: those of the block, and of them those of the warp.
  int kt = (p.k + 63) / 64, from = kt * rank / splits, parts = kt * (rank + 1) / splits - from;
  int begin = from + parts * share / p.split, turns = from + parts * (share + 1) / p.split - begin;
  float *sums = (float *)(ring + SEVERAL_WARPS * SEVERAL_STAGES * SEVERAL_STAGE);
  u64 *rows = (u64 *)(sums + 2 * UNITS * SEVERAL_WARPS * SUM);

#pragma unroll 1
  for (int i = threadIdx.x; i < 8 * mine; i += THREADS) {
    Pair a = pair_at<BF16>(p, 8 * first + i);
    rows[2 * i] = (u64)a.w[0], rows[2 * i + 1] = (u64)a.w[1];
  }
  __syncthreads();
  int unit = group, turn = 0, to = 0; // what is asked for next
  u32 stages = smem_at(ring) + warp * SEVERAL_STAGES * SEVERAL_STAGE;
  auto fetch = [&]() {
    if (unit < mine && turns > 0) {
      int at = (begin + turn) * 64 + lane % 8 * 8, bytes = at < p.k ? 16 : 0; // the rest reads as 0
#pragma unroll
      for (int j = 0; j < 4; j++) {
        int r = lane / 8 + 4 * j; // the first rows of 8 pairs, then the second
        u64 w = rows[2 * (8 * unit + r % 8) + r / 8] + (bytes ? 2 * at : 0);
        asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(stages + to * SEVERAL_STAGE + r * 128 + ((lane % 8 ^ (r & 1) * 4) << 4)), "l"(w), "r"(bytes) : "memory");
      }
      if (++turn == turns) turn = 0, unit += groups;
    }
    to = to + 1 == SEVERAL_STAGES ? 0 : to + 1;
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  if (!p.early) grid_wait();
#pragma unroll 1
  for (int s = 0; s + 1 < SEVERAL_STAGES; s++) fetch();
  // What the thread ends first.
  int each = 8 * m, i0 = rank * THREADS + threadIdx.x;
  End end = {};
  if (m && i0 / each < mine) end = end_of(p, pair_at<BF16>(p, 8 * first + i0 / each * 8 + i0 % 8), i0 / 8 % m);
  if (p.early) grid_wait();
  float squares = squares_of<32>(all.factor, m);

  const u16 *from_x = (const u16 *)p.x; // [m,k]
  uint4 x[TURNS][2];
#pragma unroll
  for (int i = 0; i < TURNS * 2; i++) {
    int t = i / 2, at = (begin + t) * 64 + i % 2 * 32 + lane % 4 * 8, row = lane / 4;
    x[t][i % 2] = {0, 0, 0, 0};
    if (t < turns && at < p.k && row < m) x[t][i % 2] = *(const uint4 *)(from_x + (u64)row * p.k + at);
  }

  if (all.factor.squares) write_factors<32>(all.factor, factors, m, squares);

  int stage = 0;
#pragma unroll 1
  for (int round = 0; round * UNITS * groups < mine; round++) {
    float *now = sums + (round & 1) * UNITS * SEVERAL_WARPS * SUM;
#pragma unroll 1
    for (int j = 0; j < UNITS; j++) {
      if ((round * UNITS + j) * groups + group >= mine) break;
      float acc[4] = {};
#pragma unroll
      for (int t = 0; t < TURNS; t++) {
        if (t >= turns) break;
        asm volatile("cp.async.wait_group %0;" ::"n"(SEVERAL_STAGES - 2) : "memory");
        __syncwarp(); // the rows are there, and all lanes have read those before them
        fetch();
        const u8 *w = ring + (warp * SEVERAL_STAGES + stage) * SEVERAL_STAGE + lane / 4 * 128;
#pragma unroll
        for (int s = 0; s < 2; s++) {
          int at = (4 * s + lane % 4 ^ (lane / 4 & 1) * 4) << 4;
          uint4 u = *(const uint4 *)(w + at), v = *(const uint4 *)(w + 1024 + at);
          add_product(acc, u.x, v.x, u.y, v.y, x[t][s].x, x[t][s].y);
          add_product(acc, u.z, v.z, u.w, v.w, x[t][s].z, x[t][s].w);
        }
        stage = stage + 1 == SEVERAL_STAGES ? 0 : stage + 1;
      }
      float *mysum = now + ((j * groups + group) * p.split + share) * SUM;
#pragma unroll
      for (int i = 0; i < 4; i++) mysum[(lane % 4 * 2 + i % 2) * 16 + i / 2 * 8 + lane / 4] = acc[i];
    }
    // Sums of this round are read until all come to the next round.
    if (splits > 1) cluster_sync();
    else __syncthreads();
    int done = round * UNITS * groups, count = min(UNITS * groups, mine - done) * each;
#pragma unroll 1
    for (int i = i0; i < count; i += THREADS * splits) {
      int row = i / 8 % m;
      if (round || i >= THREADS * splits) end = end_of(p, pair_at<BF16>(p, 8 * (first + done + i / each) + i % 8), row);
      if (!end.live) continue;
      const float *of = now + i / each * p.split * SUM + row * 16 + i % 8;
      float u = 0, v = 0;
      for (int r = 0; r < splits; r++)
        for (int s = 0; s < p.split; s++) {
          if (splits == 1) u += of[s * SUM], v += of[s * SUM + 8];
          else u += of_rank(of + s * SUM, r), v += of_rank(of + s * SUM + 8, r);
        }
      if (all.factor.squares) u *= factors[row], v *= factors[row];
      end_sums(p, end, u, v);
    }
    __syncwarp(); // all of a warp come to the next barrier of the cluster
  }
  if (splits > 1) cluster_sync(); // others read this block's sums
}

KERNEL __launch_bounds__(256, 2) k_several(STAMP, const __grid_constant__ Several p) { several(stamp_, p); }
#else
KERNEL k_several(STAMP, const __grid_constant__ Several p) {}
#endif

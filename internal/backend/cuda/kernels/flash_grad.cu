// Gradients of attention on tensor cores. A block of 256 threads owns 128 keys of a
// head, or 128 queries, 16 per warp, and walks over the queries that see them, or
// the keys that they see, 32 at a time. Operands are bf16; scores are computed again
// from the log-sum-exp, and every sum has one order.

// delta[rows,heads] = out . dout by heads: a thread takes 8 values of a head.
KERNEL k_attention_delta(STAMP, const int *bind, Dim rows, Mask a, float *delta, In out, In dout) {
  int per = a.head / 8; // threads of a head
  u64 heads = (u64)size(rows, bind) * a.heads, n = heads * per;
  grid_wait();
  if (per & (per - 1)) { // no power of two: a warp takes a head
    EACH_HEAD(i) {
      float s = 0;
      for (int c = threadIdx.x % 32; c < a.head; c += 32) s += get(out, i * a.head + c) * get(dout, i * a.head + c);
      s = warp_sum(s);
      if (threadIdx.x % 32 == 0) delta[i] = s;
    }
    return;
  }
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i / 32 * 32 < n; i += (u64)gridDim.x * blockDim.x) {
    float x[8], y[8], s = 0;
    if (i < n) {
      get8(x, out, 8 * i);
      get8(y, dout, 8 * i);
#pragma unroll
      for (int e = 0; e < 8; e++) s += x[e] * y[e];
    }
    for (int o = per / 2; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    if (i < n && i % per == 0) delta[i / per] = s;
  }
}

// Where KEYS, own rows are keys (k, v), the others queries (q, dout), and first and
// second are dk and dv. Otherwise it is the other way round, and first is dq.
template <int D, bool KEYS, bool DROP = false>
__device__ __forceinline__ void flash_grad(STAMP, const int *bind, Dim rows, Dim seqs, const Mask &a, Out first, Out second, const u16 *own1, const u16 *own2, const u16 *other1, const u16 *other2, const float *lse,
                                           const float *delta, const int *start, const Drop &key = {0, 0}) {
  constexpr int ST = 32, PARTS = ST * (D / 8) / 256 > 0 ? ST * (D / 8) / 256 : 1;
  __shared__ __align__(16) u16 b1[2][ST][D + 8], b2[2][ST][D + 8];
  __shared__ float ls[2][ST], dl[2][ST];
  int total = size(rows, bind), t0 = blockIdx.x * 128, h = blockIdx.y;
  grid_wait();
  if (t0 >= total) return;
  int ns = size(seqs, bind), lane = threadIdx.x % 32, warp = threadIdx.x / 32, d = a.head, group = a.heads / a.kv_heads;
  int heads = KEYS ? a.kv_heads : a.heads, others = KEYS ? a.heads : a.kv_heads;
  int row[2] = {t0 + warp * 16 + lane / 4, t0 + warp * 16 + lane / 4 + 8}, s0 = sequence_of(start, ns, t0), last = min(t0 + 128, total) - 1;
  const float log2e = 1.4426950408889634f, base2 = a.scale * log2e;
  u32 f1[D / 16][4], f2[D / 16][4];
#pragma unroll
  for (int i = 0; i < D / 16; i++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      int r = row[e % 2], c = i * 16 + lane % 4 * 2 + e / 2 * 8;
      u64 at = ((u64)r * heads + h) * d + c;
      bool there = r < total && c < d;
      f1[i][e] = there ? ((const u32 *)own1)[at / 2] : 0;
      f2[i][e] = there ? ((const u32 *)own2)[at / 2] : 0;
    }
  Dropped drop = dropped(key);
  float g1[D / 8][4] = {}, g2[KEYS ? D / 8 : 1][4] = {}, l[2] = {0, 0}, dd[2] = {0, 0};
  for (int e = 0; e < 2 && !KEYS; e++)
    if (row[e] < total) l[e] = lse[(u64)row[e] * heads + h] * log2e, dd[e] = delta[(u64)row[e] * heads + h];

  for (int s = s0; s < ns && start[s] <= last; s++) {
    int q0 = start[s], n = start[s + 1] - q0, low = max(t0 - q0, 0), high = min(last - q0, n - 1), from = 0, to = n;
    if (high < low) continue;
    if (a.window > 0) from = max(0, low - a.window + 1), to = min(n, high + a.window);
    if (a.causal && KEYS) from = low;
    if (a.causal && !KEYS) to = high + 1;
    for (int g = 0; g < (KEYS ? group : 1); g++) {
      int ho = KEYS ? h * group + g : h / group;
      auto fetch = [&](int j0, int half) {
#pragma unroll
        for (int u = 0; u < PARTS; u++) {
          int i = threadIdx.x + u * 256, r = i / (D / 8), c = i % (D / 8) * 8;
          if (r >= ST) break;
          bool there = j0 + r < n && c < d;
          u64 at = there ? ((u64)(q0 + j0 + r) * others + ho) * d + c : 0;
          u32 bytes = there ? 16 : 0;
          asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_at(&b1[half][r][c])), "l"(other1 + at), "r"(bytes) : "memory");
          asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_at(&b2[half][r][c])), "l"(other2 + at), "r"(bytes) : "memory");
        }
        if (KEYS && threadIdx.x < ST) {
          bool there = j0 + threadIdx.x < n;
          u64 at = (u64)(q0 + j0 + threadIdx.x) * others + ho;
          ls[half][threadIdx.x] = there ? lse[at] * log2e : 0;
          dl[half][threadIdx.x] = there ? delta[at] : 0;
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
      };
      __syncthreads(); // what was fetched before is read
      int begin = from / ST * ST;
      fetch(begin, 0);
      for (int j0 = begin, now = 0; j0 < to; j0 += ST, now ^= 1) {
        if (j0 + ST < to) {
          fetch(j0 + ST, now ^ 1);
          asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        // By warps: whether nobody sees anybody of the tile, and whether all see all.
        int low_ = t0 + warp * 16 - q0, high_ = low_ + 15;
        bool none = high_ < 0 || low_ >= n || a.causal && (KEYS ? j0 + ST - 1 < low_ : j0 > high_);
        bool whole = low_ >= 0 && high_ < n && j0 + ST <= n && a.window <= 0 && (!a.causal || (KEYS ? high_ <= j0 : j0 + ST - 1 <= low_));
        if (none) {
          __syncthreads();
          continue;
        }
        float sc[ST / 8][4] = {}, dp[ST / 8][4] = {};
#pragma unroll
        for (int i = 0; i < D / 16; i++)
#pragma unroll
          for (int m = 0; m < ST / 8; m += 2) {
            u32 b[4];
            int r = m * 8 + lane % 8 + lane / 16 * 8, c = i * 16 + lane / 8 % 2 * 8;
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(smem_at(&b1[now][r][c])));
            mma<0>(sc[m], f1[i], b[0], b[1]);
            mma<0>(sc[m + 1], f1[i], b[2], b[3]);
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(smem_at(&b2[now][r][c])));
            mma<0>(dp[m], f2[i], b[0], b[1]);
            mma<0>(dp[m + 1], f2[i], b[2], b[3]);
          }
        // sc becomes the probability, dp the gradient of the product.
#pragma unroll
        for (int m = 0; m < ST / 8; m++)
#pragma unroll
          for (int e = 0; e < 4; e++) {
            int in = m * 8 + lane % 4 * 2 + e % 2, mine = row[e / 2] - q0, his = j0 + in, i = KEYS ? his : mine, j = KEYS ? mine : his;
            bool sees = whole || mine >= 0 && mine < n && his < n && (!a.causal || j <= i) && (a.window <= 0 || j > i - a.window && j < i + a.window);
            float p = sees ? exp2_fast(sc[m][e] * base2 - (KEYS ? ls[now][in] : l[e / 2])) : 0;
            float kept = DROP ? drop_factor(drop, a.heads, q0 + i, KEYS ? ho : h, j) : 1;
            sc[m][e] = p * kept;
            dp[m][e] = p * (kept * dp[m][e] - (KEYS ? dl[now][in] : dd[e / 2])) * a.scale;
          }
#pragma unroll
        for (int j = 0; j < ST / 16; j++) {
          u32 p[4], ds[4];
#pragma unroll
          for (int e = 0; e < 4; e++) {
            p[e] = bf16_pair(sc[2 * j + e / 2][e % 2 * 2], sc[2 * j + e / 2][e % 2 * 2 + 1]);
            ds[e] = bf16_pair(dp[2 * j + e / 2][e % 2 * 2], dp[2 * j + e / 2][e % 2 * 2 + 1]);
          }
#pragma unroll
          for (int m = 0; m < D / 8; m += 2) {
            u32 b[4];
            int r = j * 16 + lane % 16, c = m * 8 + lane / 16 * 8;
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(smem_at(&b1[now][r][c])));
            mma<0>(g1[m], ds, b[0], b[1]);
            mma<0>(g1[m + 1], ds, b[2], b[3]);
            if (KEYS) {
              asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(smem_at(&b2[now][r][c])));
              mma<0>(g2[KEYS ? m : 0], p, b[0], b[1]);
              mma<0>(g2[KEYS ? m + 1 : 0], p, b[2], b[3]);
            }
          }
        }
        __syncthreads();
      }
    }
  }
#pragma unroll
  for (int i = 0; i < D / 8; i++)
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      int r = row[e / 2], c = i * 8 + lane % 4 * 2;
      if (r >= total || c >= d) continue;
      u64 at = ((u64)r * heads + h) * d + c;
      if (first.f) *(float2 *)(first.f + at) = {g1[i][e], g1[i][e + 1]};
      if (first.h) *(u32 *)(first.h + at) = bf16_pair(g1[i][e], g1[i][e + 1]);
      if (KEYS && second.f) *(float2 *)(second.f + at) = {g2[KEYS ? i : 0][e], g2[KEYS ? i : 0][e + 1]};
      if (KEYS && second.h) *(u32 *)(second.h + at) = bf16_pair(g2[KEYS ? i : 0][e], g2[KEYS ? i : 0][e + 1]);
    }
}

#define FLASH_GRAD(D)                                                                                                                                                                                                \
  KERNEL __launch_bounds__(256, 2) k_flash_dq_##D(STAMP, const int *bind, Dim rows, Dim seqs, Mask a, Out dq, const u16 *q, const u16 *k, const u16 *v, const u16 *dout, const float *lse, const float *delta,          \
                                                  const int *start) {                                                                                                                                              \
    flash_grad<D, false>(stamp_, bind, rows, seqs, a, dq, Out{0, 0}, q, dout, k, v, lse, delta, start);                                                                                                                            \
  }                                                                                                                                                                                                                \
  KERNEL __launch_bounds__(256, 1) k_flash_dkv_##D(STAMP, const int *bind, Dim rows, Dim seqs, Mask a, Out dk, Out dv, const u16 *q, const u16 *k, const u16 *v, const u16 *dout, const float *lse, const float *delta, \
                                                   const int *start) {                                                                                                                                             \
    flash_grad<D, true>(stamp_, bind, rows, seqs, a, dk, dv, k, v, q, dout, lse, delta, start);                                                                                                                            \
  }
FLASH_GRAD(32)
FLASH_GRAD(64)

#define FLASH_GRAD_DROP(D)                                                                                                                                                                                           \
  KERNEL __launch_bounds__(256, 1) k_flash_drop_dq_##D(STAMP, const int *bind, Dim rows, Dim seqs, Mask a, Out dq, const u16 *q, const u16 *k, const u16 *v, const u16 *dout, const float *lse, const float *delta,     \
                                                       const int *start, Drop key) {                                                                                                                               \
    flash_grad<D, false, true>(stamp_, bind, rows, seqs, a, dq, Out{0, 0}, q, dout, k, v, lse, delta, start, key);                                                                                                                 \
  }                                                                                                                                                                                                                \
  KERNEL __launch_bounds__(256, 1) k_flash_drop_dkv_##D(STAMP, const int *bind, Dim rows, Dim seqs, Mask a, Out dk, Out dv, const u16 *q, const u16 *k, const u16 *v, const u16 *dout, const float *lse,             \
                                                        const float *delta, const int *start, Drop key) {                                                                                                          \
    flash_grad<D, true, true>(stamp_, bind, rows, seqs, a, dk, dv, k, v, q, dout, lse, delta, start, key);                                                                                                                 \
  }
FLASH_GRAD_DROP(32)
FLASH_GRAD_DROP(64)

// Attention of many queries on tensor cores for heads of 129 to 256 values. A block
// of 4 warps takes 64 rows, 16 per warp: rows are the queries of all heads that share
// a head of keys, token after token. Queries, 64 keys and their values are in shared
// memory. Values are on their way while scores are computed, and the next keys while
// values are added.

constexpr int WIDE_ROWS = 64, WIDE_HEAD = 256, WIDE_STRIDE = WIDE_HEAD + 8;

template <int TRANSPOSED> __device__ __forceinline__ void load_matrices(u32 (&b)[4], const u16 *p) {
  if (TRANSPOSED) asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(smem_at(p)));
  else asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(smem_at(p)));
}

__device__ __forceinline__ void copy16(u16 *to, const u16 *from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_at(to)), "l"(from), "r"(there ? 16 : 0) : "memory");
}

// Eight values of a row of x into shared memory as bf16, or as f16 where F; 0 unless
// there.
template <int F> __device__ __noinline__ void bring8(u16 *to, In x, u64 row, int off, int c, int d, bool there, bool straight) {
  if (straight) return copy16(to, (const u16 *)x.p + (there ? row + off + c : 0), there);
  uint4 u = {0, 0, 0, 0};
  if (there && F)
    for (int e = 0; e < 8; e++) ((u16 *)&u)[e] = c + e < d ? float_to_half(get(x, row + off + c + e)) : 0;
  else if (there) u = x.half ? eight<BF16>((const u8 *)x.p + row * 2, off, c, d) : eight<F32>((const u8 *)x.p + row * 4, off, c, d);
  *(uint4 *)to = u;
}

// The same of a cache in f16.
__device__ __noinline__ void bring8_f16(u16 *to, const u16 *row, int c, int d, bool there) {
  uint4 u = {0, 0, 0, 0};
  for (int e = 0; e < 8 && there; e++) ((u16 *)&u)[e] = c + e < d ? row[c + e] : 0;
  *(uint4 *)to = u;
}

template <int TYPE>
__device__ __forceinline__ void flash_wide(STAMP, const int *bind, Dim rows, Dim seqs, const Mask &a, Out out, In q, In k, In v, const int *start, const int *kv_len, const int *table, int blocks, int block,
                                           const float *rel, int relcols) {
  constexpr int D = WIDE_HEAD, KT = 64, F = TYPE == F16;
  extern __shared__ __align__(16) u16 wide_held[];
  u16 *qs = wide_held, *ks = qs + WIDE_ROWS * WIDE_STRIDE, *vs = ks + KT * WIDE_STRIDE;
  int group = a.heads / a.kv_heads, n = size(rows, bind) * group, r0 = blockIdx.x * WIDE_ROWS, h0 = blockIdx.y * group, d = a.head;
  if (r0 >= n) {
    grid_wait();
    return;
  }
  int ns = size(seqs, bind), lane = threadIdx.x % 32, warp = threadIdx.x / 32, kcols = a.kv_heads * d, off = blockIdx.y * d, reach = (relcols - 1) / 2;
  int t0 = r0 / group, last = min(r0 + WIDE_ROWS, n) - 1, s0 = sequence_of_warp(start, ns, t0), c = lane * 8;
  int row[2], t[2], h[2], lo[2], hi[2], origin[2], back[2]; // a key's position is its number - origin, a query's t + back
  last /= group;
#pragma unroll
  for (int w = 0; w < 2; w++) row[w] = r0 + warp * 16 + lane / 4 + 8 * w, t[w] = row[w] / group, h[w] = h0 + row[w] % group;
  float slope[2] = {a.alibi ? alibi_slope(a, h[0]) : 0, a.alibi ? alibi_slope(a, h[1]) : 0}, base2 = a.scale * 1.4426950408889634f;
  bool special = a.alibi || a.cap > 0 || rel, straight = d % 8 == 0 && (F || k.half && v.half);
  float o[D / 8][4] = {}, top[2] = {-INF, -INF}, sum[2] = {0, 0};
  grid_wait();
  // Lanes find out where 16 rows of the warp lie, counted in heads; -1: nowhere.
  auto places = [&](int r) { return r < n ? r / group * a.heads + h0 + r % group : -1; };
  int place = places(r0 + warp + 4 * (lane % 16));
  if (d % 8 == 0 && q.half && !F) {
#pragma unroll
    for (int u = 0; u < WIDE_ROWS / 4; u++) {
      int i = __shfl_sync(~0u, place, u);
      bool there = i >= 0 && c < d;
      copy16(qs + (warp + 4 * u) * WIDE_STRIDE + c, (const u16 *)q.p + (there ? (u64)i * d + c : 0), there);
    }
  } else
#pragma unroll 1
    for (int u = 0; u < WIDE_ROWS / 4; u++) {
      int i = __shfl_sync(~0u, place, u);
      bring8<F>(qs + (warp + 4 * u) * WIDE_STRIDE + c, q, (u64)(i / a.heads) * a.heads * d, i % a.heads * d, c, d, i >= 0 && c < d, false);
    }
  for (int s = s0; s < ns && start[s] <= last; s++) {
    int from, to, skip, keys;
    if (table) { // one sequence after the other
      int q0 = start[s], q1 = start[s + 1];
      keys = kv_len[s];
      if (q1 <= t0 || q0 == q1) continue;
#pragma unroll
      for (int w = 0; w < 2; w++) {
        lo[w] = hi[w] = origin[w] = 0, back[w] = keys - q1;
        if (row[w] < n && t[w] >= q0 && t[w] < q1) visible(a, t[w] + back[w], keys, lo[w], hi[w]);
      }
      visible(a, max(t0, q0) + keys - q1, keys, from, skip);
      visible(a, min(last, q1 - 1) + keys - q1, keys, skip, to);
      from = from / KT * KT;
    } else { // the keys of all sequences lie side by side: their numbers are those of rows
      auto find = [&](int i) {
        int e = s0;
        while (e + 1 < ns && start[e + 1] <= i) e++;
        return e;
      };
#pragma unroll
      for (int w = 0; w < 2; w++) {
        int e = find(t[w]), q0 = start[e], q1 = start[e + 1];
        lo[w] = hi[w] = 0, origin[w] = q0, back[w] = -q0;
        if (row[w] < n && t[w] >= q0 && t[w] < q1) visible(a, t[w] - q0, q1 - q0, lo[w], hi[w]), lo[w] += q0, hi[w] += q0;
      }
      int e = find(last), q0 = start[s0], q1 = start[s0 + 1];
      if (q1 <= t0) break;
      visible(a, max(t0, q0) - q0, q1 - q0, from, skip);
      from += q0, q0 = start[e], q1 = start[e + 1];
      visible(a, min(last, q1 - 1) - q0, q1 - q0, skip, to);
      to += q0, keys = to;
    }
    // Brings KT keys or values from j0 on into shared memory.
    auto fetch = [&](u16 *place, const In &x, int j0) {
      bool together = !table || block % KT == 0;
      u64 first = table && together ? (u64)table[(u64)s * blocks + j0 / block] * block + j0 % block : j0;
      place += warp * WIDE_STRIDE + c;
      if (straight && together) {
        const u16 *row = (const u16 *)x.p + (first + warp) * kcols + off + c;
        int left = c < d ? keys - j0 - warp : 0;
#pragma unroll
        for (int u = 0; u < KT / 4; u++) copy16(place + 4 * u * WIDE_STRIDE, 4 * u < left ? row + 4 * u * (u64)kcols : (const u16 *)x.p, 4 * u < left);
      } else
#pragma unroll 1
        for (int u = 0; u < KT / 4; u++) {
          int r = warp + 4 * u, j = j0 + r;
          bool there = j < keys && c < d;
          u64 at = !there ? 0 : together ? first + r : (u64)table[(u64)s * blocks + j / block] * block + j % block;
          if (F) bring8_f16(place + 4 * u * WIDE_STRIDE, (const u16 *)x.p + at * kcols + off, c, d, there);
          else bring8<0>(place + 4 * u * WIDE_STRIDE, x, at * kcols, off, c, d, there, straight);
        }
      asm volatile("cp.async.commit_group;" ::: "memory");
    };
    if (from < to) fetch(ks, k, from);
    for (int j0 = from; j0 < to; j0 += KT) {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
      __syncthreads(); // keys are there, the values before are read
      fetch(vs, v, j0);
      bool sees = lo[0] < min(hi[0], j0 + KT) && hi[0] > j0 || lo[1] < min(hi[1], j0 + KT) && hi[1] > j0;
      sees = __any_sync(~0u, sees);
      u32 p[KT / 16][4];
      if (sees) {
        float sc[KT / 8][4] = {}, keep[2];
        const u16 *qr = qs + (warp * 16 + lane % 16) * WIDE_STRIDE + lane / 16 * 8, *kr = ks + (lane % 8 + lane / 16 * 8) * WIDE_STRIDE + lane / 8 % 2 * 8;
        u32 fa[2][4], fb[2][KT / 16][4];
        load_matrices<0>(fa[0], qr);
#pragma unroll
        for (int m = 0; m < KT / 16; m++) load_matrices<0>(fb[0][m], kr + m * 16 * WIDE_STRIDE);
#pragma unroll
        for (int i = 0; i < D / 16; i++) {
          if (i + 1 < D / 16) {
            load_matrices<0>(fa[(i + 1) % 2], qr + (i + 1) * 16);
#pragma unroll
            for (int m = 0; m < KT / 16; m++) load_matrices<0>(fb[(i + 1) % 2][m], kr + m * 16 * WIDE_STRIDE + (i + 1) * 16);
          }
#pragma unroll
          for (int m = 0; m < KT / 16; m++) {
            mma<F>(sc[2 * m], fa[i % 2], fb[i % 2][m][0], fb[i % 2][m][1]);
            mma<F>(sc[2 * m + 1], fa[i % 2], fb[i % 2][m][2], fb[i % 2][m][3]);
          }
        }
        soften(sc, j0, lo, hi, base2, special, [&](float x, int j, int w) {
          x = final_score(a, x, slope[w], j - origin[w]);
          return rel ? x + rel[h[w] * relcols + min(max(j - origin[w] - t[w] - back[w], -reach), reach) + reach] : x;
        }, top, sum, keep);
        if (__any_sync(~0u, keep[0] != 1 || keep[1] != 1))
#pragma unroll
          for (int i = 0; i < D / 8; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) o[i][e] *= keep[e / 2];
#pragma unroll
        for (int j = 0; j < KT / 16; j++)
#pragma unroll
          for (int e = 0; e < 4; e++) {
            float x = sc[2 * j + e / 2][e % 2 * 2], y = sc[2 * j + e / 2][e % 2 * 2 + 1];
            p[j][e] = F ? f16_pair(x, y) : bf16_pair(x, y);
          }
      }
      asm volatile("cp.async.wait_group 0;" ::: "memory");
      __syncthreads(); // values are there, keys are read
      if (j0 + KT < to) fetch(ks, k, j0 + KT);
      if (sees) {
        const u16 *vr = vs + lane % 16 * WIDE_STRIDE + lane / 16 * 8;
        constexpr int G = 4, STEPS = KT / 16 * (D / 16 / G); // so many loads of 16 columns are under way
        u32 fb[2][G][4];
#pragma unroll
        for (int g = 0; g < G; g++) load_matrices<1>(fb[0][g], vr + g * 16);
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
          int j = i % (KT / 16), m = i / (KT / 16) * G, next = i + 1;
          if (next < STEPS)
#pragma unroll
            for (int g = 0; g < G; g++) load_matrices<1>(fb[next % 2][g], vr + next % (KT / 16) * 16 * WIDE_STRIDE + (next / (KT / 16) * G + g) * 16);
#pragma unroll
          for (int g = 0; g < G; g++) {
            mma<F>(o[2 * (m + g)], p[j], fb[i % 2][g][0], fb[i % 2][g][1]);
            mma<F>(o[2 * (m + g) + 1], p[j], fb[i % 2][g][2], fb[i % 2][g][3]);
          }
        }
      }
    }
    if (!table) break;
  }
#pragma unroll
  for (int w = 0; w < 2; w++) {
    sum[w] += __shfl_xor_sync(~0u, sum[w], 1);
    sum[w] += __shfl_xor_sync(~0u, sum[w], 2);
    sum[w] = sum[w] > 0 ? 1 / sum[w] : 0;
  }
  // Whole rows are written: they come together where keys and values were.
  float *os = (float *)ks + warp * 16 * WIDE_STRIDE;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < D / 8; i++)
#pragma unroll
    for (int w = 0; w < 2; w++) *(float2 *)(os + (lane / 4 + 8 * w) * WIDE_STRIDE + i * 8 + lane % 4 * 2) = {o[i][2 * w] * sum[w], o[i][2 * w + 1] * sum[w]};
  __syncwarp();
  place = places(r0 + warp * 16 + lane % 16);
#pragma unroll 4
  for (int i = 0; i < 16; i++) {
    int to = __shfl_sync(~0u, place, i);
    u64 at = (u64)to * d + c;
    if (to < 0 || c >= d) continue;
    float4 x = *(const float4 *)(os + i * WIDE_STRIDE + c), y = *(const float4 *)(os + i * WIDE_STRIDE + c + 4);
    if (d % 8 == 0) {
      if (out.h) *(uint4 *)(out.h + at) = {bf16_pair(x.x, x.y), bf16_pair(x.z, x.w), bf16_pair(y.x, y.y), bf16_pair(y.z, y.w)};
      if (out.f) *(float4 *)(out.f + at) = x, *(float4 *)(out.f + at + 4) = y;
    } else
      for (int e = 0; e < min(8, d - c); e++) put(out, at + e, os[i * WIDE_STRIDE + c + e]);
  }
}

#define FLASH_WIDE(name, TYPE)                                                                                                                                                                                \
  KERNEL __launch_bounds__(128, 2) k_flash_256_##name(STAMP, const int *bind, Dim rows, Dim seqs, Mask a, Out out, In q, In k, In v, const int *start, const int *kv_len, const int *table, int blocks, int block, \
                                                      const float *rel, int relcols) {                                                                                                                 \
    flash_wide<TYPE>(stamp_, bind, rows, seqs, a, out, q, k, v, start, kv_len, table, blocks, block, rel, relcols);                                                                                            \
  }
FLASH_WIDE(f32, F32)
FLASH_WIDE(f16, F16)

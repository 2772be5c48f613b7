// Attention of many queries on tensor cores. A block of 128 threads takes 64
// queries of one head, 16 per warp, and walks over the keys of their sequences 64
// at a time. Queries, keys, probabilities and values are rounded to bf16; scores,
// softmax and sums are f32, and scores never lie in memory. D is the size of a
// head, rounded up to 32, 64 or 128.

// Eight values of a row of the cache or of an activation as bf16, 0 from n on.
template <int TYPE> __device__ __forceinline__ uint4 eight(const u8 *row, int off, int c, int n) {
  float v[8];
  for (int e = 0; e < 8; e++) v[e] = c + e < n ? value_at(TYPE, row, off + c + e) : 0;
  return {bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3]), bf16_pair(v[4], v[5]), bf16_pair(v[6], v[7])};
}

template <int D, int TYPE>
__device__ __forceinline__ void flash(const int *bind, Dim rows, Dim seqs, const Mask &a, float *out, const float *q, const u8 *k, const u8 *v, const int *start, const int *kv_len,
                                      const int *table, int blocks, int block, const float *rel, int relcols) {
  __shared__ __align__(16) u16 ks[64][D + 8], vs[64][D + 8];
  int total = size(rows, bind), t0 = blockIdx.x * 64, h = blockIdx.y;
  if (t0 >= total) return;
  int ns = size(seqs, bind), lane = threadIdx.x % 32, warp = threadIdx.x / 32, d = a.head;
  int kcols = a.kv_heads * d, off = h / (a.heads / a.kv_heads) * d, reach = (relcols - 1) / 2;
  u64 stride = row_bytes(TYPE, kcols);
  float slope = a.alibi ? alibi_slope(a, h) : 0;
  int row[2] = {t0 + warp * 16 + lane / 4, t0 + warp * 16 + lane / 4 + 8};

  u32 fq[D / 16][4];
  for (int i = 0; i < D / 16; i++)
    for (int e = 0; e < 4; e++) {
      int r = row[e % 2], c = i * 16 + lane % 4 * 2 + e / 2 * 8;
      const float *p = q + ((u64)r * a.heads + h) * d + c;
      fq[i][e] = bf16_pair(r < total && c < d ? p[0] : 0, r < total && c + 1 < d ? p[1] : 0);
    }
  float o[D / 8][4] = {}, top[2] = {-INF, -INF}, sum[2] = {0, 0};

  int last = min(t0 + 64, total) - 1;
  for (int s = sequence_of(start, ns, t0); s < ns && start[s] <= last; s++) {
    int q0 = start[s], q1 = start[s + 1], keys = kv_len ? kv_len[s] : q1 - q0, back = keys - q1; // a query's position is its row + back
    if (q1 <= t0 || q0 == q1) continue;
    int lo[2], hi[2], from, to, skip;
    for (int e = 0; e < 2; e++) {
      lo[e] = hi[e] = 0;
      if (row[e] >= q0 && row[e] < q1) visible(a, row[e] + back, keys, lo[e], hi[e]);
    }
    visible(a, max(t0, q0) + back, keys, from, skip);
    visible(a, min(last, q1 - 1) + back, keys, skip, to);
    for (int j0 = from / 64 * 64; j0 < to; j0 += 64) {
      __syncthreads();
      for (int i = threadIdx.x; i < 64 * (D / 8); i += 128) {
        int j = j0 + i / (D / 8), c = i % (D / 8) * 8;
        uint4 kk = {0, 0, 0, 0}, vv = {0, 0, 0, 0};
        if (j < keys) {
          u64 at = (table ? (u64)table[(u64)s * blocks + j / block] * block + j % block : (u64)q0 + j) * stride;
          kk = eight<TYPE>(k + at, off, c, d);
          vv = eight<TYPE>(v + at, off, c, d);
        }
        *(uint4 *)&ks[i / (D / 8)][c] = kk;
        *(uint4 *)&vs[i / (D / 8)][c] = vv;
      }
      __syncthreads();
      float sc[8][4] = {};
#pragma unroll
      for (int i = 0; i < D / 16; i++)
#pragma unroll
        for (int n = 0; n < 8; n += 2) {
          u32 b[4], p = __cvta_generic_to_shared(&ks[n * 8 + lane % 8 + lane / 16 * 8][i * 16 + lane / 8 % 2 * 8]);
          asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(p));
          for (int e = 0; e < 2; e++)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(sc[n + e][0]), "+f"(sc[n + e][1]), "+f"(sc[n + e][2]), "+f"(sc[n + e][3])
                         : "r"(fq[i][0]), "r"(fq[i][1]), "r"(fq[i][2]), "r"(fq[i][3]), "r"(b[2 * e]), "r"(b[2 * e + 1]));
        }
      float best[2] = {top[0], top[1]};
#pragma unroll
      for (int n = 0; n < 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          int j = j0 + n * 8 + lane % 4 * 2 + e % 2, w = e / 2;
          float x = -INF;
          if (j >= lo[w] && j < hi[w]) {
            x = final_score(a, sc[n][e], slope, j);
            if (rel) x += rel[h * relcols + min(max(j - row[w] - back, -reach), reach) + reach];
          }
          sc[n][e] = x;
          best[w] = fmaxf(best[w], x);
        }
      float keep[2];
      for (int w = 0; w < 2; w++) {
        best[w] = fmaxf(best[w], __shfl_xor_sync(~0u, best[w], 1));
        best[w] = fmaxf(best[w], __shfl_xor_sync(~0u, best[w], 2));
        keep[w] = best[w] == -INF ? 1 : __expf(top[w] - best[w]);
        top[w] = best[w];
        sum[w] *= keep[w];
      }
#pragma unroll
      for (int n = 0; n < 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          sc[n][e] = sc[n][e] == -INF ? 0 : __expf(sc[n][e] - top[e / 2]);
          sum[e / 2] += sc[n][e];
        }
#pragma unroll
      for (int i = 0; i < D / 8; i++)
        for (int e = 0; e < 4; e++) o[i][e] *= keep[e / 2];
#pragma unroll
      for (int j = 0; j < 4; j++) {
        u32 p[4] = {bf16_pair(sc[2 * j][0], sc[2 * j][1]), bf16_pair(sc[2 * j][2], sc[2 * j][3]), bf16_pair(sc[2 * j + 1][0], sc[2 * j + 1][1]),
                    bf16_pair(sc[2 * j + 1][2], sc[2 * j + 1][3])};
#pragma unroll
        for (int n = 0; n < D / 8; n += 2) {
          u32 b[4], at = __cvta_generic_to_shared(&vs[j * 16 + lane % 16][n * 8 + lane / 16 * 8]);
          asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(at));
          for (int e = 0; e < 2; e++)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(o[n + e][0]), "+f"(o[n + e][1]), "+f"(o[n + e][2]), "+f"(o[n + e][3])
                         : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "r"(b[2 * e]), "r"(b[2 * e + 1]));
        }
      }
    }
  }
  for (int w = 0; w < 2; w++) {
    sum[w] += __shfl_xor_sync(~0u, sum[w], 1);
    sum[w] += __shfl_xor_sync(~0u, sum[w], 2);
  }
  for (int i = 0; i < D / 8; i++)
    for (int e = 0; e < 4; e++) {
      int r = row[e / 2], c = i * 8 + lane % 4 * 2 + e % 2;
      if (r < total && c < d) out[((u64)r * a.heads + h) * d + c] = sum[e / 2] > 0 ? o[i][e] / sum[e / 2] : 0;
    }
}

#define FLASH(D, name, TYPE)                                                                                                                                                                                \
  KERNEL __launch_bounds__(128) k_flash_##D##_##name(const int *bind, Dim rows, Dim seqs, Mask a, float *out, const float *q, const u8 *k, const u8 *v, const int *start, const int *kv_len, const int *table, \
                                                     int blocks, int block, const float *rel, int relcols) {                                                                                               \
    flash<D, TYPE>(bind, rows, seqs, a, out, q, k, v, start, kv_len, table, blocks, block, rel, relcols);                                                                                                  \
  }
FLASH(32, f32, F32)
FLASH(64, f32, F32)
FLASH(128, f32, F32)
FLASH(32, f16, F16)
FLASH(64, f16, F16)
FLASH(128, f16, F16)

// One query: a block of 8 warps per head. A lane takes a key of 32 for the score;
// then lanes take elements of the values. Warps take turns of keys and their sums
// are put together at the end, in order.
template <int TYPE>
__device__ __forceinline__ void attend_one(const int *bind, Dim rows, Dim seqs, const Mask &a, float *out, const float *q, const u8 *k, const u8 *v, const int *start, const int *kv_len, const int *table,
                                           int blocks, int block) {
  __shared__ float qs[256], os[8][256], tops[8], sums[8];
  int t = blockIdx.x, h = blockIdx.y, ns = size(seqs, bind), lane = threadIdx.x % 32, warp = threadIdx.x / 32, d = a.head, lo, hi;
  if (t >= size(rows, bind)) return;
  int s = sequence_of(start, ns, t), at = kv_len[s] - (start[s + 1] - t), off = h / (a.heads / a.kv_heads) * d;
  u64 stride = row_bytes(TYPE, a.kv_heads * d), o = ((u64)t * a.heads + h) * d;
  visible(a, at, kv_len[s], lo, hi);
  for (int i = threadIdx.x; i < d; i += 256) qs[i] = q[o + i];
  __syncthreads();
  const int *of = table + (u64)s * blocks;
  float slope = a.alibi ? alibi_slope(a, h) : 0, top = -INF, sum = 0, acc[8] = {};
  for (int j0 = lo + warp * 32; j0 < hi; j0 += 256) {
    int j = j0 + lane;
    u64 row = j < hi ? ((u64)of[j / block] * block + j % block) * stride : 0;
    float dot = 0;
    if (j < hi) {
      if (TYPE == F16 && d % 8 == 0 && off % 8 == 0) {
        const uint4 *p = (const uint4 *)(k + row + off * 2);
#pragma unroll 8
        for (int i = 0; i < d / 8; i++) {
          uint4 u = p[i];
          u32 w[4] = {u.x, u.y, u.z, u.w};
          for (int e = 0; e < 4; e++) dot += qs[8 * i + 2 * e] * half_to_float(w[e]) + qs[8 * i + 2 * e + 1] * half_to_float(w[e] >> 16);
        }
      } else
        for (int i = 0; i < d; i++) dot += qs[i] * value_at(TYPE, k + row, off + i);
    }
    float x = j < hi ? final_score(a, dot, slope, j) : -INF, next = fmaxf(top, warp_max(x)), keep = expf(top - next), p = j < hi ? expf(x - next) : 0;
    sum = sum * keep + warp_sum(p);
    top = next;
    for (int e = 0; e < 8; e++) acc[e] *= keep;
    // Eight keys at a time, so that their loads are under way together. Keys
    // beyond the last have weight 0 and read row 0.
#pragma unroll 1
    for (int i = 0; i < min(32, hi - j0); i += 8) {
      float x[8][2], w[8];
#pragma unroll
      for (int g = 0; g < 8; g++) {
        u64 r = __shfl_sync(~0u, row, i + g);
        w[g] = __shfl_sync(~0u, p, i + g);
#pragma unroll
        for (int e = 0; e < 2; e++) x[g][e] = lane + 32 * e < d ? value_at(TYPE, v + r, off + lane + 32 * e) : 0;
      }
#pragma unroll
      for (int g = 0; g < 8; g++)
        for (int e = 0; e < 2; e++) acc[e] += w[g] * x[g][e];
      if (d > 64)
        for (int g = 0; g < 8; g++) {
          u64 r = __shfl_sync(~0u, row, i + g);
#pragma unroll
          for (int e = 2; e < 8; e++)
            if (lane + 32 * e < d) acc[e] += w[g] * value_at(TYPE, v + r, off + lane + 32 * e);
        }
    }
  }
  for (int e = 0; e < 8; e++)
    if (lane + 32 * e < d) os[warp][lane + 32 * e] = acc[e];
  if (lane == 0) tops[warp] = top, sums[warp] = sum;
  __syncthreads();
  float best = -INF, all = 0;
  for (int w = 0; w < 8; w++) best = fmaxf(best, tops[w]);
  for (int w = 0; w < 8; w++) all += tops[w] == -INF ? 0 : sums[w] * expf(tops[w] - best);
  for (int i = threadIdx.x; i < d; i += 256) {
    float x = 0;
    for (int w = 0; w < 8; w++) x += tops[w] == -INF ? 0 : os[w][i] * expf(tops[w] - best);
    out[o + i] = all > 0 ? x / all : 0;
  }
}

#define ATTEND_ONE(name, TYPE)                                                                                                                                                                                   \
  KERNEL __launch_bounds__(256) k_attend_one_##name(const int *bind, Dim rows, Dim seqs, Mask a, float *out, const float *q, const u8 *k, const u8 *v, const int *start, const int *kv_len, const int *table, int blocks, \
                                                    int block) {                                                                                                                                               \
    attend_one<TYPE>(bind, rows, seqs, a, out, q, k, v, start, kv_len, table, blocks, block);                                                                                                                 \
  }
ATTEND_ONE(f32, F32)
ATTEND_ONE(f16, F16)
ATTEND_ONE(q8_0, Q8_0)

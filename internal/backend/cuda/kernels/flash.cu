// Attention of many queries on tensor cores. A block of 256 threads takes 128
// queries of one head, 16 per warp, and walks over the keys of their sequences KT
// at a time, while the next ones are on their way into shared memory. Operands
// have 16 bits: bf16, or f16 where the cache has that. Scores, softmax and sums
// are f32, and scores never lie in memory. D is the size of a head, rounded up to
// 32, 64 or 128.

// Eight values of a row of the cache or of an activation as bf16, 0 from n on.
template <int TYPE> __device__ __forceinline__ uint4 eight(const u8 *row, int off, int c, int n) {
  float v[8];
  if (c + 8 <= n && (off + c) % 8 == 0 && (u64)row % 16 == 0 && TYPE != Q8_0) {
    if (TYPE == BF16) return ((const uint4 *)row)[(off + c) / 8];
    load8<TYPE>(v, row, (off + c) / 8);
  } else
    for (int e = 0; e < 8; e++) v[e] = c + e < n ? value_at(TYPE, row, off + c + e) : 0;
  return {bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3]), bf16_pair(v[4], v[5]), bf16_pair(v[6], v[7])};
}

__device__ __forceinline__ u32 f16_pair(float lo, float hi) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}

// d += a b, 16 x 8 results, operands in f16 where F is 1, else in bf16.
template <int F> __device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  if (F)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The scores of a tile as softmax takes them, and the largest of each row.
template <int N, class Final> __device__ __forceinline__ void mask_tile(float (&sc)[N][4], int j0, const int (&lo)[2], const int (&hi)[2], float (&best)[2], Final final) {
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      int j = j0 + n * 8 + threadIdx.x % 4 * 2 + e % 2, w = e / 2;
      sc[n][e] = j >= lo[w] && j < hi[w] ? final(sc[n][e], j, w) : -INF;
      best[w] = fmaxf(best[w], sc[n][e]);
    }
}

// Makes weights of the scores of a tile, whose keys begin with j0, and brings top and
// sum, which are in units of log 2, up to date. Rows w of a thread see keys lo[w] to
// hi[w] - 1. keep is what earlier sums shrink by. Where special, score makes the final
// score of a product.
template <int N, class Score>
__device__ __forceinline__ void soften(float (&sc)[N][4], int j0, const int (&lo)[2], const int (&hi)[2], float base2, bool special, Score score, float (&top)[2], float (&sum)[2], float (&keep)[2]) {
  int end = j0 + 8 * N;
  bool whole = lo[0] <= j0 && hi[0] >= end && lo[1] <= j0 && hi[1] >= end;
  float best[2] = {top[0], top[1]};
  if (!special && __all_sync(~0u, whole)) {
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) best[e / 2] = fmaxf(best[e / 2], sc[n][e] *= base2);
  } else {
    if (special) mask_tile(sc, j0, lo, hi, best, [&](float x, int j, int w) { return score(x, j, w) * 1.4426950408889634f; });
    else mask_tile(sc, j0, lo, hi, best, [&](float x, int, int) { return x * base2; });
  }
#pragma unroll
  for (int w = 0; w < 2; w++) {
    best[w] = fmaxf(best[w], __shfl_xor_sync(~0u, best[w], 1));
    best[w] = fmaxf(best[w], __shfl_xor_sync(~0u, best[w], 2));
    keep[w] = best[w] == -INF ? 1 : exp2_fast(top[w] - best[w]);
    top[w] = best[w];
    sum[w] *= keep[w];
    if (best[w] == -INF) best[w] = 0; // nothing is seen yet: all weights are 0
  }
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) sum[e / 2] += sc[n][e] = exp2_fast(sc[n][e] - best[e / 2]);
}

// Where DROP, weights are dropped; the sum that softmax divides by has all of them.
template <int D, int TYPE, bool DROP = false>
__device__ __forceinline__ void flash(STAMP, const int *bind, Dim rows, Dim seqs, const Mask &a, Out out, In q, In k, In v, const int *start, const int *kv_len,
                                      const int *table, int blocks, int block, const float *rel, int relcols, float *lse, const Drop &key = {0, 0}) {
  constexpr int KT = D > 64 ? 32 : 64, F = TYPE == F16, PARTS = KT * (D / 8) / 256 > 0 ? KT * (D / 8) / 256 : 1;
  __shared__ __align__(16) u16 ks[2][KT][D + 8], vs[2][KT][D + 8];
  int total = size(rows, bind), t0 = blockIdx.x * 128, h = blockIdx.y;
  if (t0 >= total) {
    grid_wait();
    return;
  }
  int ns = size(seqs, bind), lane = threadIdx.x % 32, warp = threadIdx.x / 32, d = a.head;
  int kcols = a.kv_heads * d, off = h / (a.heads / a.kv_heads) * d, reach = (relcols - 1) / 2;
  int row[2] = {t0 + warp * 16 + lane / 4, t0 + warp * 16 + lane / 4 + 8}, s0 = sequence_of_warp(start, ns, t0);
  float slope = a.alibi ? alibi_slope(a, h) : 0, base2 = a.scale * 1.4426950408889634f;
  bool special = a.alibi || a.cap > 0 || rel, straight = d % 8 == 0 && (F || k.half && v.half);
  grid_wait();

  u32 fq[D / 16][4];
#pragma unroll
  for (int i = 0; i < D / 16; i++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      int r = row[e % 2], c = i * 16 + lane % 4 * 2 + e / 2 * 8;
      u64 at = ((u64)r * a.heads + h) * d + c;
      bool there = r < total && c < d;
      if (d % 2 == 0 && q.half && !F) fq[i][e] = there ? ((const u32 *)q.p)[at / 2] : 0;
      else if (d % 2 == 0 && !q.half) {
        float2 x = there ? *(const float2 *)((const float *)q.p + at) : float2{0, 0};
        fq[i][e] = F ? f16_pair(x.x, x.y) : bf16_pair(x.x, x.y);
      } else {
        float x = there ? get(q, at) : 0, y = there && c + 1 < d ? get(q, at + 1) : 0;
        fq[i][e] = F ? f16_pair(x, y) : bf16_pair(x, y);
      }
    }
  Dropped drop = dropped(key);
  float o[D / 8][4] = {}, top[2] = {-INF, -INF}, sum[2] = {0, 0};

  int last = min(t0 + 128, total) - 1;
  for (int s = s0; s < ns && start[s] <= last; s++) {
    int q0 = start[s], q1 = start[s + 1], keys = kv_len ? kv_len[s] : q1 - q0, back = keys - q1; // a query's position is its row + back
    if (q1 <= t0 || q0 == q1) continue;
    int lo[2], hi[2], from, to, skip;
#pragma unroll
    for (int e = 0; e < 2; e++) {
      lo[e] = hi[e] = 0;
      if (row[e] >= q0 && row[e] < q1) visible(a, row[e] + back, keys, lo[e], hi[e]);
    }
    visible(a, max(t0, q0) + back, keys, from, skip);
    visible(a, min(last, q1 - 1) + back, keys, skip, to);
    from = from / KT * KT;
    if (from >= to) continue;
    // Brings KT keys and values from j0 on into half of shared memory.
    auto fetch = [&](int j0, int half) {
      u64 first = (u64)q0 + j0;
      bool together = !table || block % KT == 0;
      if (table && together) first = (u64)table[(u64)s * blocks + j0 / block] * block + j0 % block;
#pragma unroll
      for (int u = 0; u < PARTS; u++) {
        int i = threadIdx.x + u * 256, r = i / (D / 8), c = i % (D / 8) * 8, j = j0 + r;
        if (r >= KT) break;
        bool there = j < keys && c < d;
        u64 at = !there ? 0 : together ? first + r : (u64)table[(u64)s * blocks + j / block] * block + j % block;
        if (straight) {
          u64 e = there ? at * kcols + off + c : 0;
          u32 bytes = there ? 16 : 0;
          asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_at(&ks[half][r][c])), "l"((const u16 *)k.p + e), "r"(bytes) : "memory");
          asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_at(&vs[half][r][c])), "l"((const u16 *)v.p + e), "r"(bytes) : "memory");
        } else {
          uint4 kk = {0, 0, 0, 0}, vv = {0, 0, 0, 0};
          if (there && F) {
            const u16 *kr = (const u16 *)k.p + at * kcols + off, *vr = (const u16 *)v.p + at * kcols + off;
            for (int e = 0; e < 8; e++) ((u16 *)&kk)[e] = c + e < d ? kr[c + e] : 0, ((u16 *)&vv)[e] = c + e < d ? vr[c + e] : 0;
          } else if (there) {
            kk = k.half ? eight<BF16>((const u8 *)k.p + at * kcols * 2, off, c, d) : eight<F32>((const u8 *)k.p + at * kcols * 4, off, c, d);
            vv = v.half ? eight<BF16>((const u8 *)v.p + at * kcols * 2, off, c, d) : eight<F32>((const u8 *)v.p + at * kcols * 4, off, c, d);
          }
          *(uint4 *)&ks[half][r][c] = kk;
          *(uint4 *)&vs[half][r][c] = vv;
        }
      }
      asm volatile("cp.async.commit_group;" ::: "memory");
    };
    __syncthreads(); // the keys of the sequence before are read
    fetch(from, 0);
    for (int j0 = from, now = 0; j0 < to; j0 += KT, now ^= 1) {
      if (j0 + KT < to) {
        fetch(j0 + KT, now ^ 1);
        asm volatile("cp.async.wait_group 1;" ::: "memory");
      } else asm volatile("cp.async.wait_group 0;" ::: "memory");
      __syncthreads();
      bool sees = lo[0] < min(hi[0], j0 + KT) && hi[0] > j0 || lo[1] < min(hi[1], j0 + KT) && hi[1] > j0;
      if (__any_sync(~0u, sees)) {
        float sc[KT / 8][4] = {};
#pragma unroll
        for (int i = 0; i < D / 16; i++)
#pragma unroll
          for (int n = 0; n < KT / 8; n += 2) {
            u32 b[4];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                         : "r"(smem_at(&ks[now][n * 8 + lane % 8 + lane / 16 * 8][i * 16 + lane / 8 % 2 * 8])));
            mma<F>(sc[n], fq[i], b[0], b[1]);
            mma<F>(sc[n + 1], fq[i], b[2], b[3]);
          }
        float keep[2];
        soften(sc, j0, lo, hi, base2, special, [&](float x, int j, int w) {
          x = final_score(a, x, slope, j);
          return rel ? x + rel[h * relcols + min(max(j - row[w] - back, -reach), reach) + reach] : x;
        }, top, sum, keep);
        if (DROP && drop.below) {
#pragma unroll
          for (int n = 0; n < KT / 8; n++)
#pragma unroll
            for (int w = 0; w < 2; w++) {
              u64 words = drop_words(drop, a.heads, row[w], h, j0 + n * 8 + lane % 4 * 2);
              if ((u32)words < drop.below) sc[n][2 * w] = 0;
              if ((u32)(words >> 32) < drop.below) sc[n][2 * w + 1] = 0;
            }
        }
#pragma unroll
        for (int i = 0; i < D / 8; i++)
#pragma unroll
          for (int e = 0; e < 4; e++) o[i][e] *= keep[e / 2];
#pragma unroll
        for (int j = 0; j < KT / 16; j++) {
          u32 p[4];
#pragma unroll
          for (int e = 0; e < 4; e++) {
            float x = sc[2 * j + e / 2][e % 2 * 2], y = sc[2 * j + e / 2][e % 2 * 2 + 1];
            p[e] = F ? f16_pair(x, y) : bf16_pair(x, y);
          }
#pragma unroll
          for (int n = 0; n < D / 8; n += 2) {
            u32 b[4];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                         : "r"(smem_at(&vs[now][j * 16 + lane % 16][n * 8 + lane / 16 * 8])));
            mma<F>(o[n], p, b[0], b[1]);
            mma<F>(o[n + 1], p, b[2], b[3]);
          }
        }
      }
      __syncthreads();
    }
  }
#pragma unroll
  for (int w = 0; w < 2; w++) {
    sum[w] += __shfl_xor_sync(~0u, sum[w], 1);
    sum[w] += __shfl_xor_sync(~0u, sum[w], 2);
    if (lse && row[w] < total && lane % 4 == 0) lse[(u64)row[w] * a.heads + h] = top[w] * 0.6931471805599453f + logf(sum[w]);
    sum[w] = sum[w] > 0 ? drop.scale / sum[w] : 0;
  }
#pragma unroll
  for (int i = 0; i < D / 8; i++)
#pragma unroll
    for (int e = 0; e < 4; e += 2) {
      int r = row[e / 2], c = i * 8 + lane % 4 * 2;
      if (r >= total || c >= d) continue;
      u64 at = ((u64)r * a.heads + h) * d + c;
      float x = o[i][e] * sum[e / 2], y = o[i][e + 1] * sum[e / 2];
      if (d % 2) {
        put(out, at, x);
        if (c + 1 < d) put(out, at + 1, y);
        continue;
      }
      if (out.h) *(u32 *)(out.h + at) = bf16_pair(x, y);
      if (out.f) *(float2 *)(out.f + at) = {x, y};
    }
}

#define FLASH(D, name, TYPE, BLOCKS)                                                                                                                                                                  \
  KERNEL __launch_bounds__(256, BLOCKS) k_flash_##D##_##name(STAMP, const int *bind, Dim rows, Dim seqs, Mask a, Out out, In q, In k, In v, const int *start, const int *kv_len, const int *table, int blocks, \
                                                     int block, const float *rel, int relcols, float *lse) {                                                                                   \
    flash<D, TYPE>(stamp_, bind, rows, seqs, a, out, q, k, v, start, kv_len, table, blocks, block, rel, relcols, lse);                                                                                \
  }
#define FLASH_DROP(D, BLOCKS)                                                                                                                                                                           \
  KERNEL __launch_bounds__(256, BLOCKS) k_flash_drop_##D(STAMP, const int *bind, Dim rows, Dim seqs, Mask a, Out out, In q, In k, In v, const int *start, const int *kv_len, const int *table, int blocks, int block, \
                                                         const float *rel, int relcols, float *lse, Drop key) {                                                                                     \
    flash<D, F32, true>(stamp_, bind, rows, seqs, a, out, q, k, v, start, kv_len, table, blocks, block, rel, relcols, lse, key);                                                                       \
  }
FLASH_DROP(32, 2)
FLASH_DROP(64, 2)
FLASH_DROP(128, 1)
FLASH(32, f32, F32, 2)
FLASH(64, f32, F32, 2)
FLASH(128, f32, F32, 1)
FLASH(32, f16, F16, 2)
FLASH(64, f16, F16, 2)
FLASH(128, f16, F16, 1)

// One query: a block of 8 warps per head. A lane takes a key of 32 for the score;
// then lanes take elements of the values. Warps take turns of keys and their sums
// are put together at the end, in order.
template <int TYPE>
__device__ __forceinline__ void attend_one(STAMP, const int *bind, Dim rows, Dim seqs, const Mask &a, Out out, const float *q, const u8 *k, const u8 *v, const int *start, const int *kv_len, const int *table,
                                           int blocks, int block) {
  __shared__ float qs[256], os[8][256], tops[8], sums[8];
  int t = blockIdx.x, h = blockIdx.y, ns = size(seqs, bind), lane = threadIdx.x % 32, warp = threadIdx.x / 32, d = a.head, lo, hi;
  if (t >= size(rows, bind)) {
    grid_wait();
    return;
  }
  int s = sequence_of(start, ns, t), at = kv_len[s] - (start[s + 1] - t), off = h / (a.heads / a.kv_heads) * d;
  u64 stride = row_bytes(TYPE, a.kv_heads * d), o = ((u64)t * a.heads + h) * d;
  visible(a, at, kv_len[s], lo, hi);
  grid_wait();
  for (int i = threadIdx.x; i < d; i += 256) qs[i] = q[o + i];
  __syncthreads();
  const int *of = table + (u64)s * blocks;
  float slope = a.alibi ? alibi_slope(a, h) : 0, top = -INF, sum = 0, acc[8] = {};
  bool pairs = TYPE == F16 && d % 2 == 0 && d <= 64; // lanes take two neighbours of a head
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
    // Keys at a time, so that their loads are under way together. Keys beyond the
    // last have weight 0 and read row 0.
    if (pairs) {
#pragma unroll 1
      for (int i = 0; i < min(32, hi - j0); i += 16) {
        u32 x[16];
        float w[16];
#pragma unroll
        for (int g = 0; g < 16; g++) {
          u64 r = __shfl_sync(~0u, row, i + g);
          w[g] = __shfl_sync(~0u, p, i + g);
          x[g] = 2 * lane < d ? ((const u32 *)(v + r + off * 2))[lane] : 0;
        }
#pragma unroll
        for (int g = 0; g < 16; g++) acc[0] += w[g] * half_to_float(x[g]), acc[1] += w[g] * half_to_float(x[g] >> 16);
      }
      continue;
    }
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
  if (pairs) {
    if (2 * lane < d) os[warp][2 * lane] = acc[0], os[warp][2 * lane + 1] = acc[1];
  } else
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
    put(out, o + i, all > 0 ? x / all : 0);
  }
}

#define ATTEND_ONE(name, TYPE)                                                                                                                                                                                   \
  KERNEL __launch_bounds__(256) k_attend_one_##name(STAMP, const int *bind, Dim rows, Dim seqs, Mask a, Out out, const float *q, const u8 *k, const u8 *v, const int *start, const int *kv_len, const int *table, int blocks, \
                                                    int block) {                                                                                                                                               \
    attend_one<TYPE>(stamp_, bind, rows, seqs, a, out, q, k, v, start, kv_len, table, blocks, block);                                                                                                                 \
  }
ATTEND_ONE(f32, F32)
ATTEND_ONE(f16, F16)
ATTEND_ONE(q8_0, Q8_0)

// Queries that read the cache by themselves, heads of D values in a cache of f16: a block
// per query and head. Two lanes share a key, so that a warp has 16 of them. early: the
// cache has all keys but those of this run; the first 16 keys of each warp and their
// values are on their way before the products of this run have ended. start is 0 where
// there is one row.
template <int D>
__device__ __forceinline__ void attend_row(STAMP, const int *bind, Dim rows, Dim seqs, const Mask &a, Out out, const float *q, const u8 *k, const u8 *v, const int *start, const int *kv_len, const int *table, int blocks, int block, int early) {
  constexpr int MOST = 16, KEYS = 16, C = D / 16, W = D / 64; // warps at most, keys per warp, parts of 16 bytes of a lane's key, words of a value's row per lane
  __shared__ __align__(16) float qs[D];
  __shared__ __align__(16) float os[MOST][D];
  __shared__ float tops[MOST], sums[MOST];
  grid_next();
  int t = blockIdx.x, h = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, lo, hi, off = h / (a.heads / a.kv_heads) * D;
  int s = 0, own = 1, later = 0; // rows of the sequence, and those behind this one
  if (start) {
    if (t >= size(rows, bind)) {
      grid_wait();
      return;
    }
    s = sequence_of_warp(start, size(seqs, bind), t);
    int end = start[s + 1];
    own = end - start[s], later = end - t - 1, table += (u64)s * blocks;
  }
  int len = kv_len[s];
  u64 stride = 2 * a.kv_heads * D;
  visible(a, len - 1 - later, len, lo, hi);
  uint4 ks[C];
  u32 vs[KEYS][W];
  auto place = [&](int j0) { // of the lane's key
    int j = j0 + lane / 2;
    return j < hi ? ((u64)table[j / block] * block + j % block) * stride + 2 * off : 0;
  };
  auto load = [&](int j0, u64 row, int from, int to) { // those of keys from up to to
    int j = j0 + lane / 2;
    if (j >= from && j < to)
#pragma unroll
      for (int i = 0; i < C; i++) ks[i] = ((const uint4 *)(k + row))[lane % 2 * C + i];
#pragma unroll
    for (int g = 0; g < KEYS; g++) {
      u64 r = __shfl_sync(~0u, row, 2 * g);
      if (j0 + g >= from && j0 + g < to)
#pragma unroll
        for (int e = 0; e < W; e++) vs[g][e] = ((const u32 *)(v + r))[lane + 32 * e];
    }
  };
#pragma unroll
  for (int g = 0; g < KEYS; g++)
#pragma unroll
    for (int e = 0; e < W; e++) vs[g][e] = 0;
  int j0 = lo + warp * KEYS, before = early ? len - own : lo; // keys that are there
  u64 row = place(j0);
  if (j0 < hi) load(j0, row, lo, before);
  grid_wait();
  if (threadIdx.x < D) qs[threadIdx.x] = q[((u64)t * a.heads + h) * D + threadIdx.x];
  if (!early) row = place(j0);
  if (j0 < hi && j0 + KEYS > before) load(j0, row, before, hi);
  __syncthreads();
  float slope = a.alibi ? alibi_slope(a, h) : 0, top = -INF, sum = 0, acc[2 * W] = {};
#pragma unroll 1
  for (; j0 < hi; j0 += warps * KEYS) {
    int j = j0 + lane / 2;
    if (j0 >= lo + warps * KEYS) load(j0, place(j0), lo, hi);
    float dot = 0;
    if (j < hi) {
      const float4 *x = (const float4 *)(qs + lane % 2 * (D / 2));
#pragma unroll
      for (int i = 0; i < C; i++) {
        float4 x0 = x[2 * i], x1 = x[2 * i + 1];
        u32 w[4] = {ks[i].x, ks[i].y, ks[i].z, ks[i].w};
        dot += x0.x * half_to_float(w[0]) + x0.y * half_to_float(w[0] >> 16) + x0.z * half_to_float(w[1]) + x0.w * half_to_float(w[1] >> 16);
        dot += x1.x * half_to_float(w[2]) + x1.y * half_to_float(w[2] >> 16) + x1.z * half_to_float(w[3]) + x1.w * half_to_float(w[3] >> 16);
      }
    }
    dot += __shfl_xor_sync(~0u, dot, 1);
    float x = j < hi ? final_score(a, dot, slope, j) : -INF, next = x;
#pragma unroll
    for (int o = 16; o > 1; o >>= 1) next = fmaxf(next, __shfl_xor_sync(~0u, next, o));
    next = fmaxf(top, next);
    float keep = expf(top - next), p = j < hi ? expf(x - next) : 0, all = p;
#pragma unroll
    for (int o = 16; o > 1; o >>= 1) all += __shfl_xor_sync(~0u, all, o);
    sum = sum * keep + all;
    top = next;
#pragma unroll
    for (int e = 0; e < 2 * W; e++) acc[e] *= keep;
#pragma unroll
    for (int g = 0; g < KEYS; g++) {
      float w = __shfl_sync(~0u, p, 2 * g);
#pragma unroll
      for (int e = 0; e < W; e++) acc[2 * e] += w * half_to_float(vs[g][e]), acc[2 * e + 1] += w * half_to_float(vs[g][e] >> 16);
    }
  }
#pragma unroll
  for (int e = 0; e < W; e++) *(float2 *)&os[warp][2 * lane + 64 * e] = {acc[2 * e], acc[2 * e + 1]};
  if (lane == 0) tops[warp] = top, sums[warp] = sum;
  __syncthreads();
  if (threadIdx.x >= D) return;
  // Lanes have a warp's share each.
  float best = lane < warps ? tops[lane] : -INF, f = best, y = 0;
  best = warp_max(best), f = f == -INF ? 0 : expf(f - best);
  float all = warp_sum(lane < warps ? f * sums[lane] : 0);
  if (warps == MOST)
#pragma unroll
    for (int w = 0; w < MOST; w++) y += __shfl_sync(~0u, f, w) * os[w][threadIdx.x];
  else
#pragma unroll
    for (int w = 0; w < MOST / 2; w++) y += __shfl_sync(~0u, f, w) * os[w][threadIdx.x];
  put(out, ((u64)t * a.heads + h) * D + threadIdx.x, all > 0 ? y / all : 0);
}

#define ATTEND_ROW(D, BLOCKS)                                                                                                                                                                          \
  KERNEL __launch_bounds__(512, BLOCKS) k_attend_row_##D(STAMP, const int *bind, Dim rows, Dim seqs, Mask a, Out out, const float *q, const u8 *k, const u8 *v, const int *start, const int *kv_len, \
                                                         const int *table, int blocks, int block, int early) {                                                                                       \
    attend_row<D>(stamp_, bind, rows, seqs, a, out, q, k, v, start, kv_len, table, blocks, block, early);                                                                                              \
  }
ATTEND_ROW(64, 2)
ATTEND_ROW(128, 1)

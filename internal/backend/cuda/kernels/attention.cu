// Attention, and the cache of keys and values.

// Mask is who sees whom, and what softmax sees of a score.
struct Mask {
  int heads, kv_heads, head, causal, window;
  float scale, cap;
  int alibi;
};

__device__ __forceinline__ void visible(const Mask &a, int pos, int keys, int &lo, int &hi) {
  lo = 0, hi = keys;
  if (a.causal) hi = min(hi, pos + 1);
  if (a.window > 0) lo = max(lo, pos - a.window + 1), hi = min(hi, pos + a.window);
  hi = max(lo, hi);
}

__device__ __forceinline__ float round_bf16(float x) { return bf16_to_float(float_to_bf16(x)); }

__device__ __noinline__ float alibi_slope(const Mask &a, int h) {
  int n = 1;
  while (2 * n <= a.heads) n *= 2;
  int power = h + 1;
  if (h >= n) power = 2 * (h - n) + 1, n *= 2;
  float base = (float)exp2(-8.0 / n);
  return round_bf16((float)pow((double)base, (double)power));
}

__device__ __forceinline__ float final_score(const Mask &a, float dot, float slope, int j) {
  float s = a.scale * dot;
  if (a.alibi) s += round_bf16(slope * round_bf16((float)j)) * a.scale;
  return a.cap > 0 ? a.cap * tanhf(s / a.cap) : s;
}

// Drop is the key of the dropout of weights, 0 where there is none, and the salt of
// this attention.
struct Drop {
  const u32 *key;
  u32 salt;
};
// Dropped is the choice of a key, as WeightDropout of package graph; below is 0 where
// nothing is dropped.
struct Dropped {
  u64 base, below;
  float scale;
};

__device__ __forceinline__ Dropped dropped(const Drop &d) {
  if (!d.key) return {0, 0, 1};
  float p = __uint_as_float(d.key[2]);
  return {mix64((d.key[0] | (u64)d.key[1] << 32) + d.salt * 0x9e3779b97f4a7c15ull), (u64)((double)p * 4294967296.0), 1 / (1 - p)};
}

// The random numbers of keys j and j+1, j even, of head h of the query at token t.
__device__ __forceinline__ u64 drop_words(const Dropped &d, int heads, int t, int h, int j) {
  return mix64(d.base + ((((u64)t * heads + h) << 28) + j >> 1) * 0x9e3779b97f4a7c15ull);
}

// What the weight of key j is multiplied by.
__device__ __forceinline__ float drop_factor(const Dropped &d, int heads, int t, int h, int j) {
  if (!d.below) return 1;
  return (u32)(drop_words(d, heads, t, h, j & ~1) >> (32 * (j & 1))) < d.below ? 0 : d.scale;
}

// Where the keys of a sequence lie: from row base on, or by blocks of a table.
struct Keys {
  const u8 *k, *v;
  int cols, base, block;
  const int *table;
};

__device__ __forceinline__ u64 key_row(const Keys &s, int j) { return s.table ? (u64)s.table[j / s.block] * s.block + j % s.block : (u64)s.base + j; }

// One warp per query head: lanes hold elements lane, lane+32, ... of the head, at
// most 8 of them. Softmax is online: scores never lie in memory.
template <int TYPE> __device__ __forceinline__ void attend(const Mask &a, const Keys &s, const float *q, Out out, u64 o, float *lse, int h, int lo, int hi, int at, const float *rel, int reach, const Dropped &drop = {0, 0, 1}, int t = 0) {
  int lane = threadIdx.x % 32, d = a.head, off = h / (a.heads / a.kv_heads) * d;
  u64 stride = row_bytes(TYPE, s.cols);
  float slope = a.alibi ? alibi_slope(a, h) : 0;
  float qv[8], acc[8], top = -INF, sum = 0;
  for (int e = 0; e < 8; e++) {
    int i = lane + 32 * e;
    qv[e] = i < d ? q[i] : 0;
    acc[e] = 0;
  }
  for (int j = lo; j < hi; j++) {
    u64 row = key_row(s, j) * stride;
    float dot = 0;
#pragma unroll
    for (int e = 0; e < 8; e++)
      if (lane + 32 * e < d) dot += qv[e] * value_at(TYPE, s.k + row, off + lane + 32 * e);
    float sc = final_score(a, warp_sum(dot), slope, j);
    if (rel) sc += rel[min(max(j - at, -reach), reach) + reach];
    float next = fmaxf(top, sc), keep = expf(top - next), p = expf(sc - next);
    sum = sum * keep + p;
    p *= drop_factor(drop, a.heads, t, h, j);
#pragma unroll
    for (int e = 0; e < 8; e++)
      if (lane + 32 * e < d) acc[e] = acc[e] * keep + p * value_at(TYPE, s.v + row, off + lane + 32 * e);
    top = next;
  }
  for (int e = 0; e < 8; e++)
    if (lane + 32 * e < d) put(out, o + lane + 32 * e, hi > lo ? acc[e] / sum : 0);
  if (lse && lane == 0) *lse = hi > lo ? top + logf(sum) : -INF;
}

#define EACH_HEAD(i) for (u64 i = (blockIdx.x * (u64)blockDim.x + threadIdx.x) / 32, n_ = (u64)size(rows, bind) * a.heads; i < n_; i += (u64)gridDim.x * blockDim.x / 32)

KERNEL k_attention(STAMP, const int *bind, Dim rows, Dim seqs, Mask a, Out out, float *lse, const float *q, const float *k, const float *v, const int *start, const float *rel, int relcols, Drop key) {
  grid_wait();
  Dropped drop = dropped(key);
  int ns = size(seqs, bind), reach = (relcols - 1) / 2;
  EACH_HEAD(i) {
    int t = i / a.heads, h = i % a.heads, s = sequence_of(start, ns, t), q0 = start[s], lo, hi;
    if (t < q0 || t >= start[s + 1]) continue;
    Keys keys = {(const u8 *)k, (const u8 *)v, a.kv_heads * a.head, q0, 0, 0};
    visible(a, t - q0, start[s + 1] - q0, lo, hi);
    u64 o = ((u64)t * a.heads + h) * a.head;
    attend<F32>(a, keys, q + o, out, o, lse ? lse + (u64)t * a.heads + h : 0, h, lo, hi, t - q0, rel ? rel + h * relcols : 0, reach, drop, t);
  }
}

// Up to 16 rows in all: a block per head, a thread per query and key. Heads of up to
// 128 values.
KERNEL __launch_bounds__(256) k_attention_few(STAMP, const int *bind, Dim rows, Dim seqs, Mask a, float *out, float *lse, const float *q, const float *k, const float *v, const int *start, const float *rel, int relcols, Drop key) {
  __shared__ float qs[16][129], ks[16][129], vs[16][129], ps[16][17];
  int total = size(rows, bind), ns = size(seqs, bind), h = blockIdx.x, d = a.head, off = h / (a.heads / a.kv_heads) * d, i = threadIdx.x / 16, j = threadIdx.x % 16, kcols = a.kv_heads * d;
  grid_wait();
  for (int e = threadIdx.x; e < total * d; e += 256) {
    int r = e / d, c = e % d;
    qs[r][c] = q[((u64)r * a.heads + h) * d + c];
    ks[r][c] = k[(u64)r * kcols + off + c];
    vs[r][c] = v[(u64)r * kcols + off + c];
  }
  __syncthreads();
  float x = -INF, kept = 1;
  if (i < total && j < total) {
    int s = sequence_of(start, ns, i), q0 = start[s], q1 = start[s + 1], lo, hi, reach = (relcols - 1) / 2;
    visible(a, i - q0, q1 - q0, lo, hi);
    if (i >= q0 && i < q1 && j - q0 >= lo && j - q0 < hi) {
      float dot = 0;
      for (int c = 0; c < d; c++) dot += qs[i][c] * ks[j][c];
      x = final_score(a, dot, a.alibi ? alibi_slope(a, h) : 0, j - q0);
      if (rel) x += rel[h * relcols + min(max(j - i, -reach), reach) + reach];
      kept = drop_factor(dropped(key), a.heads, i, h, j - q0);
    }
  }
  float top = x, sum;
  for (int o = 8; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
  float p = x == -INF ? 0 : expf(x - top);
  sum = p;
  for (int o = 8; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  ps[i][j] = sum > 0 ? kept * p / sum : 0;
  if (lse && i < total && j == 0) lse[(u64)i * a.heads + h] = sum > 0 ? top + logf(sum) : -INF;
  __syncthreads();
  for (int e = threadIdx.x; e < total * d; e += 256) {
    int r = e / d, c = e % d;
    float acc = 0;
    for (int u = 0; u < total; u++) acc += ps[r][u] * vs[u][c];
    out[((u64)r * a.heads + h) * d + c] = acc;
  }
}

template <int TYPE> __device__ __forceinline__ void attention_kv(STAMP, const int *bind, Dim rows, Dim seqs, Mask a, Out out, const float *q, const u8 *k, const u8 *v, const int *start, const int *kv_len, const int *table, int blocks, int block) {
  grid_wait();
  int ns = size(seqs, bind);
  EACH_HEAD(i) {
    int t = i / a.heads, h = i % a.heads, s = sequence_of(start, ns, t), lo, hi;
    if (t < start[s] || t >= start[s + 1]) continue;
    Keys keys = {k, v, a.kv_heads * a.head, 0, block, table + (u64)s * blocks};
    int at = kv_len[s] - (start[s + 1] - t);
    visible(a, at, kv_len[s], lo, hi);
    u64 o = ((u64)t * a.heads + h) * a.head;
    attend<TYPE>(a, keys, q + o, out, o, 0, h, lo, hi, at, 0, 0);
  }
}

#define ATTENTION_KV(name, TYPE)                                                                                                                                                                         \
  KERNEL k_attention_kv_##name(STAMP, const int *bind, Dim rows, Dim seqs, Mask a, Out out, const float *q, const u8 *k, const u8 *v, const int *start, const int *kv_len, const int *table, int blocks, int block) { \
    attention_kv<TYPE>(stamp_, bind, rows, seqs, a, out, q, k, v, start, kv_len, table, blocks, block);                                                                                                         \
  }
ATTENTION_KV(f32, F32)
ATTENTION_KV(f16, F16)
ATTENTION_KV(q8_0, Q8_0)

// k and v into rows of the cache, in its encoding. One warp per 32 values.
KERNEL k_kv_write(STAMP, const int *bind, Dim rows, int cols, u8 *ks, u8 *vs, int type, const float *k, const float *v, const int *slots) {
  grid_wait();
  u64 stride = row_bytes(type, cols), parts = (cols + 31) / 32;
  int lane = threadIdx.x % 32;
  for (u64 i = (blockIdx.x * (u64)blockDim.x + threadIdx.x) / 32, n = size(rows, bind) * parts; i < n; i += (u64)gridDim.x * blockDim.x / 32) {
    int t = i / parts, p = i % parts, c = p * 32 + lane;
    for (int which = 0; which < 2; which++) {
      u8 *row = (which ? vs : ks) + slots[t] * stride;
      float x = c < cols ? (which ? v : k)[(u64)t * cols + c] : 0;
      if (type == F32) {
        if (c < cols) ((float *)row)[c] = x;
      } else if (type == F16) {
        if (c < cols) ((u16 *)row)[c] = float_to_half(x);
      } else {
        float d = warp_max(fabsf(x)) / 127, inv = d ? 1 / d : 0;
        row += p * 34;
        if (lane == 0) *(u16 *)row = float_to_half(d);
        row[2 + lane] = (signed char)roundf(x * inv);
      }
    }
  }
}

// The bias of key j for query i, where there is one.
__device__ __forceinline__ float rel_at(const float *rel, int cols, int h, int i, int j) {
  int reach = (cols - 1) / 2;
  return rel ? rel[h * cols + min(max(j - i, -reach), reach) + reach] : 0;
}

// Gradients: probabilities are computed again from the log-sum-exp. p is what the value
// was multiplied by; kept is what dropout made of 1.
__device__ __forceinline__ void pair_grad(const Mask &a, const float *q, const float *k, const float *v, const float *dout, float lse, float delta, float slope, int j, float rel, float kept, float &p, float &ds) {
  int lane = threadIdx.x % 32;
  float s = 0, g = 0;
  for (int i = lane; i < a.head; i += 32) {
    s += q[i] * k[i];
    g += dout[i] * v[i];
  }
  s = final_score(a, warp_sum(s), slope, j);
  g = warp_sum(g);
  p = expf(s + rel - lse);
  ds = p * (kept * g - delta) * a.scale;
  p *= kept;
  if (a.cap > 0) ds *= 1 - (s / a.cap) * (s / a.cap);
}

__device__ __forceinline__ float row_dot(const float *x, const float *y, int n) {
  float s = 0;
  for (int i = threadIdx.x % 32; i < n; i += 32) s += x[i] * y[i];
  return warp_sum(s);
}

// One warp per query head.
KERNEL k_attention_dq(STAMP, const int *bind, Dim rows, Dim seqs, Mask a, float *dq, const float *q, const float *k, const float *v, const float *out, const float *lse, const float *dout, const int *start, const float *rel, int relcols, Drop key) {
  grid_wait();
  Dropped drop = dropped(key);
  int ns = size(seqs, bind), lane = threadIdx.x % 32, d = a.head, kcols = a.kv_heads * d;
  EACH_HEAD(i) {
    int t = i / a.heads, h = i % a.heads, s = sequence_of(start, ns, t), q0 = start[s], lo, hi;
    u64 o = ((u64)t * a.heads + h) * d;
    float acc[8] = {};
    if (t >= q0 && t < start[s + 1]) {
      visible(a, t - q0, start[s + 1] - q0, lo, hi);
      float delta = row_dot(dout + o, out + o, d), slope = a.alibi ? alibi_slope(a, h) : 0;
      for (int j = lo; j < hi; j++) {
        u64 u = (u64)(q0 + j) * kcols + h / (a.heads / a.kv_heads) * d;
        float p, ds;
        pair_grad(a, q + o, k + u, v + u, dout + o, lse[(u64)t * a.heads + h], delta, slope, j, rel_at(rel, relcols, h, t - q0, j), drop_factor(drop, a.heads, t, h, j), p, ds);
        for (int e = 0; e < 8; e++)
          if (lane + 32 * e < d) acc[e] += ds * k[u + lane + 32 * e];
      }
    }
    for (int e = 0; e < 8; e++)
      if (lane + 32 * e < d) dq[o + lane + 32 * e] = acc[e];
  }
}

// One warp per key head: sums over the heads of its group and the queries that
// see it, in order.
KERNEL k_attention_dkv(STAMP, const int *bind, Dim rows, Dim seqs, Mask a, float *dk, float *dv, const float *q, const float *k, const float *v, const float *out, const float *lse, const float *dout, const int *start, const float *rel, int relcols, Drop key) {
  grid_wait();
  Dropped drop = dropped(key);
  int ns = size(seqs, bind), lane = threadIdx.x % 32, d = a.head, group = a.heads / a.kv_heads;
  for (u64 i = (blockIdx.x * (u64)blockDim.x + threadIdx.x) / 32, n = (u64)size(rows, bind) * a.kv_heads; i < n; i += (u64)gridDim.x * blockDim.x / 32) {
    int u = i / a.kv_heads, kv = i % a.kv_heads, s = sequence_of(start, ns, u), q0 = start[s], q1 = start[s + 1], lo, hi;
    u64 ko = ((u64)u * a.kv_heads + kv) * d;
    float gk[8] = {}, gv[8] = {};
    if (u >= q0 && u < q1)
      for (int e = 0; e < group; e++) {
        int h = kv * group + e;
        float slope = a.alibi ? alibi_slope(a, h) : 0;
        for (int t = q0; t < q1; t++) {
          visible(a, t - q0, q1 - q0, lo, hi);
          if (u - q0 < lo || u - q0 >= hi) continue;
          u64 o = ((u64)t * a.heads + h) * d;
          float p, ds, delta = row_dot(dout + o, out + o, d);
          pair_grad(a, q + o, k + ko, v + ko, dout + o, lse[(u64)t * a.heads + h], delta, slope, u - q0, rel_at(rel, relcols, h, t - q0, u - q0), drop_factor(drop, a.heads, t, h, u - q0), p, ds);
          for (int c = 0; c < 8; c++)
            if (lane + 32 * c < d) gk[c] += ds * q[o + lane + 32 * c], gv[c] += p * dout[o + lane + 32 * c];
        }
      }
    for (int c = 0; c < 8; c++)
      if (lane + 32 * c < d) {
        if (dk) dk[ko + lane + 32 * c] = gk[c];
        if (dv) dv[ko + lane + 32 * c] = gv[c];
      }
  }
}

// The gradient of one bias by distance: a block per column and head, whose warps
// take queries in turns.
KERNEL k_attention_drel(STAMP, const int *bind, Dim seqs, Mask a, float *drel, const float *q, const float *k, const float *v, const float *out, const float *lse, const float *dout, const int *start, const float *rel, int relcols, Drop key) {
  __shared__ float part[8];
  grid_wait();
  Dropped drop = dropped(key);
  int ns = size(seqs, bind), d = a.head, h = blockIdx.y, reach = (relcols - 1) / 2, far = (int)blockIdx.x - reach, warp = threadIdx.x / 32;
  float sum = 0;
  for (int s = 0; s < ns; s++) {
    int q0 = start[s], keys = start[s + 1] - q0, lo, hi;
    for (int i = warp; i < keys; i += 8) {
      visible(a, i, keys, lo, hi);
      if (far > -reach) lo = max(lo, i + far);
      if (far < reach) hi = min(hi, i + far + 1);
      u64 o = ((u64)(q0 + i) * a.heads + h) * d;
      if (lo >= hi) continue;
      float delta = row_dot(dout + o, out + o, d);
      for (int j = lo; j < hi; j++) {
        u64 u = ((u64)(q0 + j) * a.kv_heads + h / (a.heads / a.kv_heads)) * d;
        float p, ds;
        pair_grad(a, q + o, k + u, v + u, dout + o, lse[(u64)(q0 + i) * a.heads + h], delta, 0, j, rel[h * relcols + blockIdx.x], drop_factor(drop, a.heads, q0 + i, h, j), p, ds);
        sum += ds / a.scale;
      }
    }
  }
  if (threadIdx.x % 32 == 0) part[warp] = sum;
  __syncthreads();
  if (threadIdx.x) return;
  for (int w = 1; w < 8; w++) sum += part[w];
  drel[h * relcols + blockIdx.x] = sum;
}

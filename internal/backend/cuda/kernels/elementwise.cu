// Functions of each element, and rows that move.

// Activations, as package graph numbers them.
enum { GELU, GELU_TANH, QUICK_GELU, SILU, RELU, TANH, SIGMOID };

__device__ __forceinline__ float logistic(float x) { return 1 / (1 + expf(-x)); }

__device__ __noinline__ float act(int kind, float x) {
  switch (kind) {
  case GELU: return x * normcdff(x);
  case GELU_TANH: return x / 2 * (1 + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
  case QUICK_GELU: return x * logistic(1.702f * x);
  case SILU: return x * logistic(x);
  case RELU: return fmaxf(x, 0);
  case TANH: return tanhf(x);
  }
  return logistic(x);
}

__device__ __noinline__ float act_slope(int kind, float x) {
  switch (kind) {
  case GELU: return normcdff(x) + x * expf(-x * x / 2) * 0.3989422804014327f;
  case GELU_TANH: {
    float t = tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * 0.7978845608028654f * (1 + 3 * 0.044715f * x * x);
  }
  case QUICK_GELU: {
    float s = logistic(1.702f * x);
    return s + 1.702f * x * s * (1 - s);
  }
  case SILU: {
    float s = logistic(x);
    return s + x * s * (1 - s);
  }
  case RELU: return x > 0 ? 1 : 0;
  case TANH: {
    float t = tanhf(x);
    return 1 - t * t;
  }
  }
  float s = logistic(x);
  return s * (1 - s);
}

// Every element of rows x cols, in a stride of the grid. Once per kernel.
#define EACH(i)                                  \
  u64 n_ = (u64)size(rows, bind) * cols;         \
  grid_wait();                                   \
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n_; i += (u64)gridDim.x * blockDim.x)

KERNEL k_add(STAMP, const int *bind, Dim rows, int cols, Out z, const float *x, const float *y) {
  u64 n = (u64)size(rows, bind) * cols, first = blockIdx.x * (u64)blockDim.x + threadIdx.x, all = (u64)gridDim.x * blockDim.x;
  grid_wait();
  for (u64 i = first; i < n / 4; i += all) {
    float4 a = ((const float4 *)x)[i], b = ((const float4 *)y)[i];
    a.x += b.x, a.y += b.y, a.z += b.z, a.w += b.w;
    if (z.f) ((float4 *)z.f)[i] = a;
    if (z.h) ((uint2 *)z.h)[i] = {bf16_pair(a.x, a.y), bf16_pair(a.z, a.w)};
  }
  for (u64 i = n / 4 * 4 + first; i < n; i += all) put(z, i, x[i] + y[i]);
}
KERNEL k_mul(STAMP, const int *bind, Dim rows, int cols, float *z, const float *x, const float *y) {
  EACH(i) z[i] = x[i] * y[i];
}
KERNEL k_scale(STAMP, const int *bind, Dim rows, int cols, float *y, const float *x, float c) {
  EACH(i) y[i] = c * x[i];
}
KERNEL k_shift(STAMP, const int *bind, Dim rows, int cols, float *y, const float *x, float c) {
  EACH(i) y[i] = x[i] + c;
}
KERNEL k_fill(STAMP, const int *bind, Dim rows, int cols, float *y, float c) {
  EACH(i) y[i] = c;
}
KERNEL k_add_row(STAMP, const int *bind, Dim rows, int cols, float *y, const float *x, const float *v) {
  EACH(i) y[i] = x[i] + v[i % cols];
}
KERNEL k_mul_rows(STAMP, const int *bind, Dim rows, int cols, float *y, const float *x, const float *f) {
  EACH(i) y[i] = f[i / cols] * x[i];
}
KERNEL k_glu(STAMP, const int *bind, Dim rows, int cols, Out y, const float *gate, const float *up, int kind) {
  EACH(i) put(y, i, act(kind, gate[i]) * up[i]);
}
KERNEL k_glu_grad(STAMP, const int *bind, Dim rows, int cols, float *dgate, float *dup, const float *gate, const float *up, const float *dy, int kind) {
  EACH(i) {
    float g = gate[i], d = dy[i];
    if (dgate) dgate[i] = act_slope(kind, g) * up[i] * d;
    if (dup) dup[i] = act(kind, g) * d;
  }
}

KERNEL k_embed(STAMP, const int *bind, Dim rows, int cols, float *y, const u8 *table, int type, const int *ids, float scale) {
  u64 stride = row_bytes(type, cols);
  if (cols % 4 || type != F32 && type != BF16) {
    EACH(i) y[i] = scale * value_at(type, table + ids[i / cols] * stride, i % cols);
    return;
  }
  u32 fours = cols / 4;
  u64 n = (u64)size(rows, bind) * fours;
  grid_wait();
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
    u64 r = i / fours;
    float4 v = four_of(table + ids[r] * stride, type == BF16, 4 * (i - r * fours));
    ((float4 *)y)[i] = {scale * v.x, scale * v.y, scale * v.z, scale * v.w};
  }
}

// One block per sequence, threads over columns.
KERNEL k_embed_bag(STAMP, const int *bind, Dim rows, int cols, float *y, const u8 *table, int type, const int *ids, const int *start) {
  grid_wait();
  int s = blockIdx.x;
  if (s >= size(rows, bind)) return;
  u64 stride = row_bytes(type, cols);
  int lo = start[s], hi = start[s + 1];
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    float sum = 0;
    for (int t = lo; t < hi; t++) sum += value_at(type, table + ids[t] * stride, c);
    y[(u64)s * cols + c] = sum / max(hi - lo, 1);
  }
}

// The sequence that row t belongs to.
__device__ __forceinline__ int sequence_of(const int *start, int seqs, int t) {
  int lo = 0, hi = seqs;
  while (hi - lo > 1) {
    int mid = (lo + hi) / 2;
    if (start[mid] <= t) lo = mid;
    else hi = mid;
  }
  return lo;
}

// The same, of a token that all lanes of a warp ask for: they try 32 at a time.
__device__ __forceinline__ int sequence_of_warp(const int *start, int seqs, int t) {
  int lo = 0, hi = seqs, lane = threadIdx.x % 32;
  while (hi - lo > 1) {
    int step = (hi - lo + 31) / 32, i = lo + lane * step;
    int found = __popc(__ballot_sync(~0u, i < hi && start[i] <= t));
    lo += max(found - 1, 0) * step, hi = min(hi, lo + step);
  }
  return lo;
}

// One block per row of the table: the rows of an id are added in order of tokens.
// With start, a token's row is that of its sequence, divided by its tokens.
KERNEL k_embed_grad(STAMP, const int *bind, Dim tokens, int cols, float *dw, const float *dy, const int *ids, float scale, const int *start, Dim seqs) {
  grid_wait();
  __shared__ u32 found[32]; // a bit per token of 1024
  int id = blockIdx.x, n = size(tokens, bind);
  for (int c0 = 0; c0 < cols; c0 += 4 * blockDim.x) {
    float sum[4] = {0, 0, 0, 0};
    for (int t0 = 0; t0 < n; t0 += 1024) {
      int mine[4], any = 0;
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int t = t0 + e * 256 + threadIdx.x;
        any |= mine[e] = t < n && ids[t] == id;
      }
      if (!__syncthreads_or(any)) continue;
#pragma unroll
      for (int e = 0; e < 4; e++) {
        u32 votes = __ballot_sync(~0u, mine[e]);
        if (threadIdx.x % 32 == 0) found[e * 8 + threadIdx.x / 32] = votes;
      }
      __syncthreads();
      for (int w = 0; w < 32; w++)
        for (u32 left = found[w]; left; left &= left - 1) {
          int row = t0 + w * 32 + __ffs(left) - 1;
          float f = scale;
          if (start) {
            row = sequence_of(start, size(seqs, bind), row);
            f /= max(start[row + 1] - start[row], 1);
          }
          for (int j = 0; j < 4; j++) {
            int c = c0 + j * blockDim.x + threadIdx.x;
            if (c < cols) sum[j] += f * dy[(u64)row * cols + c];
          }
        }
      __syncthreads();
    }
    for (int j = 0; j < 4; j++) {
      int c = c0 + j * blockDim.x + threadIdx.x;
      if (c < cols) dw[(u64)id * cols + c] = sum[j];
    }
  }
}

KERNEL k_gather(STAMP, const int *bind, Dim rows, int cols, float *y, const float *x, const int *from) {
  EACH(i) y[i] = x[(u64)from[i / cols] * cols + i % cols];
}

// Turn is a rotation. Angles are taken in double from the integer position. freqs
// has a row of rot/2 radians per position for short texts, and one for long ones
// where context is not 0; stretch is not 0 for the dynamic rope, which computes its
// frequencies. freqs 0: no rotation.
struct Turn {
  const double *freqs;
  const int *pos, *length; // [rows]
  double stretch;
  int head, rot, interleaved, inverse, context;
  float magnitude;
};

// What the dynamic rope multiplies the frequency of pair p by in a text of len tokens.
__device__ __noinline__ double stretched(double stretch, int len, int context, int rot, int p) {
  return pow(stretch * len / context - (stretch - 1), (double)rot / (rot - 2) * (-2.0 * p / rot));
}

// The sine and cosine of an angle. It is reduced to an eighth of a turn in double: the
// polynomials are exact to f32 there.
__device__ __forceinline__ void sine(const Turn &t, double angle, float &sn, float &cs) {
  double quarters = rint(angle * 0.6366197723675814);
  float x = (float)fma(quarters, -1.5707963267948966, angle), z = x * x;
  float s = ((-1.9515296e-4f * z + 8.3321609e-3f) * z - 1.6666655e-1f) * z * x + x;
  float c = ((2.4433157e-5f * z - 1.3887316e-3f) * z + 4.1666646e-2f) * z * z - 0.5f * z + 1;
  int n = (int)quarters;
  sn = n & 1 ? c : s, cs = n & 1 ? s : c;
  if ((n & 2) != 0 != (t.inverse != 0)) sn = -sn;
  if (n + 1 & 2) cs = -cs;
  sn *= t.magnitude, cs *= t.magnitude;
}

// The angle of pair p of row t.
__device__ __forceinline__ void angle(const Turn &t, int row, int p, float &sn, float &cs) {
  int half = t.rot / 2, len = t.length ? t.length[row] : 0, far = t.context > 0 && len > t.context;
  double f = t.freqs[far ? half + p : p];
  if (t.stretch > 0 && far && t.rot > 2) f *= stretched(t.stretch, len, t.context, t.rot, p);
  sine(t, t.pos[row] * f, sn, cs);
}

// A thread takes a pair of each of some heads: a grid row per so many.
KERNEL k_rope(STAMP, const int *bind, Dim rows, int cols, Out y, const float *x, Turn r) {
  int half = r.rot / 2, heads = cols / r.head, per = (heads + gridDim.y - 1) / gridDim.y;
  u64 n = (u64)size(rows, bind) * half;
  grid_wait();
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
    int t = i / half, p = i % half, a = r.interleaved ? 2 * p : p, b = r.interleaved ? 2 * p + 1 : p + half;
    float sn, cs;
    angle(r, t, p, sn, cs);
    for (int h = blockIdx.y * per; h < min(heads, (int)(blockIdx.y + 1) * per); h++) {
      u64 o = (u64)t * cols + h * r.head;
      float u = x[o + a], v = x[o + b];
      put(y, o + a, u * cs - v * sn);
      put(y, o + b, v * cs + u * sn);
      if (x != y.f) // what does not rotate is copied, shared among the pairs
        for (int e = r.rot + p; e < r.head; e += half) put(y, o + e, x[o + e]);
    }
  }
}

// k, rotated, and v into rows of the cache, in f32 or f16.
KERNEL k_rope_kv(STAMP, const int *bind, Dim rows, int cols, u8 *ks, u8 *vs, int type, const float *k, const float *v, const int *slots, Turn r) {
  grid_wait();
  auto keep = [&](u8 *cache, u64 i, float x) {
    if (type == F32) ((float *)cache)[i] = x;
    else ((u16 *)cache)[i] = float_to_half(x);
  };
  int half = r.head / 2, pairs = cols / 2;
  u64 n = (u64)size(rows, bind) * pairs;
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
    int t = i / pairs, h = i % pairs / half, p = i % half, a, b;
    u64 from = (u64)t * cols, to = (u64)slots[t] * cols;
    float sn = 0, cs = 1;
    if (p < r.rot / 2) {
      a = r.interleaved ? 2 * p : p, b = r.interleaved ? 2 * p + 1 : p + r.rot / 2;
      angle(r, t, p, sn, cs);
    } else a = r.rot + 2 * (p - r.rot / 2), b = a + 1;
    a += h * r.head, b += h * r.head;
    float x = k[from + a], y = k[from + b];
    keep(ks, to + a, x * cs - y * sn);
    keep(ks, to + b, y * cs + x * sn);
    keep(vs, to + 2 * (i % pairs), v[from + 2 * (i % pairs)]);
    keep(vs, to + 2 * (i % pairs) + 1, v[from + 2 * (i % pairs) + 1]);
  }
}

KERNEL k_positions(STAMP, const int *bind, Dim seqs, int *y, const int *tokens, const int *start, int pad) {
  grid_wait();
  int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= size(seqs, bind)) return;
  for (int t = start[s], count = 0; t < start[s + 1]; t++) y[t] = tokens[t] == pad ? 0 : ++count;
}

// Activations to the accuracy of bf16.
__device__ __forceinline__ float act_fast(int kind, float x) {
  switch (kind) {
  // max(x, 0) - |x| times the weight that x gets if it is negative. Polynomials are of
  // that weight's logarithm: errors of up to 6e-7 and 5e-6.
  case GELU: {
    float z = fabsf(x);
    return fmaxf(x, 0) - z * exp2_fast(-1.000046f + z * (-1.1507425f + z * (-0.46007225f + z * (-0.051767521f + z * (0.0070649143f + z * -0.00047101683f)))));
  }
  case GELU_TANH: {
    float z = fabsf(x);
    return fmaxf(x, 0) - z * exp2_fast(-1.000386f + z * (-1.1482669f + z * (-0.46525022f + z * (-0.047609344f + z * (0.0088471929f + z * -0.0019996013f)))));
  }
  case QUICK_GELU: return __fdividef(x, 1 + __expf(-1.702f * x));
  case SILU: return __fdividef(x, 1 + __expf(-x));
  case RELU: return fmaxf(x, 0);
  case TANH: return 1 - __fdividef(2, 1 + __expf(2 * x));
  }
  return __fdividef(1, 1 + __expf(-x));
}

template <int KIND, int N> __device__ __forceinline__ void act_each(float *d) {
#pragma unroll
  for (int i = 0; i < N; i++) d[i] = act_fast(KIND, d[i]);
}

// An activation of N values in registers; kind -1: none.
template <int N> __device__ __forceinline__ void act_all(int kind, float *d) {
  switch (kind) {
  case GELU: return act_each<GELU, N>(d);
  case GELU_TANH: return act_each<GELU_TANH, N>(d);
  case QUICK_GELU: return act_each<QUICK_GELU, N>(d);
  case SILU: return act_each<SILU, N>(d);
  case RELU: return act_each<RELU, N>(d);
  case TANH: return act_each<TANH, N>(d);
  case SIGMOID: return act_each<SIGMOID, N>(d);
  }
}

// The slope of an activation to the accuracy of bf16.
__device__ __forceinline__ float slope_fast(int kind, float x) {
  switch (kind) {
  case GELU: {
    float z = fabsf(x), w = exp2_fast(-1.000046f + z * (-1.1507425f + z * (-0.46007225f + z * (-0.051767521f + z * (0.0070649143f + z * -0.00047101683f)))));
    return (x > 0 ? 1 - w : w) + x * __expf(-x * x / 2) * 0.3989422804014327f;
  }
  case GELU_TANH: {
    float u = 1.5957691216057308f * (x + 0.044715f * x * x * x), s = __fdividef(1, 1 + __expf(-u)); // (1 + tanh(u/2)) / 2
    return s + x * s * (1 - s) * 1.5957691216057308f * (1 + 3 * 0.044715f * x * x);
  }
  case SILU: {
    float s = __fdividef(1, 1 + __expf(-x));
    return s + x * s * (1 - s);
  }
  }
  return act_slope(kind, x);
}

template <int KIND> __device__ __forceinline__ void slopes(float (&v)[8]) {
#pragma unroll
  for (int e = 0; e < 8; e++) v[e] = slope_fast(KIND, v[e]);
}

// Eight neighbours of rows in f32 or bf16.
__device__ __forceinline__ void get8(float (&v)[8], const In &x, u64 i) {
  if (x.half) return unpack8<BF16>(v, *(const uint4 *)((const u16 *)x.p + i));
  float4 a = *(const float4 *)((const float *)x.p + i), b = *(const float4 *)((const float *)x.p + i + 4);
  v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}
__device__ __forceinline__ uint4 pack8(const float (&v)[8]) { return {bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3]), bf16_pair(v[4], v[5]), bf16_pair(v[6], v[7])}; }

// Results in bf16 alone have an activation of that accuracy; n is a multiple of 8 then.
KERNEL k_act(STAMP, const int *bind, Dim rows, int cols, Out y, In x, int kind) {
  u64 n = (u64)size(rows, bind) * cols, first = blockIdx.x * (u64)blockDim.x + threadIdx.x, all = (u64)gridDim.x * blockDim.x;
  grid_wait();
  if (y.f) {
    for (u64 i = first; i < n; i += all) put(y, i, act(kind, get(x, i)));
    return;
  }
  for (u64 i = first; i < n / 8; i += all) {
    float v[8];
    get8(v, x, 8 * i);
    act_all<8>(kind, v);
    ((uint4 *)y.h)[i] = pack8(v);
  }
}

KERNEL k_act_grad(STAMP, const int *bind, Dim rows, int cols, Out dx, In x, In dy, int kind) {
  u64 n = (u64)size(rows, bind) * cols, first = blockIdx.x * (u64)blockDim.x + threadIdx.x, all = (u64)gridDim.x * blockDim.x;
  grid_wait();
  if (dx.f) {
    for (u64 i = first; i < n; i += all) put(dx, i, act_slope(kind, get(x, i)) * get(dy, i));
    return;
  }
  for (u64 i = first; i < n / 8; i += all) {
    float v[8], d[8];
    get8(v, x, 8 * i);
    get8(d, dy, 8 * i);
    switch (kind) {
    case GELU: slopes<GELU>(v); break;
    case GELU_TANH: slopes<GELU_TANH>(v); break;
    case SILU: slopes<SILU>(v); break;
    default:
      for (int e = 0; e < 8; e++) v[e] = act_slope(kind, v[e]);
    }
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] *= d[e];
    ((uint4 *)dx.h)[i] = pack8(v);
  }
}

// f32 as bf16, in rows of a multiple of 8 values: zeros fill them up.
KERNEL k_round(STAMP, const int *bind, Dim rows, int cols, u16 *y, const float *x, int stride) {
  u64 parts = stride / 8, n = (u64)size(rows, bind) * parts;
  bool whole = cols == stride;
  grid_wait();
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
    float v[8];
    if (whole) {
      float4 a = ((const float4 *)x)[2 * i], b = ((const float4 *)x)[2 * i + 1];
      v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    } else {
      u64 r = i / parts;
      int c = i % parts * 8;
      for (int e = 0; e < 8; e++) v[e] = c + e < cols ? x[r * cols + c + e] : 0;
    }
    ((uint4 *)y)[i] = {bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3]), bf16_pair(v[4], v[5]), bf16_pair(v[6], v[7])};
  }
}

KERNEL k_accumulate(STAMP, const int *bind, Dim rows, int cols, float *sum, const float *g, const float *keep) { EACH(i) sum[i] = keep[0] == 0 ? g[i] : sum[i] + g[i]; }

// The output function of SplitMix64.
__device__ __forceinline__ u64 mix64(u64 z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

// Which elements are dropped depends on the key, the salt and their place alone.
KERNEL k_dropout(STAMP, const int *bind, Dim rows, int cols, float *y, const float *x, const u32 *key, u32 salt) {
  const u64 golden = 0x9e3779b97f4a7c15ull;
  EACH(i) {
    float p = __uint_as_float(key[2]);
    u64 base = mix64((key[0] | (u64)key[1] << 32) + salt * golden), below = (u64)((double)p * 4294967296.0);
    u32 word = (u32)(mix64(base + (i >> 1) * golden) >> (32 * (i & 1)));
    y[i] = below == 0 ? x[i] : (word < below ? 0 : x[i]) * (1 / (1 - p));
  }
}

// Heads of queries and keys on their way to attention: their norm and their rotation
// in one pass. A lane holds pairs of elements that rotate together.

// HeadNorm is the norm of each head by one weight for all; w 0: none.
struct HeadNorm {
  const float *w, *bias;
  float eps, offset;
  int rms;
};

// Pairs is P neighbours of the first half of a head and P of the second.
template <int P> struct Pairs {
  float x[2][P];
};

// Elements at + i and at + half + i of x, for i < P; 0 from half on. Rows begin at
// multiples of 16 bytes.
template <int P> __device__ __forceinline__ Pairs<P> pairs_of(const In &x, u64 row, int at, int half) {
  Pairs<P> r = {};
  if (at < half)
#pragma unroll
    for (int s = 0; s < 2; s++) {
      u64 o = row + at + s * half;
      if (P == 4) {
        float4 v = four_of(x.p, x.half, o);
        r.x[s][0] = v.x, r.x[s][1 % P] = v.y, r.x[s][2 % P] = v.z, r.x[s][3 % P] = v.w;
      } else if (P == 2 && x.half) {
        u32 u = *(const u32 *)((const u16 *)x.p + o);
        r.x[s][0] = bf16_to_float(u), r.x[s][1 % P] = bf16_to_float(u >> 16);
      } else if (P == 2) {
        float2 v = *(const float2 *)((const float *)x.p + o);
        r.x[s][0] = v.x, r.x[s][1 % P] = v.y;
      } else r.x[s][0] = get(x, o);
    }
  return r;
}

// Norms N heads of 2 half values each over the warp, where there is a norm; per is
// 1 / (2 half). The first head has the norm a, others have b. w and bias are the lane's
// pairs of those. Sums of all heads are under way together.
template <int N, int P> __device__ __forceinline__ void norm_heads(Pairs<P> (&v)[N], const HeadNorm &a, const HeadNorm &b, const Pairs<P> (&w)[2], const Pairs<P> (&bias)[2], int at, int half, float per) {
  if (!a.w && !b.w) return;
#pragma unroll
  for (int h = 0; h < N; h++) {
    const HeadNorm &n = h ? b : a;
    if (!n.w || n.rms) continue;
    float mean = 0;
#pragma unroll
    for (int i = 0; i < P; i++) mean += v[h].x[0][i] + v[h].x[1][i];
    mean = warp_sum(mean) * per;
#pragma unroll
    for (int i = 0; i < 2 * P; i++)
      if (at < half) v[h].x[i / P][i % P] -= mean;
  }
  float sq[N];
#pragma unroll
  for (int h = 0; h < N; h++) {
    sq[h] = 0;
#pragma unroll
    for (int i = 0; i < P; i++) sq[h] += v[h].x[0][i] * v[h].x[0][i] + v[h].x[1][i] * v[h].x[1][i];
  }
#pragma unroll
  for (int o = 16; o; o >>= 1)
#pragma unroll
    for (int h = 0; h < N; h++) sq[h] += __shfl_xor_sync(~0u, sq[h], o);
#pragma unroll
  for (int h = 0; h < N; h++) {
    const HeadNorm &n = h ? b : a;
    if (!n.w) continue;
    float rstd = rsqrtf(sq[h] * per + n.eps);
#pragma unroll
    for (int i = 0; i < 2 * P; i++) v[h].x[i / P][i % P] = v[h].x[i / P][i % P] * rstd * (w[h > 0].x[i / P][i % P] + n.offset) + bias[h > 0].x[i / P][i % P];
  }
}

template <int P> __device__ __forceinline__ void turn_head(Pairs<P> &v, const float (&sn)[P], const float (&cs)[P]) {
#pragma unroll
  for (int i = 0; i < P; i++) {
    float x = v.x[0][i], y = v.x[1][i];
    v.x[0][i] = x * cs[i] - y * sn[i], v.x[1][i] = y * cs[i] + x * sn[i];
  }
}

// The lane's angles at a position; without a rotation those of 0.
template <int P> __device__ __forceinline__ void angles(const Turn &r, const double (&freqs)[P], int pos, float (&sn)[P], float (&cs)[P]) {
#pragma unroll
  for (int i = 0; i < P; i++) {
    sn[i] = 0, cs[i] = 1;
    if (r.freqs) sine(r, pos * freqs[i], sn[i], cs[i]);
  }
}

// The lane's frequencies. Texts of any length have the same.
template <int P> __device__ __forceinline__ void frequencies(const Turn &r, int at, double (&freqs)[P]) {
#pragma unroll
  for (int i = 0; i < P; i++) freqs[i] = r.freqs && at < r.rot / 2 ? r.freqs[at + i] : 0;
}

// A warp per row: norms and rotates heads of D values of q and k, which rotate as a
// whole. A grid row per so many heads.
template <int D> __device__ __forceinline__ void heads(STAMP, const int *bind, Dim rows, int heads, int kv_heads, Out qy, Out ky, In q, In k, const HeadNorm &qn, const HeadNorm &kn, const Turn &r) {
  constexpr int P = D / 64;
  int t = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, at = threadIdx.x % 32 * P, all = heads + kv_heads, per = (all + gridDim.y - 1) / gridDim.y;
  if (t >= size(rows, bind)) {
    grid_wait();
    return;
  }
  float sn[P], cs[P];
  double freqs[P];
  frequencies(r, at, freqs);
  angles(r, freqs, r.pos[t], sn, cs);
  auto at_row = [&](int h) { return h >= heads ? ((u64)t * kv_heads + h - heads) * D : ((u64)t * heads + h) * D; };
  grid_wait();
  int end = min(all, (int)(blockIdx.y + 1) * per);
  Pairs<P> v[1], next;
  for (int h = blockIdx.y * per; h < end; h++) {
    bool key = h >= heads;
    if (h == blockIdx.y * per) next = pairs_of<P>(key ? k : q, at_row(h), at, D / 2);
    v[0] = next;
    if (h + 1 < end) next = pairs_of<P>(h + 1 >= heads ? k : q, at_row(h + 1), at, D / 2);
    HeadNorm a = qn;
    if (key) a = kn;
    Pairs<P> w[2] = {}, bias[2] = {};
    if (a.w) w[0] = pairs_of<P>({a.w, 0}, 0, at, D / 2);
    if (a.bias) bias[0] = pairs_of<P>({a.bias, 0}, 0, at, D / 2);
    norm_heads(v, a, a, w, bias, at, D / 2, 1.0f / D);
    turn_head(v[0], sn, cs);
    u64 row = at_row(h);
    Out y = key ? ky : qy;
#pragma unroll
    for (int s = 0; s < 2; s++) {
      u64 o = row + at + s * (D / 2);
      if (P == 4) {
        if (y.f) *(float4 *)(y.f + o) = {v[0].x[s][0], v[0].x[s][1 % P], v[0].x[s][2 % P], v[0].x[s][3 % P]};
        if (y.h) *(uint2 *)(y.h + o) = {bf16_pair(v[0].x[s][0], v[0].x[s][1 % P]), bf16_pair(v[0].x[s][2 % P], v[0].x[s][3 % P])};
      } else if (P == 2) {
        if (y.f) *(float2 *)(y.f + o) = {v[0].x[s][0], v[0].x[s][1 % P]};
        if (y.h) *(u32 *)(y.h + o) = bf16_pair(v[0].x[s][0], v[0].x[s][1 % P]);
      } else put(y, o, v[0].x[s][0]);
    }
  }
}

#define HEADS(D)                                                                                                                                                          \
  KERNEL __launch_bounds__(256) k_heads_##D(STAMP, const int *bind, Dim rows, int q_heads, int kv_heads, Out qy, Out ky, In q, In k, HeadNorm qn, HeadNorm kn, Turn r) { \
    heads<D>(stamp_, bind, rows, q_heads, kv_heads, qy, ky, q, k, qn, kn, r);                                                                                              \
  }
HEADS(64)
HEADS(128)
HEADS(256)

// Attention of up to 16 rows in all: a block per query and head, whose warps take 2 keys
// and values each. Heads of up to 256 values, a multiple of 8: a lane holds 4 pairs. Norms
// and rotation, where there are any, are of q and k on their way.
KERNEL __launch_bounds__(256, 2) k_attention_heads(STAMP, const int *bind, Dim rows, Dim seqs, Mask a, float *out, float *lse, In q, In k, In v, const int *start, HeadNorm qn, HeadNorm kn, Turn r) {
  __shared__ float scores[16];
  __shared__ __align__(16) float sums[8][256]; // a warp's part of the result, both halves in 128 values each
  int total = size(rows, bind), ns = size(seqs, bind), h = blockIdx.x, i = blockIdx.y, d = a.head, half = d / 2, lane = threadIdx.x % 32, warp = threadIdx.x / 32, at = lane * 4;
  if (i >= total) {
    grid_wait();
    return;
  }
  // Keys behind the last row are that row; no query sees them.
  u64 kv = h / (a.heads / a.kv_heads), t[3] = {(u64)i, (u64)min(warp, total - 1), (u64)min(warp + 8, total - 1)};
  Pairs<4> w[2] = {}, bias[2] = {}, x[3], y[2]; // queries, then keys
  float sn[3][4], cs[3][4], slope = a.alibi ? alibi_slope(a, h) : 0, per = 1.0f / d;
  double freqs[4];
  int pos[3];
  frequencies(r, at, freqs);
#pragma unroll
  for (int e = 0; e < 3; e++) pos[e] = r.freqs ? r.pos[t[e]] : 0;
  if (qn.w) w[0] = pairs_of<4>({qn.w, 0}, 0, at, half);
  if (kn.w) w[1] = pairs_of<4>({kn.w, 0}, 0, at, half);
  if (qn.bias) bias[0] = pairs_of<4>({qn.bias, 0}, 0, at, half);
  if (kn.bias) bias[1] = pairs_of<4>({kn.bias, 0}, 0, at, half);
  int s = sequence_of_warp(start, ns, i), q0 = start[s], q1 = start[s + 1], lo = 0, hi = 0;
  if (i >= q0 && i < q1) visible(a, i - q0, q1 - q0, lo, hi);
#pragma unroll
  for (int e = 0; e < 3; e++) angles(r, freqs, pos[e], sn[e], cs[e]);
  u32 clock = grid_wait_clock();
#pragma unroll
  for (int e = 0; e < 3; e++) {
    x[e] = pairs_of<4>(e ? k : q, e ? (t[e] * a.kv_heads + kv) * d : (t[e] * a.heads + h) * d, at, half);
    if (e) y[e - 1] = pairs_of<4>(v, (t[e] * a.kv_heads + kv) * d, at, half);
  }
  grid_stamp(clock);
  norm_heads(x, qn, kn, w, bias, at, half, per);
#pragma unroll
  for (int e = 0; e < 3; e++) turn_head(x[e], sn[e], cs[e]);
  float dot[2] = {};
#pragma unroll
  for (int e = 0; e < 2; e++) {
#pragma unroll
    for (int c = 0; c < 8; c++) dot[e] += x[0].x[c / 4][c % 4] * x[e + 1].x[c / 4][c % 4];
    dot[e] = warp_sum(dot[e]);
  }
  if (lane == 0) scores[warp] = dot[0], scores[warp + 8] = dot[1];
  __syncthreads();
  // Lanes j and j + 16 have the score of key j: sums over 16 lanes are of all keys.
  int j = lane % 16 - q0;
  float z = -INF, top, p, sum;
  if (j >= lo && j < hi) z = final_score(a, scores[lane % 16], slope, j);
  top = z;
#pragma unroll
  for (int o = 8; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
  sum = p = z == -INF ? 0 : expf(z - top);
#pragma unroll
  for (int o = 8; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  if (lse && threadIdx.x == 0) lse[(u64)i * a.heads + h] = sum > 0 ? top + logf(sum) : -INF;
  p = sum > 0 ? p / sum : 0;
  float p0 = __shfl_sync(~0u, p, warp), p1 = __shfl_sync(~0u, p, warp + 8);
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const float *f = y[0].x[e], *g = y[1].x[e];
    *(float4 *)&sums[warp][e * 128 + at] = {p0 * f[0] + p1 * g[0], p0 * f[1] + p1 * g[1], p0 * f[2] + p1 * g[2], p0 * f[3] + p1 * g[3]};
  }
  __syncthreads();
  int c = threadIdx.x % 128;
  if (c >= half) return;
  float u[8];
#pragma unroll
  for (int e = 0; e < 8; e++) u[e] = sums[e][threadIdx.x];
  out[((u64)i * a.heads + h) * d + threadIdx.x / 128 * half + c] = u[0] + u[1] + (u[2] + u[3]) + (u[4] + u[5] + (u[6] + u[7]));
}

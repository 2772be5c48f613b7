// Products of a single row, with what comes before and after them in a decoder: a
// residual sum and its norm, rotation and the way into the cache. Two lanes' rows
// of weights per warp, or per several that share k. Weights are asked for before
// the kernels before this one have ended.

// One is what a step of a single row computes. At most three parts.
struct One {
  const float *x, *add; // [k]; x + add is normed, add may be 0
  float *sum;           // [k] x + add, or 0
  const float *nw, *nb; // [k] weight and bias of the norm
  const u8 *w[3];       // [n,k]
  float *y[3];          // [n], 0 where results go into the cache
  const float *bias[3];
  u8 *cache[3]; // of keys or values, or 0
  const int *slots;
  Turn turn[3];
  int n[3];
  int parts, k, glu, act;
  int norm; // 0: none, 1: RMS, 2: layer
  float eps, offset;
  int kv;    // type of the cache: F32 or F16
  int split; // warps that share the k of two rows
  int early; // weights are there before the kernels before this one have ended
  // Of streamed weights: groups of warps that share, warp * inverse >> 16 is warp /
  // split, and pairs of a block, of which the first rest blocks take one more.
  int groups, inverse, quota, rest;
  int stages, pitch; // of the ring of codes.cu: rounds, and bytes from row to row
  int codes; // bits: READ_CODES: x is a row of codes, WRITE_CODES: y is (codes.cu)
};
enum { READ_CODES = 1, WRITE_CODES = 2 };

// Values 8i to 8i+7 of a row whose length is a multiple of 8.
template <int TYPE> __device__ __forceinline__ void load8(float *v, const u8 *row, int i) {
  if (TYPE == F32) {
    float4 a = ((const float4 *)row)[2 * i], b = ((const float4 *)row)[2 * i + 1];
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
  } else if (TYPE == F16 || TYPE == BF16) unpack8<TYPE>(v, ((const uint4 *)row)[i]);
  else part8<TYPE>(v, row, i);
}

// Sixteen codes of a row with one scale; m is what is added to each, where the type
// has it. Q4: bytes hold a code of the first half of a block and one of the second.
struct Codes {
  u32 u[4];
  float d, m;
};

template <int TYPE> __device__ __forceinline__ Codes codes_at(const u8 *row, int c) {
  Codes q;
  int h = c % 2;
  q.m = 0;
  if (TYPE == Q4_1) {
    const u32 *b = (const u32 *)(row + c / 2 * 20);
    u32 dm = b[0];
    q.d = half_to_float(dm), q.m = half_to_float(dm >> 16);
    q.u[0] = b[1 + 2 * h], q.u[1] = b[2 + 2 * h];
  } else {
    const u16 *b = (const u16 *)(row + c / 2 * (TYPE == Q8_0 ? 34 : 18)), *s = b + 1 + h * (TYPE == Q8_0 ? 8 : 4);
    q.d = half_to_float(b[0]);
#pragma unroll
    for (int e = 0; e < (TYPE == Q8_0 ? 4 : 2); e++) q.u[e] = s[2 * e] | (u32)s[2 * e + 1] << 16;
  }
  return q;
}

// The dot product of codes with x, which has 16 values. A code becomes the low bits
// of 2^23 as a float: conversions of integers are slow.
template <int TYPE> __device__ __forceinline__ float dot_codes(const Codes &q, const float4 (&x)[4]) {
  const float *v = (const float *)x;
  float dot = 0, sum = 0;
#pragma unroll
  for (int e = 0; e < (TYPE == Q8_0 ? 4 : 2); e++) {
    u32 u = TYPE == Q8_0 ? q.u[e] ^ 0x80808080u : q.u[e];
#pragma unroll
    for (int j = 0; j < 4; j++) {
      if (TYPE == Q8_0) dot += (__uint_as_float(__byte_perm(u, 0x4b000000, 0x7650 | j)) - 8388736.0f) * v[4 * e + j];
      else {
        const float zero = TYPE == Q4_0 ? 8388616.0f : 8388608.0f;
        dot += (__uint_as_float(((u >> (8 * j)) & 15) | 0x4b000000) - zero) * v[4 * e + j];
        dot += (__uint_as_float(((u >> (8 * j + 4)) & 15) | 0x4b000000) - zero) * v[8 + 4 * e + j];
        if (TYPE == Q4_1) sum += v[4 * e + j] + v[8 + 4 * e + j];
      }
    }
  }
  return q.d * dot + q.m * sum;
}

// Eight values of 16 bits that are read once. It is issued where it stands: before the
// wait for other kernels, or a round ahead of its use.
__device__ __forceinline__ uint4 load_once(const uint4 *p) {
  uint4 u;
  asm volatile("ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(u.x), "=r"(u.y), "=r"(u.z), "=r"(u.w) : "l"(p));
  return u;
}

// Two rows of weights that give two results: neighbours, a pair that rotates
// together, or a gate and what it gates.
struct Pair {
  const u8 *w[2];
  int part, r[2], turn; // turn: which pair of its head rotates, -1: none
  bool live;
};

template <int TYPE> __device__ __forceinline__ Pair pair_at(const One &p, int i) {
  Pair a;
  u64 stride = row_bytes(TYPE, p.k);
  a.part = 0, a.turn = -1;
  while (a.part + 1 < p.parts && !p.glu && i >= (p.n[a.part] + 1) / 2) i -= (p.n[a.part++] + 1) / 2;
  const Turn &t = p.turn[a.part];
  int n = p.n[a.part];
  a.live = i < (p.glu ? n : (n + 1) / 2);
  if (!a.live) i = 0;
  if (p.glu) {
    a.r[0] = a.r[1] = i;
    a.w[0] = p.w[0] + i * stride, a.w[1] = p.w[1] + i * stride;
    return a;
  }
  a.r[0] = 2 * i, a.r[1] = min(2 * i + 1, n - 1);
  if (t.freqs) {
    int half = t.head / 2, h = i / half, e = i % half;
    if (e < t.rot / 2) {
      a.turn = e;
      a.r[0] = h * t.head + (t.interleaved ? 2 * e : e), a.r[1] = a.r[0] + (t.interleaved ? 1 : t.rot / 2);
    } else a.r[0] = h * t.head + t.rot + 2 * (e - t.rot / 2), a.r[1] = a.r[0] + 1;
  }
  a.w[0] = p.w[a.part] + a.r[0] * stride, a.w[1] = p.w[a.part] + a.r[1] * stride;
  return a;
}

__device__ __noinline__ float act_one(int kind, float x) { return act(kind, x); }

// End is what becomes of the two sums of a pair in a row of x: all of it that can be
// known before they are.
struct End {
  float *y;  // where the first result goes, or 0
  u8 *cache; // the same in the cache, or 0
  int apart; // values from the first result to the second; 0: there is only one
  bool live, turns;
  float bias[2], sn, cs;
};

__device__ __forceinline__ End end_of(const One &p, const Pair &a, int row) {
  End e = {0, 0, p.glu ? 0 : a.r[1] - a.r[0], a.live, a.turn >= 0, {0, 0}, 0, 1};
  int n = p.n[a.part];
  if (const float *bias = p.bias[a.part]) e.bias[0] = bias[a.r[0]];
  if (const float *bias = p.bias[p.glu ? 1 : a.part]) e.bias[1] = bias[a.r[1]];
  if (float *y = p.y[a.part]) e.y = y + (u64)row * n + a.r[0];
  if (u8 *cache = p.cache[a.part]) e.cache = cache + ((u64)p.slots[row] * n + a.r[0]) * (p.kv == F32 ? 4 : 2);
  if (e.turns) angle(p.turn[a.part], row, a.turn, e.sn, e.cs);
  return e;
}

// The gated result of a pair.
__device__ __forceinline__ float gated(const One &p, const End &e, float u, float v) {
  u += e.bias[0], v += e.bias[1];
  return (p.act == SILU ? __fdividef(u, 1 + __expf(-u)) : act_one(p.act, u)) * v;
}

__device__ __forceinline__ void end_sums(const One &p, const End &e, float u, float v) {
  if (p.glu) {
    *e.y = gated(p, e, u, v);
    return;
  }
  u += e.bias[0], v += e.bias[1];
  if (p.act >= 0) u = act_one(p.act, u), v = act_one(p.act, v);
  if (e.turns) {
    float x = u;
    u = x * e.cs - v * e.sn, v = v * e.cs + x * e.sn;
  }
  if (e.apart == 0) v = u;
  if (e.y) e.y[0] = u, e.y[e.apart] = v;
  if (!e.cache) return;
  if (p.kv == F32) ((float *)e.cache)[0] = u, ((float *)e.cache)[e.apart] = v;
  else ((u16 *)e.cache)[0] = float_to_half(u), ((u16 *)e.cache)[e.apart] = float_to_half(v);
}

// Where four e of a thread begins.
template <int THREADS> __device__ __forceinline__ int four_at(int thread, int e) { return 4 * (thread + THREADS * e); }

// Values of x + add from first on, of which a thread takes PER fours; 0 behind the last.
// The loads of BATCH fours are under way together.
template <int THREADS, int BATCH, int PER> __device__ __forceinline__ void row_of(float4 (&v)[PER], const One &p, int first) {
#pragma unroll
  for (int e = 0; e < PER; e++) v[e] = {0, 0, 0, 0};
#pragma unroll
  for (int e = 0; e < PER; e += BATCH) {
    if (first + four_at<THREADS>(0, e) >= p.k) break; // for all threads
    float4 u[BATCH];
#pragma unroll
    for (int h = 0; h < BATCH; h++) {
      int i = first + four_at<THREADS>(threadIdx.x, e + h);
      u[h] = {0, 0, 0, 0};
      if (i >= p.k) continue;
      v[e + h] = *(const float4 *)(p.x + i);
      if (p.add) u[h] = *(const float4 *)(p.add + i);
    }
    if (p.add)
#pragma unroll
      for (int h = 0; h < BATCH; h++) v[e + h].x += u[h].x, v[e + h].y += u[h].y, v[e + h].z += u[h].z, v[e + h].w += u[h].w;
  }
}

// Subtracts the mean of a whole row where the norm does, and gives the factor of the
// norm. The first block writes the row to sum before.
template <int THREADS, int PER> __device__ __forceinline__ float centred(float4 (&v)[PER], const One &p) {
  float mean = 0, sq = 0;
  if (p.norm == 2) {
#pragma unroll
    for (int e = 0; e < PER; e++) mean += v[e].x + v[e].y + v[e].z + v[e].w;
    mean = block_sum(mean) / p.k;
  }
#pragma unroll
  for (int e = 0; e < PER; e++) {
    int i = four_at<THREADS>(threadIdx.x, e);
    if (i >= p.k) break;
    if (p.sum && blockIdx.x == 0) *(float4 *)(p.sum + i) = v[e];
    v[e].x -= mean, v[e].y -= mean, v[e].z -= mean, v[e].w -= mean;
    sq += v[e].x * v[e].x + v[e].y * v[e].y + v[e].z * v[e].z + v[e].w * v[e].w;
  }
  return 1 / sqrtf(block_sum(sq) / p.k + p.eps);
}

// Four values of a norm from i on, with its gain.
__device__ __forceinline__ float4 scaled(const One &p, int i, float4 v, float4 g, float rstd) {
  float4 r = {v.x * rstd * (g.x + p.offset), v.y * rstd * (g.y + p.offset), v.z * rstd * (g.z + p.offset), v.w * rstd * (g.w + p.offset)};
  if (!p.nb) return r;
  float4 b = *(const float4 *)(p.nb + i);
  return {r.x + b.x, r.y + b.y, r.z + b.z, r.w + b.w};
}

// x + add, normed where there is a norm, handed to put by fours of k, a multiple of 4;
// at most 8192 where there is a norm. Waits for the kernels before this one if weights
// may be read before that: gains are.
template <int THREADS, class PUT> __device__ __forceinline__ void normed(STAMP, const One &p, PUT put) {
  constexpr int PER = 2048 / THREADS;
#pragma unroll 1
  for (int first = 0; first < p.k; first += 8192) {
    float4 v[PER], gain[PER];
#pragma unroll
    for (int e = 0; e < PER; e++) {
      int i = first + 4 * (threadIdx.x + THREADS * e);
      gain[e] = p.norm && i < p.k ? *(const float4 *)(p.nw + i) : float4{0, 0, 0, 0};
    }
    if (p.early && first == 0) grid_wait();
    row_of<THREADS, 1>(v, p, first);
    float rstd = p.norm ? centred<THREADS>(v, p) : 1;
#pragma unroll
    for (int e = 0; e < PER; e++) {
      int i = first + 4 * (threadIdx.x + THREADS * e);
      if (i >= p.k) break;
      put(i, p.norm ? scaled(p, i, v[e], gain[e], rstd) : v[e]);
    }
  }
}

// The norm of a row in shared memory, by 256 threads. Gains come there by asynchronous
// copies before the kernels before this one have ended: registers hold weights then.
__device__ __forceinline__ void own_norm(STAMP, const One &p, float *xs) {
#pragma unroll 1
  for (int i = 4 * threadIdx.x; i < p.k; i += 1024) asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(smem_at(xs + i)), "l"(p.nw + i) : "memory");
  if (p.early) grid_wait();
  float4 v[8];
  row_of<256, 2>(v, p, 0);
  float rstd = centred<256>(v, p);
  asm volatile("cp.async.wait_all;" ::: "memory"); // a thread reads what it copied
#pragma unroll
  for (int e = 0; e < 8; e++) {
    int i = 4 * threadIdx.x + 1024 * e;
    if (i >= p.k) break;
    *(float4 *)(xs + i) = scaled(p, i, v[e], *(const float4 *)(xs + i), rstd);
  }
  __syncthreads();
}

// A block of 8 warps takes pairs of rows in turns, each by as many warps as share k.
template <int TYPE> __device__ __forceinline__ void one(STAMP, const One &p) {
  extern __shared__ __align__(16) float xs[]; // [k], where there is a norm
  __shared__ float sums[8][2];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, share = warp % p.split, groups = 8 / p.split, pairs = p.glu ? p.n[0] : 0;
  for (int i = 0; i < p.parts && !p.glu; i++) pairs += (p.n[i] + 1) / 2;
  int begin = blockIdx.x * groups + warp / p.split, turns = (pairs - (int)blockIdx.x * groups + gridDim.x * groups - 1) / (gridDim.x * groups);
  int chunks = p.k / 8, step = 32 * p.split, at = share * 32 + lane;
  bool wide = p.k % 8 == 0;
  constexpr bool BITS16 = TYPE == F16 || TYPE == BF16, CODES = TYPE == Q8_0 || TYPE == Q4_0 || TYPE == Q4_1;
  constexpr int AHEAD = 4;
  uint4 next[AHEAD][2];
  auto load = [&](const Pair &a, int first) {
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
#pragma unroll
      for (int r = 0; r < 2; r++)
        if (first + u * step < chunks) next[u][r] = load_once((const uint4 *)a.w[r] + first + u * step);
  };
  Pair a = pair_at<TYPE>(p, begin), b = a;
  if (!p.early) grid_wait();
  if (BITS16 && wide) load(a, at);
  else if (p.early)
    for (u64 o = at * 128; o < row_bytes(TYPE, p.k); o += step * 128)
      for (int r = 0; r < 2; r++) asm volatile("prefetch.global.L2 [%0];" ::"l"(a.w[r] + o));
  if (p.norm) own_norm(stamp_, p, xs);
  else if (p.early) grid_wait();
  const float *xf = p.norm ? xs : p.x;
  const float4 *x = (const float4 *)xf;

  for (int t = 0; t < turns; t++, a = b) {
    if (t + 1 < turns) b = pair_at<TYPE>(p, begin + (t + 1) * gridDim.x * groups);
    float acc[2] = {0, 0};
    auto fold = [&](const float *v, int c, int r) {
      float4 lo = x[2 * c], hi = x[2 * c + 1];
      acc[r] += v[0] * lo.x + v[1] * lo.y + v[2] * lo.z + v[3] * lo.w + v[4] * hi.x + v[5] * hi.y + v[6] * hi.z + v[7] * hi.w;
    };
    if (!wide) { // only types without blocks have such rows
      for (int c = at; c < p.k; c += step)
        for (int r = 0; r < 2; r++) acc[r] += value_at(TYPE, a.w[r], c) * xf[c];
    } else if (BITS16) {
      for (int c = at; c < chunks; c += AHEAD * step) {
        uint4 now[AHEAD][2];
#pragma unroll
        for (int u = 0; u < AHEAD; u++) now[u][0] = next[u][0], now[u][1] = next[u][1];
        if (c + AHEAD * step < chunks) load(a, c + AHEAD * step);
        else if (t + 1 < turns) load(b, at);
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
          if (c + u * step < chunks)
#pragma unroll
            for (int r = 0; r < 2; r++) {
              float v[8];
              unpack8<TYPE>(v, now[u][r]);
              fold(v, c + u * step, r);
            }
      }
      if (at >= chunks && t + 1 < turns) load(b, at);
    } else {
      if (t + 1 < turns)
        for (u64 o = at * 128; o < row_bytes(TYPE, p.k); o += step * 128)
          for (int r = 0; r < 2; r++) asm volatile("prefetch.global.L2 [%0];" ::"l"(b.w[r] + o));
      if constexpr (CODES) {
        constexpr int U = 2; // units of 16 values under way
        for (int c = at; c < p.k / 16; c += U * step) {
          Codes q[U][2];
#pragma unroll
          for (int u = 0; u < U; u++)
            if (c + u * step < p.k / 16)
              for (int r = 0; r < 2; r++) q[u][r] = codes_at<TYPE>(a.w[r], c + u * step);
#pragma unroll
          for (int u = 0; u < U; u++) {
            int i = c + u * step, first = TYPE == Q8_0 ? 4 * i : i / 2 * 8 + i % 2 * 2;
            if (i >= p.k / 16) break;
            constexpr int APART = TYPE == Q8_0 ? 2 : 4; // of the two halves, in fours
            float4 v[4] = {x[first], x[first + 1], x[first + APART], x[first + APART + 1]};
            for (int r = 0; r < 2; r++) acc[r] += dot_codes<TYPE>(q[u][r], v);
          }
        }
      } else
#pragma unroll 4
      for (int c = at; c < chunks; c += step) {
        float v[2][8];
        for (int r = 0; r < 2; r++) load8<TYPE>(v[r], a.w[r], c);
        for (int r = 0; r < 2; r++) fold(v[r], c, r);
      }
    }
    for (int r = 0; r < 2; r++) acc[r] = warp_sum(acc[r]);
    if (p.split > 1) {
      __syncthreads();
      if (lane == 0) sums[warp][0] = acc[0], sums[warp][1] = acc[1];
      __syncthreads();
      if (share == 0)
        for (int s = 1; s < p.split; s++) acc[0] += sums[warp + s][0], acc[1] += sums[warp + s][1];
    }
    if (lane == 0 && share == 0 && a.live) {
      end_sums(p, end_of(p, a, 0), acc[0], acc[1]);
    }
  }
}

#define ONE(name, TYPE) \
  KERNEL __launch_bounds__(256, 2) k_one_##name(STAMP, const __grid_constant__ One p) { one<TYPE>(stamp_, p); }
ONE(f32, F32)
ONE(f16, F16)
ONE(bf16, BF16)
ONE(q8_0, Q8_0)
ONE(q4_0, Q4_0)
ONE(q4_1, Q4_1)
ONE(q4_k, Q4_K)
ONE(q6_k, Q6_K)

// Products of a single row whose weights are streamed through shared memory: 16-bit
// types, and blocks of codes, which are multiplied on integers. A block has 16 warps,
// one block per multiprocessor, and takes neighbouring pairs of rows of weights. A
// warp multiplies the same part of k of every pair that it takes, so its part of x
// stays in registers. Rows come by asynchronous copies of 16 bytes, several ahead; the
// first ones are asked for before the kernel before this one has ended. Two kernels
// fit on a multiprocessor: while one ends, the next one's weights arrive. Most of
// these kernels take a few microseconds, so their code is short: what is not in the
// instruction cache yet costs more than what it computes.
//
// Codes: x is rounded to 15 bits per block of 32, as the sum of two planes of 8 bits:
// dp4a multiplies four codes with one plane. A lane takes 32 values of a row: a block,
// or a part of a block of 256.

constexpr int STREAM_WARPS = 16;

// What a warp takes of a row at a time, and how many pairs of such parts are under
// way. The host knows these numbers too (codes.go).
template <int TYPE> struct Stream {
  static constexpr bool CODES = TYPE != BF16 && TYPE != F16;
  static constexpr int VALUES = CODES ? 1024 : 512, LANE = VALUES / 32;
  static constexpr int SIZE = TYPE == Q8_0 ? 32 * 34 : TYPE == Q4_0 ? 32 * 18 : TYPE == Q4_1 ? 32 * 20 : TYPE == Q4_K ? 4 * 144 : TYPE == Q6_K ? 4 * 210 : 1024;
  static constexpr int ROOM = (SIZE + 30) / 16 * 16; // its ends are moved out to multiples of 16
  static constexpr int STAGES = TYPE == Q8_0 || TYPE == Q6_K || !CODES ? 3 : 4, STAGE = STREAM_WARPS * 2 * ROOM;
};

__device__ __forceinline__ int dot4(u32 a, u32 b, int c) {
  int d;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

// x in shared memory: two planes of [2][blocks] parts of 16 values, so that
// neighbouring lanes read neighbouring parts, and per block its unit and the sum of
// its integers.
struct RowCodes {
  uint4 *high, *low;
  float *unit;
  int *sum;
  int blocks;
};

// Rounds four values; the lanes of a group of 8 hold a block.
__device__ __forceinline__ void put_codes(const RowCodes &x, int i, float4 v) {
  u32 group = 0xffu << (threadIdx.x & 24);
  float most = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
#pragma unroll
  for (int o = 1; o < 8; o *= 2) most = fmaxf(most, __shfl_xor_sync(group, most, o));
  const float range = 127 * 256;
  float inv = most > 0 ? range / most : 0, f[4] = {v.x, v.y, v.z, v.w};
  u32 high = 0, low = 0;
  int sum = 0;
#pragma unroll
  for (int e = 0; e < 4; e++) {
    int q = __float2int_rn(f[e] * inv), h = (q + 128) >> 8;
    sum += q;
    high |= (h & 255u) << (8 * e), low |= (q & 255u) << (8 * e);
  }
#pragma unroll
  for (int o = 1; o < 8; o *= 2) sum += __shfl_xor_sync(group, sum, o);
  int b = i / 32, at = 4 * (i % 32 / 16 * x.blocks + b) + i % 16 / 4;
  ((u32 *)x.high)[at] = high, ((u32 *)x.low)[at] = low;
  if (i % 32 == 0) x.unit[b] = most / range, x.sum[b] = sum;
}

// LaneCodes are the values of x that a lane multiplies, in the order of the codes: a
// block, two halves (Q4_K) or four quarters (Q6_K).
struct LaneCodes {
  u32 high[8], low[8];
  float unit[4];
  int sum[2];
};

__device__ __forceinline__ void put4(u32 *to, uint4 u) { to[0] = u.x, to[1] = u.y, to[2] = u.z, to[3] = u.w; }

// Part i of x.
template <int TYPE> __device__ __forceinline__ void lane_codes(LaneCodes &l, const RowCodes &x, int i) {
  if (TYPE == Q6_K) {
    int b = i / 8 * 8 + i % 8 / 4 * 4, half = i % 4 / 2, at = i % 2;
#pragma unroll
    for (int g = 0; g < 4; g++) {
      uint2 h = ((const uint2 *)(x.high + half * x.blocks + b + g))[at], w = ((const uint2 *)(x.low + half * x.blocks + b + g))[at];
      l.high[2 * g] = h.x, l.high[2 * g + 1] = h.y, l.low[2 * g] = w.x, l.low[2 * g + 1] = w.y;
      l.unit[g] = x.unit[b + g];
    }
  } else if (TYPE == Q4_K) {
    int b = i / 2 * 2, half = i % 2;
#pragma unroll
    for (int g = 0; g < 2; g++) {
      put4(l.high + 4 * g, x.high[half * x.blocks + b + g]), put4(l.low + 4 * g, x.low[half * x.blocks + b + g]);
      l.unit[g] = x.unit[b + g];
      int h = 0, w = 0;
#pragma unroll
      for (int e = 0; e < 4; e++) h = dot4(0x01010101, l.high[4 * g + e], h), w = dot4(0x01010101, l.low[4 * g + e], w);
      l.sum[g] = h * 256 + w;
    }
  } else {
#pragma unroll
    for (int g = 0; g < 2; g++) put4(l.high + 4 * g, x.high[g * x.blocks + i]), put4(l.low + 4 * g, x.low[g * x.blocks + i]);
    l.unit[0] = x.unit[i], l.sum[0] = x.sum[i];
  }
}

// Words from byte at on, which is even.
template <int N> __device__ __forceinline__ void words_at(u32 (&w)[N], const u8 *row, u32 at) {
  const u32 *p = (const u32 *)(row + (at & ~3u));
  u32 pick = at & 2 ? 0x5432 : 0x3210, last = p[0];
#pragma unroll
  for (int e = 0; e < N; e++) {
    u32 next = p[e + 1];
    w[e] = __byte_perm(last, next, pick), last = next;
  }
}

// The product of the codes of part i of a row, which begins at byte at, with x.
template <int TYPE> __device__ __forceinline__ float dot_part(const u8 *row, u32 at, int i, const LaneCodes &x) {
  if (TYPE == Q6_K) {
    u32 a[2], b[2], q[2], half = i % 8 / 4, l = i % 4;
    at += i / 8 * 210;
    words_at(a, row, at + 64 * half + 8 * l), words_at(b, row, at + 64 * half + 32 + 8 * l), words_at(q, row, at + 128 + 32 * half + 8 * l);
    const u8 *scales = row + at + 192 + 8 * half + l / 2;
    float y = 0;
#pragma unroll
    for (int g = 0; g < 4; g++) {
      int h = 0, w = 0;
#pragma unroll
      for (int e = 0; e < 2; e++) {
        u32 c = g % 2 ? b[e] : a[e], top = g == 0 ? q[e] << 4 : g == 1 ? q[e] << 2 : g == 2 ? q[e] : q[e] >> 2;
        c = ((g < 2 ? c : c >> 4) & 0x0f0f0f0fu | top & 0x30303030u) ^ 0x20202020u;
        c |= (c & 0x20202020u) * 6; // less 32: bit 5 is the sign
        h = dot4(c, x.high[2 * g + e], h), w = dot4(c, x.low[2 * g + e], w);
      }
      y += x.unit[g] * ((signed char)scales[2 * g] * (h * 256 + w));
    }
    return half_to_float(*(const u16 *)(row + at + 208)) * y;
  }
  if (TYPE == Q4_K) {
    at += i / 8 * 144;
    int part = i % 8 / 2 * 2;
    const u32 *codes = (const u32 *)(row + at + 16 + i % 8 * 16);
    u32 dm = *(const u32 *)(row + at);
    float y = 0, d = half_to_float(dm), m = half_to_float(dm >> 16);
#pragma unroll
    for (int g = 0; g < 2; g++) {
      int h = 0, w = 0, sd, sm;
      q4k_scale(row + at + 4, part + g, sd, sm);
#pragma unroll
      for (int e = 0; e < 4; e++) {
        u32 c = codes[e] >> (4 * g) & 0x0f0f0f0fu;
        h = dot4(c, x.high[4 * g + e], h), w = dot4(c, x.low[4 * g + e], w);
      }
      y += x.unit[g] * (d * sd * (h * 256 + w) - m * sm * x.sum[g]);
    }
    return y;
  }
  constexpr int WORDS = TYPE == Q8_0 ? 8 : 4;
  at += i * (TYPE == Q8_0 ? 34 : TYPE == Q4_0 ? 18 : 20);
  u32 c[WORDS];
  float d, m = 0;
  if (TYPE == Q4_1) {
    const u32 *p = (const u32 *)(row + at);
    d = half_to_float(p[0]), m = half_to_float(p[0] >> 16);
#pragma unroll
    for (int e = 0; e < 4; e++) c[e] = p[1 + e];
  } else {
    d = half_to_float(*(const u16 *)(row + at));
    words_at(c, row, at + 2);
  }
  int h = 0, w = 0;
#pragma unroll
  for (int e = 0; e < WORDS; e++) {
    if (TYPE == Q8_0) h = dot4(c[e], x.high[e], h), w = dot4(c[e], x.low[e], w);
    else {
      u32 first = c[e] & 0x0f0f0f0fu, second = c[e] >> 4 & 0x0f0f0f0fu;
      h = dot4(first, x.high[e], h), w = dot4(first, x.low[e], w);
      h = dot4(second, x.high[e + 4], h), w = dot4(second, x.low[e + 4], w);
    }
  }
  int dot = h * 256 + w;
  if (TYPE == Q4_0) dot -= 8 * x.sum[0];
  float y = d * (x.unit[0] * dot);
  return TYPE == Q4_1 ? y + m * (x.unit[0] * x.sum[0]) : y;
}

// The values of x that a lane multiplies with 16-bit types: two parts of 8.
__device__ __forceinline__ void lane_values(float (&v)[16], const float *x, int count) {
#pragma unroll
  for (int e = 0; e < 4; e++) {
    int i = 256 * (e / 2) + 8 * (threadIdx.x % 32) + 4 * (e % 2);
    float4 u = {0, 0, 0, 0};
    if (i < count) u = *(const float4 *)(x + i);
    v[4 * e] = u.x, v[4 * e + 1] = u.y, v[4 * e + 2] = u.z, v[4 * e + 3] = u.w;
  }
}

template <int TYPE> __device__ __forceinline__ void one_stream(STAMP, const One &p) {
  using S = Stream<TYPE>;
  constexpr int THREADS = 32 * STREAM_WARPS;
  extern __shared__ __align__(16) u8 ring[]; // [STAGES][STREAM_WARPS][2][ROOM], x, addresses [rows], sums [rows][split]
  if (S::CODES) grid_next(); // not where the memory is the limit: blocks would gather on some multiprocessors
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, groups = STREAM_WARPS / p.split, group = warp / p.split, share = warp % p.split, pairs = p.glu ? p.n[0] : 0, blocks = p.k / 32;
  for (int i = 0; i < p.parts && !p.glu; i++) pairs += (p.n[i] + 1) / 2;
  int first = (u64)pairs * blockIdx.x / gridDim.x, mine = (int)((u64)pairs * (blockIdx.x + 1) / gridDim.x) - first; // pairs of this block
  int parts = (p.k + S::VALUES - 1) / S::VALUES, per = (parts + p.split - 1) / p.split, length = (int)row_bytes(TYPE, p.k);
  // x lies in the last stage, which is the last to be asked for, where it fits there
  // and is read only once.
  int bytes = S::CODES ? 72 * blocks : p.norm ? 4 * p.k : 0;
  bool inside = per == 1 && bytes <= S::STAGE;
  u8 *stages = ring + warp * 2 * S::ROOM, *rest = ring + (S::STAGES - inside) * S::STAGE;
  u64 *rows = (u64 *)(ring + S::STAGES * S::STAGE + (inside ? 0 : bytes));
  float *sums = (float *)(rows + 2 * mine);

  Pair end;
  float sn = 0, cs = 1;
#pragma unroll 1
  for (int i = threadIdx.x; i < mine; i += THREADS) {
    Pair a = pair_at<TYPE>(p, first + i);
    rows[2 * i] = (u64)a.w[0], rows[2 * i + 1] = (u64)a.w[1];
    if (i < THREADS) end = a;
  }
  __syncthreads();
  int turns = group < groups && group < mine ? (mine - group + groups - 1) / groups * per : 0;
  int asked = 0, pair = group, part = share, to = 0; // what is asked for next
  auto fetch = [&]() {
    if (asked++ < turns) {
      int offset = part * S::SIZE, bytes = min(S::SIZE, length - offset);
#pragma unroll
      for (int r = 0; r < 2; r++) {
        u64 at = rows[2 * pair + r] + offset, low = at & ~15ull;
        int end = bytes > 0 ? (int)(at & 15) + bytes : 0;
        u32 stage = smem_at(stages + to * S::STAGE + r * S::ROOM);
#pragma unroll
        for (int o = 0; o < S::ROOM; o += 512)
          if (o + 16 * lane < end) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(stage + o + 16 * lane), "l"(low + o + 16 * lane) : "memory");
      }
      if ((part += p.split) >= p.split * per) part = share, pair += groups;
    }
    to = to + 1 == S::STAGES ? 0 : to + 1;
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  if (!p.early) grid_wait();
#pragma unroll 1
  for (int s = 0; s + 1 < S::STAGES; s++) fetch();
  if (threadIdx.x < mine && end.turn >= 0) angle(p.turn[end.part], 0, end.turn, sn, cs);

  const RowCodes x = {(uint4 *)rest, (uint4 *)rest + 2 * blocks, (float *)(rest + 64 * blocks), (int *)(rest + 68 * blocks), blocks};
  const float *plain = (const float *)rest;
  if (S::CODES || p.norm) {
    normed<THREADS>(stamp_, p, [&](int i, float4 v) {
      if constexpr (S::CODES) put_codes(x, i, v);
      else *(float4 *)((float *)rest + i) = v;
    });
    __syncthreads();
  } else {
    if (p.early) grid_wait();
    plain = p.x;
  }
  LaneCodes codes;
  float values[16], acc[2] = {0, 0};
  int stage = 0, at = group, count;
  bool live;
  part = share;
  auto take = [&]() { // the lane's values of x
    count = min(S::VALUES, p.k - part * S::VALUES), live = lane * S::LANE < count;
    if constexpr (!S::CODES) lane_values(values, plain + part * S::VALUES, count);
    else if (live) lane_codes<TYPE>(codes, x, part * 32 + lane);
  };
  take();
  if (inside) __syncthreads();
#pragma unroll 1
  for (int t = 0; t < turns; t++) {
    if (per > 1) take();
    asm volatile("cp.async.wait_group %0;" ::"n"(S::STAGES - 2) : "memory");
    __syncwarp(); // the rows are there, and all lanes have read those before them
    fetch();
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const u8 *row = stages + stage * S::STAGE + r * S::ROOM;
      if constexpr (S::CODES) {
        if (live) acc[r] += dot_part<TYPE>(row, (u32)rows[2 * at + r] + part * S::SIZE & 15, lane, codes);
      } else {
#pragma unroll
        for (int e = 0; e < 2; e++)
          if (256 * e + 8 * lane < count) {
            float v[8];
            unpack8<TYPE>(v, ((const uint4 *)row)[32 * e + lane]);
#pragma unroll
            for (int j = 0; j < 8; j++) acc[r] += v[j] * values[8 * e + j];
          }
      }
    }
    stage = stage + 1 == S::STAGES ? 0 : stage + 1;
    if ((part += p.split) < p.split * per) continue;
    // Both sums at once: the halves of the warp exchange what the other adds up.
    float sum = (lane & 16 ? acc[1] : acc[0]) + __shfl_xor_sync(~0u, lane & 16 ? acc[0] : acc[1], 16);
#pragma unroll
    for (int o = 8; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (lane % 16 == 0) sums[(2 * at + lane / 16) * p.split + share] = sum;
    part = share, at += groups, acc[0] = acc[1] = 0;
  }
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x; i < mine; i += THREADS) {
    if (i >= THREADS) {
      end = pair_at<TYPE>(p, first + i);
      if (end.turn >= 0) angle(p.turn[end.part], 0, end.turn, sn, cs);
    }
    const float *from = sums + 2 * i * p.split;
    float u = 0, v = 0;
    for (int s = 0; s < p.split; s++) u += from[s], v += from[p.split + s];
    end_pair(p, end, 0, u, v, sn, cs);
  }
}

#define ONE_STREAM(name, TYPE) \
  KERNEL __launch_bounds__(512, 2) k_stream_##name(STAMP, const __grid_constant__ One p) { one_stream<TYPE>(stamp_, p); }
ONE_STREAM(f16, F16)
ONE_STREAM(bf16, BF16)
ONE_STREAM(q8_0, Q8_0)
ONE_STREAM(q4_0, Q4_0)
ONE_STREAM(q4_1, Q4_1)
ONE_STREAM(q4_k, Q4_K)
ONE_STREAM(q6_k, Q6_K)

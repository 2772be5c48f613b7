// Products of a single row from weights in blocks of 32 codes (Q8_0, Q4_0, Q4_1), on
// integers. Weights come into shared memory as the file has them, by asynchronous
// copies of 16 bytes, several stages ahead: blocks of 18, 20 or 34 bytes allow no wide
// load into registers. x is rounded to 15 bits per block of 32, as the sum of two
// planes of 8 bits: dp4a multiplies four codes with one plane.

// Bytes of a block, blocks of a stage, and bytes of a row of a stage: its ends are
// moved out to multiples of 16. The host knows these numbers too (codes.go).
template <int TYPE> struct CodeStage {
  static constexpr int BYTES = TYPE == Q8_0 ? 34 : TYPE == Q4_0 ? 18 : 20, CHUNK = TYPE == Q8_0 ? 32 : 64, ROOM = CHUNK * BYTES + 32;
};
constexpr int CODE_STAGES = 3;

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

// The product of a block that begins at byte at of a stage's row with block b of x.
template <int TYPE> __device__ __forceinline__ float dot_block(const u8 *row, u32 at, const uint4 (&high)[2], const uint4 (&low)[2], float unit, int sum) {
  constexpr int WORDS = TYPE == Q8_0 ? 9 : 5;
  const u32 *p = (const u32 *)(row + (at & ~3u)), hs[8] = {high[0].x, high[0].y, high[0].z, high[0].w, high[1].x, high[1].y, high[1].z, high[1].w},
            ls[8] = {low[0].x, low[0].y, low[0].z, low[0].w, low[1].x, low[1].y, low[1].z, low[1].w};
  u32 w[WORDS], pick = at & 2 ? 0x7654 : 0x5432; // codes follow a scale of 2 bytes
#pragma unroll
  for (int e = 0; e < WORDS; e++) w[e] = p[e];
  float d = half_to_float(at & 2 ? w[0] >> 16 : w[0]);
  int h = 0, l = 0;
#pragma unroll
  for (int e = 0; e + 1 < WORDS; e++) {
    u32 c = TYPE == Q4_1 ? w[e + 1] : __byte_perm(w[e], w[e + 1], pick);
    if (TYPE == Q8_0) h = dot4(c, hs[e], h), l = dot4(c, ls[e], l);
    else {
      u32 first = c & 0x0f0f0f0fu, second = c >> 4 & 0x0f0f0f0fu;
      h = dot4(first, hs[e], h), l = dot4(first, ls[e], l);
      h = dot4(second, hs[e + 4], h), l = dot4(second, ls[e + 4], l);
    }
  }
  int dot = h * 256 + l;
  if (TYPE == Q4_0) dot -= 8 * sum;
  float y = d * (unit * dot);
  if (TYPE == Q4_1) y += half_to_float(w[0] >> 16) * (unit * sum);
  return y;
}

// Work is shared as in one(): a pair of rows per warp, or per several that share k.
template <int TYPE> __device__ __forceinline__ void one_codes(const One &p) {
  using S = CodeStage<TYPE>;
  extern __shared__ __align__(16) u8 stages[]; // [8 warps][CODE_STAGES][2][ROOM], then x
  __shared__ float sums[8][2];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, share = warp % p.split, groups = 8 / p.split, pairs = p.glu ? p.n[0] : 0, blocks = p.k / 32;
  for (int i = 0; i < p.parts && !p.glu; i++) pairs += (p.n[i] + 1) / 2;
  int begin = blockIdx.x * groups + warp / p.split, stride = gridDim.x * groups, turns = (pairs - (int)blockIdx.x * groups + stride - 1) / stride;
  int from = blocks * share / p.split, count = blocks * (share + 1) / p.split - from, chunks = (count + S::CHUNK - 1) / S::CHUNK;
  u8 *mine = stages + warp * CODE_STAGES * 2 * S::ROOM, *rest = stages + 8 * CODE_STAGES * 2 * S::ROOM;
  RowCodes x = {(uint4 *)rest, (uint4 *)rest + 2 * blocks, (float *)(rest + 64 * blocks), (int *)(rest + 68 * blocks), blocks};

  // The part that is asked for next.
  Pair ahead = pair_at<TYPE>(p, begin);
  int turn = 0, chunk = 0;
  auto fetch = [&](int stage) {
    if (turn < turns) {
      int n = min(S::CHUNK, count - chunk * S::CHUNK);
#pragma unroll
      for (int r = 0; r < 2; r++) {
        u64 at = (u64)ahead.w[r] + (u64)(from + chunk * S::CHUNK) * S::BYTES, low = at & ~15ull;
        int bytes = (int)(at - low) + n * S::BYTES;
        u32 to = smem_at(mine + (stage * 2 + r) * S::ROOM);
        for (int i = 16 * lane; i < bytes; i += 512) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + i), "l"(low + i) : "memory");
      }
      if (++chunk == chunks) {
        chunk = 0;
        if (++turn < turns) ahead = pair_at<TYPE>(p, begin + turn * stride);
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  if (!p.early) grid_wait();
  for (int s = 0; s + 1 < CODE_STAGES; s++) fetch(s);
  if (p.early) grid_wait();
  if (p.norm) normed(p, [&](int i, float4 v) { put_codes(x, i, v); });
  else
    for (int i = 4 * threadIdx.x; i < p.k; i += 1024) put_codes(x, i, *(const float4 *)(p.x + i));
  __syncthreads();

  int stage = 0;
  for (int t = 0; t < turns; t++) {
    Pair a = pair_at<TYPE>(p, begin + t * stride);
    float acc[2] = {0, 0};
    for (int c = 0; c < chunks; c++, stage = (stage + 1) % CODE_STAGES) {
      asm volatile("cp.async.wait_group %0;" ::"n"(CODE_STAGES - 2) : "memory");
      __syncwarp(); // the stage is there, and all lanes have read the one before it
      fetch((stage + CODE_STAGES - 1) % CODE_STAGES);
      int first = from + c * S::CHUNK, n = min(S::CHUNK, count - c * S::CHUNK);
      const u8 *rows = mine + stage * 2 * S::ROOM;
      for (int i = lane; i < n; i += 32) {
        int b = first + i;
        uint4 high[2] = {x.high[b], x.high[blocks + b]}, low[2] = {x.low[b], x.low[blocks + b]};
        float unit = x.unit[b];
        int sum = x.sum[b];
#pragma unroll
        for (int r = 0; r < 2; r++) {
          u32 at = ((u32)(u64)a.w[r] + first * S::BYTES & 15) + i * S::BYTES;
          acc[r] += dot_block<TYPE>(rows + r * S::ROOM, at, high, low, unit, sum);
        }
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
    if (lane == 0 && share == 0 && a.live) end_pair(p, a, acc[0], acc[1]);
  }
}

#define ONE_CODES(name, TYPE) \
  KERNEL __launch_bounds__(256, 2) k_codes_##name(const __grid_constant__ One p) { one_codes<TYPE>(p); }
ONE_CODES(q8_0, Q8_0)
ONE_CODES(q4_0, Q4_0)
ONE_CODES(q4_1, Q4_1)

// A row as integers: x of products with weights in blocks of codes (codes.cu). Blocks
// of 32 values are rounded to 15 bits, as the sum of two planes of 8 bits.

constexpr int CODE_WARPS = 8; // that multiply, of a block's

// x in shared memory, and in memory where the step before wrote it so. Per block of 32:
// two planes of 8 words, whose order makes the words of a product neighbours; a unit; and
// the sums of both halves' integers.
struct RowCodes {
  u32 *words;  // [blocks][2][8]
  float *unit; // [blocks]
  int *sum;    // [blocks][2]
};

// Integers are in units of the largest / CODE_RANGE. A value becomes the low bits of
// CODE_ZERO as a float: conversions are slow. A NaN makes its block's unit a NaN.
constexpr float CODE_RANGE = 127 * 256, CODE_ZERO = 12582912; // 1.5 * 2^23
__device__ __forceinline__ float code_factor(float most) { return most > 1e-30f ? __fdividef(CODE_RANGE, most) : 0; }
__device__ __forceinline__ u32 code_of(float v, float factor) { return __float_as_uint(__fmaf_rn(v, factor, CODE_ZERO)); }
// The larger of two values, or NaN where one is.
__device__ __forceinline__ float larger(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

// Where word j of a plane lies: a product takes words j and j + 4.
__device__ __forceinline__ int word_at(int j) { return j % 4 * 2 + j / 4; }

// Rounds FOURS fours from i on. Whole warps call it; lanes from k on hold nothing.
template <int FOURS> __device__ __forceinline__ void put_codes(const RowCodes &x, int k, int i, const float4 (&v)[FOURS]) {
  float most = 0;
#pragma unroll
  for (int e = 0; e < FOURS; e++) most = larger(most, larger(larger(fabsf(v[e].x), fabsf(v[e].y)), larger(fabsf(v[e].z), fabsf(v[e].w))));
#pragma unroll
  for (int o = 1; o < 8 / FOURS; o *= 2) most = larger(most, __shfl_xor_sync(~0u, most, o));
  float factor = code_factor(most);
  u32 high[FOURS], low[FOURS];
  int sum = 0;
#pragma unroll
  for (int e = 0; e < FOURS; e++) {
    u32 q[4] = {code_of(v[e].x, factor), code_of(v[e].y, factor), code_of(v[e].z, factor), code_of(v[e].w, factor)};
    low[e] = __byte_perm(__byte_perm(q[0], q[1], 0x40), __byte_perm(q[2], q[3], 0x40), 0x5410);
    high[e] = __byte_perm(__byte_perm(q[0] + 128, q[1] + 128, 0x51), __byte_perm(q[2] + 128, q[3] + 128, 0x51), 0x5410);
    sum += (int)(q[0] + q[1] + q[2] + q[3] - 4 * __float_as_uint(CODE_ZERO));
  }
#pragma unroll
  for (int o = 1; o < 4 / FOURS; o *= 2) sum += __shfl_xor_sync(~0u, sum, o);
  if (i >= k) return;
#pragma unroll
  for (int e = 0; e < FOURS; e++) {
    u32 *to = x.words + (u32)i / 32 * 16 + word_at((u32)i % 32 / 4 + e);
    to[0] = high[e], to[8] = low[e];
  }
  if (i % 16 == 0) x.sum[(u32)i / 16] = sum;
  if (i % 32 == 0) x.unit[(u32)i / 32] = most * (1 / CODE_RANGE);
}

// The gated value of pair r, as the codes of its lane: a warp has a whole block of 32.
__device__ __forceinline__ void end_codes(const One &p, int r, float v) {
  u8 *words = (u8 *)p.y[0];
  float *unit = (float *)(words + p.n[0] / 32 * 64);
  int *halves = (int *)(unit + p.n[0] / 32), lane = threadIdx.x % 32, block = r / 32, at = 64 * block + 4 * word_at(lane / 4) + lane % 4;
  float most = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(fabsf(v)))); // values above 0 are in the order of their bits, NaN last
  u32 q = code_of(v, code_factor(most));
  int sum = __reduce_add_sync(lane < 16 ? 0xffffu : 0xffff0000u, (int)(q - __float_as_uint(CODE_ZERO)));
  words[at] = q + 128 >> 8, words[at + 32] = q;
  if (lane % 16 == 0) halves[2 * block + lane / 16] = sum;
  if (lane == 0) unit[block] = most * (1 / CODE_RANGE);
}

// Codes have a unit per block, so the factor of an RMS norm can be multiplied in at the
// end: then nobody waits for it.
__device__ __forceinline__ bool factor_later(const One &p) { return p.norm == 1 && !p.nb; }

// A barrier of the warps that multiply.
__device__ __forceinline__ void codes_sync() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

// The sum of v over the warps that multiply.
__device__ __forceinline__ float codes_sum(float v) {
  __shared__ float part[CODE_WARPS];
  v = warp_sum(v);
  codes_sync();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  codes_sync();
  v = 0;
#pragma unroll
  for (int w = 0; w < CODE_WARPS; w++) v += part[w];
  return v;
}

constexpr int CODE_THREADS = 32 * CODE_WARPS;

// The mean of x + add, where the norm subtracts it, and the norm's factor.
__device__ __forceinline__ float2 moments(const One &p) {
  float mean = 0, sq = 0;
#pragma unroll 1
  for (int pass = p.norm == 2 ? 0 : 1; pass < 2; pass++) {
    float sum = 0;
#pragma unroll 1
    for (int i = 4 * threadIdx.x; i < p.k; i += 4 * CODE_THREADS) {
      float4 v = *(const float4 *)(p.x + i);
      if (p.add) {
        float4 u = *(const float4 *)(p.add + i);
        v.x += u.x, v.y += u.y, v.z += u.z, v.w += u.w;
      }
      if (pass == 0) sum += v.x + v.y + v.z + v.w;
      else {
        v.x -= mean, v.y -= mean, v.z -= mean, v.w -= mean;
        sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
      }
    }
    sum = codes_sum(sum) / p.k;
    if (pass == 0) mean = sum;
    else sq = sum;
  }
  return {mean, 1 / sqrtf(sq + p.eps)};
}

// x + add, normed where there is a norm, as codes; a thread takes FOURS fours at a time.
// Where the norm's factor comes later, squares gets each warp's sum of squares.
template <int FOURS> __device__ __forceinline__ void row_codes(STAMP, const One &p, const RowCodes &x, float *squares) {
  constexpr int STEP = 4 * FOURS * CODE_THREADS;
  float4 gain[FOURS];
  auto gains = [&](int i) {
#pragma unroll
    for (int e = 0; e < FOURS; e++) gain[e] = p.norm && i < p.k ? *(const float4 *)(p.nw + i + 4 * e) : float4{0, 0, 0, 0};
  };
  int mine = 4 * FOURS * threadIdx.x, lane = threadIdx.x % 32;
  gains(mine); // before the kernels before this one have ended
  if (p.early) grid_wait();
  float2 norm = {0, 1};
  float sq = 0;
  bool later = factor_later(p);
  if (p.norm && !later) norm = moments(p);
#pragma unroll 1
  for (int i = mine; i - 4 * FOURS * lane < p.k; i += STEP) { // whole warps
    float4 v[FOURS], u[FOURS];
#pragma unroll
    for (int e = 0; e < FOURS; e++) v[e] = i < p.k ? *(const float4 *)(p.x + i + 4 * e) : float4{0, 0, 0, 0};
    if (p.add)
#pragma unroll
      for (int e = 0; e < FOURS; e++) u[e] = i < p.k ? *(const float4 *)(p.add + i + 4 * e) : float4{0, 0, 0, 0};
    if (i != mine) gains(i);
#pragma unroll
    for (int e = 0; e < FOURS; e++) {
      if (p.add) v[e].x += u[e].x, v[e].y += u[e].y, v[e].z += u[e].z, v[e].w += u[e].w;
      if (p.sum && blockIdx.x == 0 && i < p.k) *(float4 *)(p.sum + i + 4 * e) = v[e];
      if (later) sq += v[e].x * v[e].x + v[e].y * v[e].y + v[e].z * v[e].z + v[e].w * v[e].w;
      if (p.norm == 2) v[e].x -= norm.x, v[e].y -= norm.x, v[e].z -= norm.x, v[e].w -= norm.x;
      if (p.norm && i < p.k) v[e] = scaled(p, i + 4 * e, v[e], gain[e], norm.y);
    }
    put_codes<FOURS>(x, p.k, i, v);
  }
  if (!later) return;
  sq = warp_sum(sq);
  if (lane == 0) squares[threadIdx.x / 32] = sq;
}

// The parts of a row of codes that a warp takes, as they lie in memory.
__device__ __forceinline__ void read_codes(const One &p, const RowCodes &x, int first, int parts) {
  int lane = threadIdx.x % 32;
  const u8 *words = (const u8 *)p.x, *units = words + p.k / 32 * 64, *sums = units + p.k / 32 * 4;
#pragma unroll 1
  for (int part = first; part < parts; part += p.split) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem_at(x.words) + 512 * part + 16 * lane), "l"(words + 512 * part + 16 * lane) : "memory");
    bool unit = lane < 2;
    if (lane < 6) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(unit ? smem_at(x.unit) + 32 * part + 16 * lane : smem_at(x.sum) + 64 * part + 16 * (lane - 2)), "l"(unit ? units + 32 * part + 16 * lane : sums + 64 * part + 16 * (lane - 2)) : "memory");
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncwarp();
}

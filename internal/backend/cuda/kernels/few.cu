// Few rows, up to 16, on tensor cores: 8 rows of weights per block, whose warps
// share k. Lanes hold 8 neighbours of k of both operands: the order of k within a
// product does not matter as long as it is the same. x is multiplied as the sum of
// two values in bf16, which hold 16 bits of it: texts of few tokens have little to
// average the rounding of activations.
struct Few {
  const float *x; // [rows,k]
  const u8 *w[3]; // [n,k]
  float *y[3];    // [rows,n]
  const float *bias[3];
  const int *bind;
  Dim rows;
  int n[3];
  int parts, k, glu, act;
};

// Eight values as the sum of two in bf16.
__device__ __forceinline__ void split8(uint4 &hi, uint4 &lo, float4 a, float4 b) {
  auto two = [](u32 &h, u32 &l, float x, float y) {
    h = bf16_pair(x, y);
    l = bf16_pair(x - __uint_as_float(h << 16), y - __uint_as_float(h & 0xffff0000u));
  };
  two(hi.x, lo.x, a.x, a.y), two(hi.y, lo.y, a.z, a.w), two(hi.z, lo.z, b.x, b.y), two(hi.w, lo.w, b.z, b.w);
}

template <int TYPE> __device__ __forceinline__ uint4 weights8(const u8 *row, int i) {
  if (TYPE == BF16) return __ldcs((const uint4 *)row + i);
  float v[8];
  load8<TYPE>(v, row, i);
  return {bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3]), bf16_pair(v[4], v[5]), bf16_pair(v[6], v[7])};
}

template <int TYPE, int TILES> __device__ __forceinline__ void few16(STAMP, const Few &p) {
  __shared__ float sums[16][TILES][16][8];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, tile = blockIdx.x, part = 0;
  u64 stride = row_bytes(TYPE, p.k);
  while (TILES == 1 && part + 1 < p.parts && tile >= (p.n[part] + 7) / 8) tile -= (p.n[part++] + 7) / 8;
  int n = p.n[part], n0 = tile * 8, row = min(n0 + lane / 4, n - 1), chunks = p.k / 8;
  const u8 *wr[TILES];
  for (int t = 0; t < TILES; t++) wr[t] = p.w[part + t] + row * stride;
  constexpr int AHEAD = TYPE == BF16 ? 8 / TILES : 1;
  uint4 raw[AHEAD][TILES];
  int at = warp * 4 + lane % 4, step = 4 * warps; // in parts of 8 of k
  if (TYPE == BF16) {
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
      for (int t = 0; t < TILES; t++) raw[u][t] = at + u * step < chunks ? weights8<TYPE>(wr[t], at + u * step) : uint4{0, 0, 0, 0};
  } else
    for (int o = at * 32; o < stride; o += step * 32)
      for (int t = 0; t < TILES; t++) asm volatile("prefetch.global.L2 [%0];" ::"l"(wr[t] + o));
  int m = size(p.rows, p.bind), r0 = lane / 4, r1 = r0 + 8;
  float bias[TILES];
  for (int t = 0; t < TILES; t++) bias[t] = p.bias[part + t] && n0 + threadIdx.x % 8 < n ? p.bias[part + t][n0 + threadIdx.x % 8] : 0;
  grid_wait();
  float acc[TILES][4] = {};
  auto multiply = [&](const uint4 *w, int c) {
    uint4 hi[2] = {}, lo[2] = {};
#pragma unroll
    for (int e = 0; e < 2; e++) {
      int r = e ? r1 : r0;
      const float4 *x = (const float4 *)(p.x + (u64)r * p.k) + 2 * c;
      if (r < m && c < chunks) split8(hi[e], lo[e], x[0], x[1]);
    }
    auto add = [&](float (&d)[4], const uint4 (&a)[2], const uint4 &w) {
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                   : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                   : "r"(a[0].x), "r"(a[1].x), "r"(a[0].y), "r"(a[1].y), "r"(w.x), "r"(w.y));
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                   : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                   : "r"(a[0].z), "r"(a[1].z), "r"(a[0].w), "r"(a[1].w), "r"(w.z), "r"(w.w));
    };
#pragma unroll
    for (int t = 0; t < TILES; t++) add(acc[t], hi, w[t]), add(acc[t], lo, w[t]);
  };
  int first = warp * 4, done = 0; // warps stay together: lanes of a warp agree on the loop
  if (TYPE == BF16) {
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
      if (first + u * step < chunks) multiply(raw[u], at + u * step);
    done = AHEAD;
  }
#pragma unroll 8
  for (int c = first + done * step; c < chunks; c += step) {
    uint4 w[TILES];
    int i = c + lane % 4;
    for (int t = 0; t < TILES; t++) w[t] = i < chunks ? weights8<TYPE>(wr[t], i) : uint4{0, 0, 0, 0};
    multiply(w, i);
  }
  for (int t = 0; t < TILES; t++)
    for (int e = 0; e < 4; e++) sums[warp][t][r0 + e / 2 * 8][lane % 4 * 2 + e % 2] = acc[t][e];
  __syncthreads();
  for (int i = threadIdx.x; i < 128; i += blockDim.x) {
    int r = i / 8, c = n0 + i % 8;
    if (r >= m || c >= n) continue;
    float v[TILES];
    for (int t = 0; t < TILES; t++) {
      v[t] = bias[t];
      for (int w = 0; w < warps; w++) v[t] += sums[w][t][r][i % 8];
    }
    if (p.act >= 0) v[0] = act(p.act, v[0]);
    if (TILES == 2) v[0] *= v[TILES - 1];
    u64 to = (u64)r * n + c;
    p.y[part][to] = v[0];
  }
}

#define FEW16(name, TYPE)                                                                                     \
  KERNEL __launch_bounds__(512) k_few16_##name(STAMP, const __grid_constant__ Few p) { few16<TYPE, 1>(stamp_, p); }          \
  KERNEL __launch_bounds__(512) k_few16_glu_##name(STAMP, const __grid_constant__ Few p) { few16<TYPE, 2>(stamp_, p); }
FEW16(f32, F32)
FEW16(f16, F16)
FEW16(bf16, BF16)
FEW16(q8_0, Q8_0)
FEW16(q4_0, Q4_0)
FEW16(q4_1, Q4_1)
FEW16(q4_k, Q4_K)
FEW16(q6_k, Q6_K)

// A matrix of any type as bf16, 8 values of a row per thread.
KERNEL k_decode_bf16(STAMP, u16 *out, const u8 *w, int type, u64 rows, int cols) {
  grid_wait();
  u64 stride = row_bytes(type, cols), parts = cols / 8;
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < rows * parts; i += (u64)gridDim.x * blockDim.x) {
    const u8 *row = w + i / parts * stride;
    int at = i % parts;
    float v[8];
    switch (type) {
    case F32: load8<F32>(v, row, at); break;
    case F16: load8<F16>(v, row, at); break;
    case BF16: load8<BF16>(v, row, at); break;
    case Q8_0: load8<Q8_0>(v, row, at); break;
    case Q4_0: load8<Q4_0>(v, row, at); break;
    case Q4_1: load8<Q4_1>(v, row, at); break;
    case Q4_K: load8<Q4_K>(v, row, at); break;
    default: load8<Q6_K>(v, row, at);
    }
    ((uint4 *)out)[i] = {bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3]), bf16_pair(v[4], v[5]), bf16_pair(v[6], v[7])};
  }
}

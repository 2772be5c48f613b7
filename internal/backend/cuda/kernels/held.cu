// Few rows, as few16 in few.cu, with matrices in bf16 and a small k: a thread requests
// all that it multiplies of x at once, so it waits for the cache once. Two blocks fit on
// a multiprocessor, which has 80 registers per thread for them.
#define HELD_WARPS 12 // at most

// Four values that are requested where the call stands, not where they are used.
__device__ __forceinline__ float4 request4(const float4 *p) {
  float4 v;
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p));
  return v;
}

__device__ __forceinline__ void mma16(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// A warp takes 32 values of k in each of at most ROUNDS rounds; a lane takes 8 of them, of
// a row of weights and of two rows of x. Lanes behind k multiply weights of 0 with x
// before the end of k. Lanes behind the last row read that row: nobody writes their
// results.
template <int TILES, int ROUNDS> __device__ __forceinline__ void held16(STAMP, const Few &p) {
  __shared__ __align__(16) float sums[HELD_WARPS][TILES][128]; // [16 rows of x][8 rows of weights]
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, tile = blockIdx.x, part = 0;
  while (TILES == 1 && part + 1 < p.parts && tile >= (p.n[part] + 7) / 8) tile -= (p.n[part++] + 7) / 8;
  int n = p.n[part], n0 = tile * 8, chunks = p.k / 8, first = 4 * warp, step = 4 * warps, at = first + lane % 4; // of k, in parts of 8
  uint4 w[ROUNDS][TILES];
#pragma unroll
  for (int t = 0; t < TILES; t++) {
    const uint4 *row = (const uint4 *)(p.w[part + t] + (u64)min(n0 + lane / 4, n - 1) * p.k * 2);
#pragma unroll
    for (int u = 0; u < ROUNDS; u++) w[u][t] = at + u * step < chunks ? __ldcs(row + at + u * step) : uint4{0, 0, 0, 0};
  }
  float bias[TILES];
#pragma unroll
  for (int t = 0; t < TILES; t++) bias[t] = p.bias[part + t] && n0 + threadIdx.x % 8 < n ? p.bias[part + t][n0 + threadIdx.x % 8] : 0;
  int m = size(p.rows, p.bind);
  const float4 *x[2];
#pragma unroll
  for (int e = 0; e < 2; e++) x[e] = (const float4 *)(p.x + (u64)max(min(lane / 4 + 8 * e, m - 1), 0) * p.k);
  u32 clock = grid_wait_clock();
  float4 v[ROUNDS][2][2];
#pragma unroll
  for (int u = 0; u < ROUNDS; u++) {
    int c = 2 * min(at + u * step, chunks - 1);
    if (first + u * step < chunks) // for the whole warp
#pragma unroll
      for (int e = 0; e < 2; e++) v[u][e][0] = request4(x[e] + c), v[u][e][1] = request4(x[e] + c + 1);
  }
  grid_stamp(clock);
  float acc[TILES][2][4] = {}; // with the larger and the smaller parts of x
#pragma unroll
  for (int u = 0; u < ROUNDS; u++) {
    if (first + u * step >= chunks) break;
    uint4 a[2], b[2];
#pragma unroll
    for (int e = 0; e < 2; e++) split8(a[e], b[e], v[u][e][0], v[u][e][1]);
#pragma unroll
    for (int t = 0; t < TILES; t++) {
      mma16(acc[t][0], a[0].x, a[1].x, a[0].y, a[1].y, w[u][t].x, w[u][t].y);
      mma16(acc[t][1], b[0].x, b[1].x, b[0].y, b[1].y, w[u][t].x, w[u][t].y);
    }
#pragma unroll
    for (int t = 0; t < TILES; t++) {
      mma16(acc[t][0], a[0].z, a[1].z, a[0].w, a[1].w, w[u][t].z, w[u][t].w);
      mma16(acc[t][1], b[0].z, b[1].z, b[0].w, b[1].w, w[u][t].z, w[u][t].w);
    }
  }
#pragma unroll
  for (int t = 0; t < TILES; t++)
#pragma unroll
    for (int e = 0; e < 2; e++)
      *(float2 *)&sums[warp][t][64 * e + 2 * lane] = {acc[t][0][2 * e] + acc[t][1][2 * e], acc[t][0][2 * e + 1] + acc[t][1][2 * e + 1]};
  __syncthreads();
  for (int i = threadIdx.x; i < 128; i += blockDim.x) {
    int r = i / 8, c = n0 + i % 8;
    if (r >= m || c >= n) continue;
    float y[TILES];
#pragma unroll
    for (int t = 0; t < TILES; t++) {
      float s[HELD_WARPS];
#pragma unroll
      for (int j = 0; j < HELD_WARPS; j++) s[j] = j < warps ? sums[j][t][i] : 0;
      y[t] = bias[t];
#pragma unroll
      for (int j = 0; j < HELD_WARPS; j += 4) y[t] += s[j] + s[j + 1] + (s[j + 2] + s[j + 3]);
    }
    if (p.act >= 0) y[0] = act(p.act, y[0]);
    if (TILES == 2) y[0] *= y[TILES - 1];
    p.y[part][(u64)r * n + c] = y[0];
  }
}

KERNEL __launch_bounds__(32 * HELD_WARPS, 2) k_few16_bf16_held(STAMP, const __grid_constant__ Few p) { held16<1, 3>(stamp_, p); }
KERNEL __launch_bounds__(32 * HELD_WARPS, 2) k_few16_glu_bf16_held(STAMP, const __grid_constant__ Few p) { held16<2, 2>(stamp_, p); }

// Products of a single row with 16-bit weights that are streamed through shared
// memory. A block has 16 warps, one block per multiprocessor, and takes neighbouring
// pairs of rows of weights. A warp multiplies the same part of k of every pair that it
// takes, so its part of x stays in registers. Rows come by asynchronous copies of 16
// bytes, several ahead; the first ones are asked for before the kernel before this one
// has ended. Two kernels fit on a multiprocessor: while one ends, the next one's
// weights arrive. Most of these kernels take a few microseconds, so their code is
// short: what is not in the instruction cache yet costs more than what it computes.

constexpr int STREAM_WARPS = 16;

// What a warp takes of a row at a time, and how many pairs of such parts are under
// way. The host knows these numbers too (stream.go).
struct Stream {
  static constexpr int VALUES = 512, SIZE = 1024, ROOM = 1040; // its ends are moved out to multiples of 16
  static constexpr int STAGES = 3, STAGE = STREAM_WARPS * 2 * ROOM;
};

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
  using S = Stream;
  constexpr int THREADS = 32 * STREAM_WARPS;
  extern __shared__ __align__(16) u8 ring[]; // [STAGES][STREAM_WARPS][2][ROOM], addresses [rows], sums [rows][split]
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = warp * p.inverse >> 16, share = warp - group * p.split;
  int first = blockIdx.x * p.quota + min((int)blockIdx.x, p.rest), mine = p.quota + ((int)blockIdx.x < p.rest); // pairs of this block
  int length = 2 * p.k;
  // x lies in the last stage, which is the last to be asked for.
  u8 *stages = ring + warp * 2 * S::ROOM, *rest = ring + (S::STAGES - 1) * S::STAGE;
  u64 *rows = (u64 *)(ring + S::STAGES * S::STAGE);
  float *sums = (float *)(rows + 2 * mine);

#pragma unroll 1
  for (int i = threadIdx.x; i < mine; i += THREADS) {
    Pair a = pair_at<TYPE>(p, first + i);
    rows[2 * i] = (u64)a.w[0], rows[2 * i + 1] = (u64)a.w[1];
  }
  __syncthreads();
  int pair = group < p.groups ? group : mine, to = 0; // what is asked for next
  auto fetch = [&]() {
    if (pair < mine) {
      int offset = share * S::SIZE, bytes = min(S::SIZE, length - offset);
#pragma unroll
      for (int r = 0; r < 2; r++) {
        u64 at = rows[2 * pair + r] + offset, low = at & ~15ull;
        int end = (int)(at & 15) + bytes;
        u32 stage = smem_at(stages + to * S::STAGE + r * S::ROOM);
#pragma unroll
        for (int o = 0; o < S::ROOM; o += 512)
          if (o + 16 * lane < end) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(stage + o + 16 * lane), "l"(low + o + 16 * lane) : "memory");
      }
      pair += p.groups;
    }
    to = to + 1 == S::STAGES ? 0 : to + 1;
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  if (!p.early) grid_wait();
#pragma unroll 1
  for (int s = 0; s + 1 < S::STAGES; s++) fetch();
  End end;
  if (threadIdx.x < mine) end = end_of(p, pair_at<TYPE>(p, first + threadIdx.x), 0);

  const float *x = (const float *)rest;
  if (p.norm) {
    normed<THREADS>(stamp_, p, [&](int i, float4 v) { *(float4 *)((float *)rest + i) = v; });
    __syncthreads();
  } else {
    if (p.early) grid_wait();
    x = p.x;
  }
  float values[16], acc[2] = {0, 0};
  int stage = 0, at = group < p.groups ? group : mine, count = min(S::VALUES, p.k - share * S::VALUES);
  lane_values(values, x + share * S::VALUES, count);
  __syncthreads();
#pragma unroll 1
  while (at < mine) {
    asm volatile("cp.async.wait_group %0;" ::"n"(S::STAGES - 2) : "memory");
    __syncwarp(); // the rows are there, and all lanes have read those before them
    fetch();
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const u8 *row = stages + stage * S::STAGE + r * S::ROOM;
#pragma unroll
      for (int e = 0; e < 2; e++)
        if (256 * e + 8 * lane < count) {
          float v[8];
          unpack8<TYPE>(v, ((const uint4 *)row)[32 * e + lane]);
#pragma unroll
          for (int j = 0; j < 8; j++) acc[r] += v[j] * values[8 * e + j];
        }
    }
    stage = stage + 1 == S::STAGES ? 0 : stage + 1;
    // Both sums at once: the halves of the warp exchange what the other adds up.
    float sum = (lane & 16 ? acc[1] : acc[0]) + __shfl_xor_sync(~0u, lane & 16 ? acc[0] : acc[1], 16);
#pragma unroll
    for (int o = 8; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (lane % 16 == 0) sums[(2 * at + lane / 16) * p.split + share] = sum;
    at += p.groups, acc[0] = acc[1] = 0;
  }
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x; i < mine; i += THREADS) {
    if (i >= THREADS) end = end_of(p, pair_at<TYPE>(p, first + i), 0);
    const float *from = sums + 2 * i * p.split;
    float u = 0, v = 0;
    for (int s = 0; s < p.split; s++) u += from[s], v += from[p.split + s];
    end_sums(p, end, u, v);
  }
}

#define ONE_STREAM(name, TYPE) \
  KERNEL __launch_bounds__(512, 2) k_stream_##name(STAMP, const __grid_constant__ One p) { one_stream<TYPE>(stamp_, p); }
ONE_STREAM(f16, F16)
ONE_STREAM(bf16, BF16)

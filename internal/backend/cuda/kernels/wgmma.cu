// Products of many rows on the tensor cores of sm_90a. A producer thread has the
// copy engine bring tiles of both operands into a ring of shared memory; one or
// two warpgroups multiply. Operands are bf16, sums are f32. A product may be
// several with one left operand (columns one after the other), or a gate and what
// it gates. Where tiles are fewer than the card's units, the blocks of a cluster
// share k and add their sums in order.
//
// Gradients are products too, of matrices as they lie in memory: the rows of the
// right operand are values of k (DX), or those of both (DW).

enum { FORWARD, DX, DW };

// Wg is what a product computes. At most three parts.
//   FORWARD  y[i][rows,n] = a[rows,k] b[i][n,k]^T
//   DX       y[0][rows,n] = the sum of a[rows,deep] b[deep,n] over the parts
//   DW       y[0][chunk][rows,n] = a[k,rows]^T b[k,n], of a chunk of k each
struct Wg {
  Map a, b[3], more[2]; // more: left operands of the other parts of DX
  float *y[3];          // results in f32, or 0
  u16 *h[3];            // the same in bf16, in rows of a multiple of 8 values, or 0
  const float *bias[3];
  const int *bind;
  Dim rows;
  Dim k;
  int n[3];
  int parts;
  int glu;   // act(part 0) * part 1
  int act;   // -1: none
  int early; // weights are there before the kernels before this one have ended
  int deep[3];
  int chunks;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// The sums of a warpgroup: a thread has rows lane/4 and lane/4 + 8 of its warp's 16,
// columns 8j + lane%4*2 and the next. c is the first of these columns.
template <int BN> __device__ __forceinline__ void add_bias(const float *bias, float *d, int c, int n) {
  if (!bias) return;
  if ((c & ~7) + BN <= n && n % 2 == 0) {
    constexpr int BATCH = BN % 64 ? 4 : 8;
#pragma unroll
    for (int from = 0; from < BN / 8; from += BATCH) {
      float2 b[BATCH];
#pragma unroll
      for (int j = 0; j < BATCH; j++) b[j] = *(const float2 *)(bias + c + 8 * (from + j));
#pragma unroll
      for (int j = 0; j < BATCH; j++) {
        float *to = d + 4 * (from + j);
        to[0] += b[j].x, to[1] += b[j].y, to[2] += b[j].x, to[3] += b[j].y;
      }
      asm volatile("" ::: "memory"); // no more loads at once: they would cost registers
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < BN / 8; j++) {
    if (c + 8 * j < n) d[4 * j] += bias[c + 8 * j], d[4 * j + 2] += bias[c + 8 * j];
    if (c + 8 * j + 1 < n) d[4 * j + 1] += bias[c + 8 * j + 1], d[4 * j + 3] += bias[c + 8 * j + 1];
  }
}

// Bias, activation and gate.
template <int BN> __device__ __forceinline__ void end_of_product(const Wg &p, int part, float (&d)[BN / 2], int col0) {
  int c = col0 + threadIdx.x % 4 * 2;
  if (p.glu) {
    add_bias<BN / 2>(p.bias[0], d, c, p.n[0]);
    add_bias<BN / 2>(p.bias[1], d + BN / 4, c, p.n[1]);
    act_all<BN / 4>(p.act, d);
#pragma unroll
    for (int i = 0; i < BN / 4; i++) d[i] *= d[i + BN / 4];
  } else {
    add_bias<BN>(p.bias[part], d, c, p.n[part]);
    act_all<BN / 2>(p.act, d);
  }
}

// Four lanes exchange what they hold: element i of lane j becomes element j of
// lane i.
__device__ __forceinline__ void transpose4(u32 (&u)[4]) {
  int q = threadIdx.x;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    u32 a = __shfl_xor_sync(~0u, q & 1 ? u[i] : u[i + 1], 1);
    if (q & 1) u[i] = a;
    else u[i + 1] = a;
  }
#pragma unroll
  for (int i = 0; i < 2; i++) {
    u32 a = __shfl_xor_sync(~0u, q & 2 ? u[i] : u[i + 2], 2);
    if (q & 2) u[i] = a;
    else u[i + 2] = a;
  }
}

template <int BN> __device__ __forceinline__ void store_product(const Wg &p, int part, float *y, float (&d)[BN / 2], int row, int m, int col0) {
  int n = p.n[part], q = threadIdx.x % 4, width = p.glu ? BN / 2 : BN, stride = (n + 7) & ~7;
  u16 *h = p.h[part];
#pragma unroll
  for (int e = 0; e < 2; e++) {
    int r = row + 8 * e;
    if (y && r < m)
#pragma unroll
      for (int j = 0; j < BN / 8; j++) {
        int c = col0 + 8 * j + 2 * q;
        if (8 * j >= width || c >= n) break;
        float *to = y + (u64)r * n + c;
        if (n % 2 == 0) *(float2 *)to = {d[4 * j + 2 * e], d[4 * j + 2 * e + 1]};
        else {
          to[0] = d[4 * j + 2 * e];
          if (c + 1 < n) to[1] = d[4 * j + 2 * e + 1];
        }
      }
    if (h)
#pragma unroll
      for (int j = 0; j < BN / 8; j += 4) {
        if (8 * j >= width) break;
        u32 u[4];
        for (int i = 0; i < 4; i++) u[i] = bf16_pair(d[4 * (j + i) + 2 * e], d[4 * (j + i) + 2 * e + 1]);
        transpose4(u);
        int c = col0 + 8 * (j + q);
        if (r < m && c < n) *(uint4 *)(h + (u64)r * stride + c) = {u[0], u[1], u[2], u[3]};
      }
  }
}

// The sums of the blocks of a cluster, which lie in their shared memory. A block
// adds some rows of all, in the order of k.
template <int BM, int BN, int THREADS> __device__ __forceinline__ void join_splits(const Wg &p, int part, u32 stage, int splits, int m0, int m, int col0) {
  int n = p.n[part], width = p.glu ? BN / 2 : BN, per = BM / splits, rank = blockIdx.y;
  for (int i = threadIdx.x; i < per * (width / 8); i += THREADS) {
    int r = rank * per + i / (width / 8), c = i % (width / 8) * 8;
    if (m0 + r >= m || col0 + c >= n) continue;
    float v[2][8] = {};
    for (int s = 0; s < splits; s++)
      for (int g = 0; g < 2; g++) {
        if (g && !p.glu) break;
        u32 at = stage + (r * (BN + 8) + c + g * (BN / 2)) * 4, of;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(of) : "r"(at), "r"(s));
        for (int e = 0; e < 8; e += 4) {
          float4 f;
          asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(f.x), "=f"(f.y), "=f"(f.z), "=f"(f.w) : "r"(of + 4 * e));
          v[g][e] += f.x, v[g][e + 1] += f.y, v[g][e + 2] += f.z, v[g][e + 3] += f.w;
        }
      }
    for (int g = 0; g < 2; g++) {
      if (g && !p.glu) break;
      const float *bias = p.bias[part + g];
      for (int e = 0; e < 8 && bias; e++)
        if (col0 + c + e < n) v[g][e] += bias[col0 + c + e];
    }
    act_all<8>(p.act, v[0]);
    if (p.glu)
      for (int e = 0; e < 8; e++) v[0][e] *= v[1][e];
    u64 to = (u64)(m0 + r) * n + col0 + c;
    if (p.y[part])
      for (int e = 0; e < 8; e++)
        if (col0 + c + e < n) p.y[part][to + e] = v[0][e];
    if (p.h[part]) *(uint4 *)(p.h[part] + (u64)(m0 + r) * ((n + 7) & ~7) + col0 + c) = {bf16_pair(v[0][0], v[0][1]), bf16_pair(v[0][2], v[0][3]), bf16_pair(v[0][4], v[0][5]), bf16_pair(v[0][6], v[0][7])};
  }
}

// Tile is where a block is: BM rows from m0 on, columns of a part from n0 on.
struct Tile {
  int m0, n0, part;
};

// Groups of 8 tiles of rows keep what they share in the cache.
__device__ __forceinline__ Tile tile_of(int id, int mt, const int (&tiles)[3], int rows, int width) {
  int all = tiles[0] + tiles[1] + tiles[2], first = id / (8 * all) * 8, high = min(8, mt - first), in = id % (8 * all), tn = in / high;
  Tile t = {(first + in % high) * rows, 0, 0};
  if (tn >= tiles[0] + tiles[1]) t.part = 2, tn -= tiles[0] + tiles[1];
  else if (tn >= tiles[0]) t.part = 1, tn -= tiles[0];
  t.n0 = tn * width;
  return t;
}

// Zeros in rows from of BOXES boxes of 64 rows that lie at to, by THREADS threads that
// have a barrier of their own.
template <int BOXES, int THREADS> __device__ __forceinline__ void clear_rows(u8 *to, int from, int barrier) {
  int lines = (64 - from) * 8;
  for (int i = threadIdx.x % THREADS; i < BOXES * lines; i += THREADS) *(uint4 *)(to + i / lines * 8192 + from * 128 + i % lines * 16) = {0, 0, 0, 0};
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}

// BM x BN results at a time. Two warpgroups share a tile (one has a tile of 64 rows
// alone), or, with TURNS, have tiles of their own: one multiplies while the other
// ends its tile. A block takes tiles one after the other, and the next one's operands
// are on their way while it ends one. With REGS, multiplying threads take so many
// registers, which the producer's warpgroup gives up.
template <int BM, int BN, int STAGES, bool TURNS, int REGS, int MODE> __device__ __forceinline__ void product(STAMP, const Wg &p) {
  extern __shared__ __align__(1024) u8 ring[];
  __shared__ __align__(8) u64 bars[2 * STAGES];
  constexpr int WGS = TURNS || BM > 64 ? 2 : 1, HIGH = BM / 64 / (TURNS ? 1 : WGS), A = BM * 128, B = BN * 128;
  constexpr int TA = MODE == DW, TB = MODE != FORWARD, BOX = 8192; // TA, TB: rows of the operand are values of k
  int m = size(p.rows, p.bind), width = p.glu ? BN / 2 : BN, tiles[3], all = 0;
#pragma unroll
  for (int i = 0; i < 3; i++) all += tiles[i] = i < (p.glu ? 1 : p.parts) ? (p.n[i] + width - 1) / width : 0;
  int mt = (m + BM - 1) / BM, splits = gridDim.y;
  int first = blockIdx.x, stride = gridDim.x, count = mt * all, each = count; // each: tiles of a chunk
  if (MODE == DW) count *= p.chunks;
  if (first >= count) {
    grid_wait();
    return;
  }
  int deep = size(p.k, p.bind), kt = (deep + 63) / 64, from = kt * blockIdx.y / splits, iters = kt * (blockIdx.y + 1) / splits - from;
  if (MODE == DW) iters = (kt + p.chunks - 1) / p.chunks;
  int steps[2] = {(p.deep[0] + 63) / 64, (p.deep[1] + 63) / 64};
  if (MODE == DX) iters = steps[0] + steps[1] + (p.deep[2] + 63) / 64;
  u32 base = (smem_at(ring) + 1023) & ~1023, full = smem_at(bars), empty = full + 8 * STAGES;
  int warp = threadIdx.x / 32;
  if (threadIdx.x == 0)
    for (int i = 0; i < STAGES; i++) bar_init(full + 8 * i, 1), bar_init(empty + 8 * i, TURNS ? 1 : WGS);
  bars_ready();
  __syncthreads();
  auto tile = [&](int id) { return tile_of(MODE == DW ? id % each : id, mt, tiles, BM, width); };
  auto begin = [&](int id) { return MODE == DW ? id / each * iters : from; }; // the first step of k

  if (warp >= WGS * 4) {
    if (REGS) asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x != WGS * 128) return;
    asm volatile("prefetch.tensormap [%0];" ::"l"(&p.a) : "memory");
    auto place = [&](int &i) { // the part of a step of DX, which becomes one of the part
      int part = 0;
      while (MODE == DX && part < 2 && i >= steps[part]) i -= steps[part++];
      return part;
    };
    auto weights = [&](const Tile &t, int i, int s) { // of a step of a tile, into a stage of the ring
      u32 to = base + s * (A + B) + A, bar = full + 8 * s;
      bar_expect(bar, A + B);
      if (TB) {
        const Map *of = &p.b[place(i)];
#pragma unroll
        for (int c = 0; c < BN / 64; c++) load_box(to + c * BOX, of, bar, t.n0 + 64 * c, i * 64);
        return;
      }
      load_box(to, &p.b[t.part], bar, i * 64, t.n0);
      if (p.glu) load_box(to + B / 2, &p.b[1], bar, i * 64, t.n0);
    };
    auto rows = [&](const Tile &t, int i, int s) {
      u32 to = base + s * (A + B), bar = full + 8 * s;
      if (TA) {
#pragma unroll
        for (int c = 0; c < BM / 64; c++) load_box(to + c * BOX, &p.a, bar, t.m0 + 64 * c, i * 64);
        return;
      }
      int part = place(i);
      load_box(to, part ? &p.more[part - 1] : &p.a, bar, i * 64, t.m0);
    };
    Tile t = tile(first);
    int begun = min(iters, STAGES), at = begin(first);
    if (!p.early) grid_wait();
    for (int i = 0; i < begun; i++) weights(t, at + i, i);
    if (p.early) grid_wait();
    for (int i = 0; i < begun; i++) rows(t, at + i, i);
    int s = begun % STAGES, phase = begun / STAGES;
    for (int id = first, i = begun; id < count; id += stride, i = 0) {
      t = tile(id), at = begin(id);
      for (; i < iters; i++) {
        bar_wait(empty + 8 * s, phase ^ 1);
        weights(t, at + i, s);
        rows(t, at + i, s);
        if (++s == STAGES) s = 0, phase ^= 1;
      }
    }
  } else {
    if (REGS) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGS ? REGS : 24));
    grid_wait();
    int wg = warp / 4, lane = threadIdx.x % 32, row = (TURNS ? 0 : wg * HIGH * 64) + warp % 4 * 16 + lane / 4;
    auto release = [&](int stage) { // by one thread of each warpgroup
      if (threadIdx.x % 128 == 0) bar_arrive(empty + 8 * stage);
    };
    for (int j = TURNS ? wg : 0, id = first + j * stride; id < count; id += TURNS ? 2 * stride : stride, j += TURNS ? 2 : 1) {
      Tile t = tile(id);
      float d[HIGH][BN / 2];
#pragma unroll
      for (int h = 0; h < HIGH; h++)
#pragma unroll
        for (int i = 0; i < BN / 2; i++) d[h][i] = 0;
      int g = j * iters, s = g % STAGES, phase = g / STAGES & 1, before = 0;
      if (TURNS && j > 0) asm volatile("bar.sync %0, 256;" ::"r"(1 + wg) : "memory"); // barriers of the ring are at most one phase ahead
      for (int i = 0; i < iters; i++) {
        u32 ats = base + s * (A + B) + (TURNS ? 0 : wg * HIGH * BOX), bts = base + s * (A + B) + A;
        u64 a = TA ? turned_at(ats) : tile_at(ats), b = TB ? turned_at(bts) : tile_at(bts);
        bar_wait(full + 8 * s, phase);
        if (MODE == DW) { // rows behind the last one have values of other runs
          int left = deep - (begin(id) + i) * 64;
          if (left < 64) clear_rows<(BM + BN) / 64, TURNS ? 128 : WGS * 128>(ring + (base - smem_at(ring)) + s * (A + B), max(left, 0), 3 + (TURNS ? wg : 0));
        }
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
          for (int h = 0; h < HIGH; h++) wgmma<TA, TB>(d[h], a + (TA ? 128 : 2) * k + 512 * h, b + (TB ? 128 : 2) * k);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (i > 0) release(before);
        before = s;
        if (++s == STAGES) s = 0, phase ^= 1;
      }
      if (TURNS && id + stride < count) asm volatile("bar.arrive %0, 256;" ::"r"(2 - wg) : "memory"); // the other one's turn
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
      for (int h = 0; h < HIGH; h++)
#pragma unroll
        for (int i = 0; i < BN / 2; i++) asm volatile("" : "+f"(d[h][i])::"memory");
      if (splits == 1) {
        release(before);
#pragma unroll
        for (int h = 0; h < HIGH; h++) {
          if (MODE == FORWARD) end_of_product<BN>(p, t.part, d[h], t.n0);
          float *y = p.y[t.part];
          if (MODE == DW) y += (u64)(id / each) * m * p.n[0];
          store_product<BN>(p, t.part, y, d[h], t.m0 + 64 * h + row, m, t.n0);
        }
        continue;
      }
      if constexpr (!TURNS && MODE == FORWARD) { // blocks of a cluster have one tile
        asm volatile("bar.sync 1, %0;" ::"n"(WGS * 128) : "memory"); // nobody reads the ring any more
#pragma unroll
        for (int h = 0; h < HIGH; h++)
#pragma unroll
          for (int i = 0; i < BN / 8; i++)
#pragma unroll
            for (int e = 0; e < 2; e++)
              *(float2 *)(ring + (base - smem_at(ring)) + ((row + 64 * h + 8 * e) * (BN + 8) + 8 * i + lane % 4 * 2) * 4) = {d[h][4 * i + 2 * e], d[h][4 * i + 2 * e + 1]};
        asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
        join_splits<BM, BN, WGS * 128>(p, t.part, base, splits, t.m0, m, t.n0);
        asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); // others read this block's sums
      }
    }
  }
}
#define PRODUCT(NAME, BM, BN, STAGES, TURNS, REGS, THREADS, BLOCKS, MODE) \
  KERNEL __launch_bounds__(THREADS, BLOCKS) NAME(STAMP, const __grid_constant__ Wg p) { product<BM, BN, STAGES, TURNS, REGS, MODE>(stamp_, p); }
#else
#define PRODUCT(NAME, BM, BN, STAGES, TURNS, REGS, THREADS, BLOCKS, MODE) \
  KERNEL NAME(STAMP, const __grid_constant__ Wg p) {}
#endif
PRODUCT(k_wg_128_256, 128, 256, 4, false, 240, 384, 1, FORWARD)
PRODUCT(k_wg_64_128, 64, 128, 4, false, 0, 160, 2, FORWARD)
PRODUCT(k_wg_64_64, 64, 64, 6, false, 0, 160, 2, FORWARD)
PRODUCT(k_wg_128_192_turns, 128, 192, 5, true, 240, 384, 1, FORWARD)
PRODUCT(k_wg_64_192_turns, 64, 192, 6, true, 240, 384, 1, FORWARD)
PRODUCT(k_dx_128_256, 128, 256, 4, false, 240, 384, 1, DX)
PRODUCT(k_dx_128_192_turns, 128, 192, 5, true, 240, 384, 1, DX)
PRODUCT(k_dx_64_64, 64, 64, 6, false, 0, 160, 2, DX)
PRODUCT(k_dw_128_256, 128, 256, 4, false, 240, 384, 1, DW)
PRODUCT(k_dw_128_192_turns, 128, 192, 5, true, 240, 384, 1, DW)
PRODUCT(k_dw_64_64, 64, 64, 6, false, 0, 160, 2, DW)

// y of n chunks of its length, in order.
KERNEL k_add_chunks(STAMP, float *y, const float *chunks, int n, u64 length) {
  grid_wait();
  u64 first = blockIdx.x * (u64)blockDim.x + threadIdx.x, all = (u64)gridDim.x * blockDim.x;
  if (length % 4) {
    for (u64 i = first; i < length; i += all) {
      float sum = chunks[i];
      for (int k = 1; k < n; k++) sum += chunks[k * length + i];
      y[i] = sum;
    }
    return;
  }
  for (u64 i = first; i < length / 4; i += all) {
    float4 sum = ((const float4 *)chunks)[i];
#pragma unroll 4
    for (int k = 1; k < n; k++) {
      float4 v = ((const float4 *)(chunks + k * length))[i];
      sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    ((float4 *)y)[i] = sum;
  }
}

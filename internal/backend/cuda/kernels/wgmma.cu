// Products of many rows on the tensor cores of sm_90a. A producer thread has the
// copy engine bring tiles of both operands into a ring of shared memory; one or
// two warpgroups multiply. Operands are bf16, sums are f32. A product may be
// several with one left operand (columns one after the other), or a gate and what
// it gates. Where tiles are fewer than the card's units, the blocks of a cluster
// share k and add their sums in order.

// Map is a tensor map of the driver.
struct __align__(64) Map {
  u64 v[16];
};

// Wg is what a product computes. At most three parts.
struct Wg {
  Map a, b[3]; // x[rows,k], w[n,k]
  float *y[3]; // [rows,n] results in f32, or 0
  u16 *h[3];   // the same in bf16, or 0
  const float *bias[3];
  const int *bind;
  Dim rows;
  Dim k;
  int n[3];
  int parts;
  int glu;   // act(part 0) * part 1
  int act;   // -1: none
  int early; // weights are there before the kernels before this one have ended
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
__device__ __forceinline__ void wgmma(float (&d)[32], u64 a, u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
               "}, %32, %33, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
               : "l"(a), "l"(b));
}
__device__ __forceinline__ void wgmma(float (&d)[64], u64 a, u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
               "}, %64, %65, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
                 "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                 "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
                 "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
               : "l"(a), "l"(b));
}
__device__ __forceinline__ void wgmma(float (&d)[128], u64 a, u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
               "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
               "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
               "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
               "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
               "}, %128, %129, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
                 "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                 "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
                 "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
                 "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
                 "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
                 "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
                 "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
                 "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
                 "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
                 "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
                 "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
               : "l"(a), "l"(b));
}

__device__ __forceinline__ void bar_init(u32 bar, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(n)); }
__device__ __forceinline__ void bar_expect(u32 bar, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory"); }
__device__ __forceinline__ void bar_arrive(u32 bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory"); }
__device__ __forceinline__ void bar_wait(u32 bar, int phase) {
  u32 done;
  do asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n" : "=r"(done) : "r"(bar), "r"(phase) : "memory");
  while (!done);
}
// A box of rows x 64 values into shared memory, in lines of 128 swizzled bytes.
__device__ __forceinline__ void load_box(u32 to, const Map *map, u32 bar, int col, int row) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to), "l"(map), "r"(bar), "r"(col), "r"(row) : "memory");
}
// What wgmma reads: rows of 64 values, eight rows per 1024 bytes.
__device__ __forceinline__ u64 tile_at(u32 at) { return (u64)((at & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62; }

// Bias, activation and gate of the sums of a warpgroup. Thread: rows lane/4 and
// lane/4 + 8 of a warp's 16, columns 8j + lane%4*2 and the next.
template <int BN> __device__ __forceinline__ void end_of_product(const Wg &p, int part, float (&d)[BN / 2], int col0) {
  int q = threadIdx.x % 4 * 2;
#pragma unroll
  for (int j = 0; j < BN / 8; j++) {
    int second = p.glu && j >= BN / 16, at = part + second, c = col0 + 8 * (second ? j - BN / 16 : j) + q;
    const float *bias = p.bias[at];
    if (bias && c + 1 < p.n[at]) {
      float b0 = bias[c], b1 = bias[c + 1];
      d[4 * j] += b0, d[4 * j + 1] += b1, d[4 * j + 2] += b0, d[4 * j + 3] += b1;
    } else if (bias && c < p.n[at]) d[4 * j] += bias[c], d[4 * j + 2] += bias[c];
  }
  if (p.glu) {
    act_all<BN / 4>(p.act, d);
#pragma unroll
    for (int i = 0; i < BN / 4; i++) d[i] *= d[i + BN / 4];
  } else act_all<BN / 2>(p.act, d);
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

template <int BN> __device__ __forceinline__ void store_product(const Wg &p, int part, float (&d)[BN / 2], int row, int m, int col0) {
  int n = p.n[part], q = threadIdx.x % 4, width = p.glu ? BN / 2 : BN;
  float *y = p.y[part];
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
    if (h) // n is a multiple of 8
#pragma unroll
      for (int j = 0; j < BN / 8; j += 4) {
        if (8 * j >= width) break;
        u32 u[4];
        for (int i = 0; i < 4; i++) u[i] = bf16_pair(d[4 * (j + i) + 2 * e], d[4 * (j + i) + 2 * e + 1]);
        transpose4(u);
        int c = col0 + 8 * (j + q);
        if (r < m && c < n) *(uint4 *)(h + (u64)r * n + c) = {u[0], u[1], u[2], u[3]};
      }
  }
}

// The sums of the blocks of a cluster, which lie in their shared memory. A block
// adds some rows of all, in the order of k.
template <int BM, int BN> __device__ __forceinline__ void join_splits(const Wg &p, int part, u32 stage, int splits, int m0, int m, int col0) {
  int n = p.n[part], width = p.glu ? BN / 2 : BN, per = BM / splits, rank = blockIdx.y;
  for (int i = threadIdx.x; i < per * (width / 8); i += BM * 2) {
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
    if (p.h[part]) *(uint4 *)(p.h[part] + to) = {bf16_pair(v[0][0], v[0][1]), bf16_pair(v[0][2], v[0][3]), bf16_pair(v[0][4], v[0][5]), bf16_pair(v[0][6], v[0][7])};
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

// BM x BN results at a time; a warpgroup has 64 rows. A block takes tiles in turns,
// and the next one's operands are on their way while it ends one.
template <int BM, int BN, int STAGES> __device__ __forceinline__ void product(const Wg &p) {
  extern __shared__ __align__(1024) u8 ring[];
  __shared__ __align__(8) u64 bars[2 * STAGES];
  constexpr int WGS = BM / 64, A = BM * 128, B = BN * 128;
  int m = size(p.rows, p.bind), width = p.glu ? BN / 2 : BN, tiles[3], all = 0;
#pragma unroll
  for (int i = 0; i < 3; i++) all += tiles[i] = i < (p.glu ? 1 : p.parts) ? (p.n[i] + width - 1) / width : 0;
  int mt = (m + BM - 1) / BM, splits = gridDim.y;
  if (blockIdx.x >= mt * all) {
    grid_wait();
    return;
  }
  int kt = (size(p.k, p.bind) + 63) / 64, from = kt * blockIdx.y / splits, iters = kt * (blockIdx.y + 1) / splits - from;
  u32 base = (smem_at(ring) + 1023) & ~1023, full = smem_at(bars), empty = full + 8 * STAGES;
  int warp = threadIdx.x / 32;
  if (threadIdx.x == 0)
    for (int i = 0; i < STAGES; i++) bar_init(full + 8 * i, 1), bar_init(empty + 8 * i, WGS);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
  auto tile = [&](int id) { return tile_of(id, mt, tiles, BM, width); };

  if (warp == WGS * 4) {
    if (threadIdx.x % 32) return;
    asm volatile("prefetch.tensormap [%0];" ::"l"(&p.a) : "memory");
    auto weights = [&](const Tile &t, int i, int g) { // step i of a tile, g of all
      u32 to = base + g % STAGES * (A + B) + A, bar = full + 8 * (g % STAGES);
      int col = (from + i) * 64;
      bar_expect(bar, A + B);
      load_box(to, &p.b[t.part], bar, col, t.n0);
      if (p.glu) load_box(to + B / 2, &p.b[1], bar, col, t.n0);
    };
    auto rows = [&](const Tile &t, int i, int g) { load_box(base + g % STAGES * (A + B), &p.a, full + 8 * (g % STAGES), (from + i) * 64, t.m0); };
    Tile t = tile(blockIdx.x);
    int begun = min(iters, STAGES), g = begun;
    if (!p.early) grid_wait();
    for (int i = 0; i < begun; i++) weights(t, i, i);
    if (p.early) grid_wait();
    for (int i = 0; i < begun; i++) rows(t, i, i);
    for (int id = blockIdx.x, i = begun; id < mt * all; id += gridDim.x, i = 0) {
      t = tile(id);
      for (; i < iters; i++, g++) {
        if (g >= STAGES) bar_wait(empty + 8 * (g % STAGES), (g / STAGES - 1) & 1);
        weights(t, i, g);
        rows(t, i, g);
      }
    }
    return;
  }
  grid_wait();
  auto release = [&](int stage) { // by one thread of each warpgroup
    if (threadIdx.x % 128 == 0) bar_arrive(empty + 8 * stage);
  };
  int wg = warp / 4, lane = threadIdx.x % 32, row = wg * 64 + warp % 4 * 16 + lane / 4, g = 0;
  for (int id = blockIdx.x; id < mt * all; id += gridDim.x) {
    Tile t = tile(id);
    float d[BN / 2];
#pragma unroll
    for (int i = 0; i < BN / 2; i++) d[i] = 0;
    for (int i = 0; i < iters; i++, g++) {
      int s = g % STAGES;
      u64 a = tile_at(base + s * (A + B) + wg * 8192), b = tile_at(base + s * (A + B) + A);
      bar_wait(full + 8 * s, g / STAGES & 1);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int k = 0; k < 4; k++) wgmma(d, a + 2 * k, b + 2 * k);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      if (i > 0) release((g - 1) % STAGES);
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int i = 0; i < BN / 2; i++) asm volatile("" : "+f"(d[i])::"memory");
    if (splits == 1) {
      release((g - 1) % STAGES);
      end_of_product<BN>(p, t.part, d, t.n0);
      store_product<BN>(p, t.part, d, t.m0 + row, m, t.n0);
      continue;
    }
    // Blocks of a cluster have one tile.
    asm volatile("bar.sync 1, %0;" ::"n"(WGS * 128) : "memory"); // nobody reads the ring any more
#pragma unroll
    for (int j = 0; j < BN / 8; j++)
#pragma unroll
      for (int e = 0; e < 2; e++)
        *(float2 *)(ring + (base - smem_at(ring)) + ((row + 8 * e) * (BN + 8) + 8 * j + lane % 4 * 2) * 4) = {d[4 * j + 2 * e], d[4 * j + 2 * e + 1]};
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    join_splits<BM, BN>(p, t.part, base, splits, t.m0, m, t.n0);
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); // others read this block's sums
  }
}
#define PRODUCT(BM, BN, STAGES, BLOCKS) \
  KERNEL __launch_bounds__(BM * 2 + 32, BLOCKS) k_wg_##BM##_##BN(const __grid_constant__ Wg p) { product<BM, BN, STAGES>(p); }
#else
#define PRODUCT(BM, BN, STAGES, BLOCKS) \
  KERNEL k_wg_##BM##_##BN(const __grid_constant__ Wg p) {}
#endif
PRODUCT(128, 256, 4, 1)
PRODUCT(128, 128, 3, 2)
PRODUCT(64, 128, 4, 2)
PRODUCT(64, 64, 6, 2)

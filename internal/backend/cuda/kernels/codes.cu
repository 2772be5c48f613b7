// Products of a single row with weights in blocks of codes, on the integers of the
// tensor cores. A tile is 8 pairs of rows of weights: the first rows of the pairs are
// the upper half of a 16-row operand, the second rows its lower half. Warps share the k
// of a tile, and groups of them take tiles side by side. What all warps multiply at once
// is a round. A warp takes the same parts of k of every tile that it takes.
//
// A ninth warp is the producer: it copies rounds into a ring of stages, the first ones
// before the kernels before this one have ended. Most of these kernels take 2 to 3
// microseconds, so all that does not depend on x is computed before x is there.
//
// x is a row of codes (row_codes.cu), whose planes are two columns of the other operand.
// Each block has its own scale, so sums of four blocks go to different columns of one
// result: each lane then holds the sums of one block for two rows, and all lanes scale
// at once. Columns of other blocks are 0.
//
// Of types with 32 values per block a lane holds whole blocks of both rows, scale and
// all: a product takes 8 values of each of four blocks. Of types with long blocks, a
// product takes all 32 values of one of them.

constexpr int CODE_STAGES = 8; // rounds in the ring, at most

// What a warp takes of a row at a time. The host knows VALUES and SIZE too (codes.go).
template <int TYPE> struct CodeTile {
  static constexpr int VALUES = 256;
  static constexpr int SIZE = TYPE == Q8_0 ? 8 * 34 : TYPE == Q4_0 ? 8 * 18 : TYPE == Q4_1 ? 8 * 20 : TYPE == Q4_K ? 144 : 210;
  static constexpr bool SHORT = TYPE == Q8_0 || TYPE == Q4_0 || TYPE == Q4_1; // 32 values per block
  // Short blocks of 2 bytes more than words: a lane takes neighbours, which together are
  // words, and no two lanes read the same bank.
  static constexpr bool NEIGHBOURS = TYPE == Q8_0 || TYPE == Q4_0;
  static constexpr int BLOCK = TYPE == Q8_0 ? 34 : TYPE == Q4_0 ? 18 : 20;
  static constexpr int RAW = TYPE == Q8_0 ? 17 : TYPE == Q4_0 ? 9 : TYPE == Q4_1 ? 10 : 1; // words of a lane per row
  static constexpr int PRODUCTS = TYPE == Q6_K ? 2 : 4; // per set: Q6_K has a scale per 16 values
  static constexpr int SETS = VALUES / 32 / PRODUCTS;

  // The block of a part that lane t of four holds in a set of short blocks.
  static __device__ __forceinline__ int block(int s, int t) { return NEIGHBOURS ? 2 * t + s : 4 * s + t; }
};

// The part of x that a lane multiplies: its words of the second operand, and what the
// block needs whose sums it gets.
template <int TYPE> struct LanePart {
  using S = CodeTile<TYPE>;
  static constexpr int WORDS = S::SHORT ? 8 : TYPE == Q6_K ? 1 : 2;
  u32 word[S::SETS][WORDS];
  float unit[S::SETS];
  int sum[S::SETS];
  u32 live; // bits: the set's block of the lane is within k

  __device__ __forceinline__ void take(const RowCodes &x, int part, int blocks) {
    int lane = threadIdx.x % 32, t = lane % 4;
    live = 0;
#pragma unroll
    for (int s = 0; s < S::SETS; s++) {
      int set = part * S::SETS + s, block = S::SHORT ? 8 * part + S::block(s, t) : 4 * set + t; // whose sums the lane gets
      if (TYPE == Q6_K) {
        word[s][0] = x.words[(2 * set + lane / 16) * 16 + lane / 4 % 2 * 8 + 2 * t + lane / 8 % 2];
        unit[s] = x.unit[2 * set + t / 2], sum[s] = x.sum[4 * set + t];
        live |= 1u << s;
        continue;
      }
      if constexpr (S::SHORT) {
        // Columns of the lane's block, in the lanes that hold it; 0 in others.
        const uint4 *w = (const uint4 *)(x.words + block * 16 + lane / 4 % 2 * 8);
        uint4 a = {0, 0, 0, 0}, b = a;
        if (lane / 8 == t) a = w[0], b = w[1];
        word[s][0] = a.x, word[s][1] = a.y, word[s][2] = a.z, word[s][3] = a.w;
        word[s][4] = b.x, word[s][5] = b.y, word[s][6] = b.z, word[s][7] = b.w;
      } else {
        uint2 w = *(const uint2 *)(x.words + (4 * set + lane / 8) * 16 + lane / 4 % 2 * 8 + 2 * t);
        word[s][0] = w.x, word[s][WORDS - 1] = w.y;
      }
      int2 u = ((const int2 *)x.sum)[block];
      unit[s] = x.unit[block], sum[s] = u.x + u.y;
      live |= (u32)(block < blocks) << s;
    }
  }

  // The second operand of product m of set s.
  __device__ __forceinline__ uint2 columns(int s, int m) const {
    int mine = threadIdx.x % 32 / 8;
    if constexpr (S::SHORT) return {word[s][2 * m], word[s][2 * m + 1]};
    if (TYPE == Q6_K) return {mine == 2 * m ? word[s][0] : 0, mine == 2 * m + 1 ? word[s][0] : 0};
    return {mine == m ? word[s][0] : 0, mine == m ? word[s][WORDS - 1] : 0};
  }
};

extern __shared__ __align__(16) u8 code_ring[]; // [stages][rows of a round][pitch], x, where rows begin [stages][rows], ends [pairs], sums [split][16 * tiles]

__device__ __forceinline__ u32 ring_word(u32 at) { return *(const u32 *)(code_ring + at); }
__device__ __forceinline__ float ring_half(u32 at) { return half_to_float(*(const u16 *)(code_ring + at)); }

// A row of long blocks in the ring that begins at an even byte. Words from constant
// even bytes on: of 4-byte types they are aligned.
template <int TYPE> struct CodeRow {
  u32 base[2], pick[2]; // base: with 4 bytes per lane of four, rounded down, from 0 and from 2 on

  __device__ __forceinline__ CodeRow(u32 row) {
    u32 mine = row + threadIdx.x % 4 * 4;
    base[0] = mine & ~3u, base[1] = mine + 2 & ~3u;
    pick[0] = mine & 2 ? 0x5432 : 0x3210, pick[1] = mine & 2 ? 0x3210 : 0x5432;
  }
  __device__ __forceinline__ u32 word(int c) const {
    if (TYPE == Q4_K) return ring_word(base[0] + c);
    int odd = c / 2 % 2;
    u32 p = base[odd] + c - 2 * odd;
    return __byte_perm(ring_word(p), ring_word(p + 4), pick[odd]);
  }

  // The codes that a lane holds of product m of set s: values 4t on and 16+4t on.
  __device__ __forceinline__ void codes(int s, int m, u32 &first, u32 &second) const {
    const u32 low = 0x0f0f0f0fu;
    if (TYPE == Q4_K) {
      int b = 4 * s + m, c = 16 + b / 2 * 32;
      first = word(c) >> (b % 2 * 4) & low, second = word(c + 16) >> (b % 2 * 4) & low;
    } else {
      int h = s / 2, q = s % 2 * 2 + m, c = 64 * h + 32 * (q % 2), e = 128 + 32 * h;
      auto six = [&](u32 w, u32 top) { return (q < 2 ? w : w >> 4) & low | (q == 0 ? top << 4 : q == 1 ? top << 2 : q == 2 ? top : top >> 2) & 0x30303030u; };
      first = six(word(c), word(e)), second = six(word(c + 16), word(e + 16));
    }
  }
};

// Short blocks of a lane, as they lie in the ring from a multiple of 4 bytes on.
template <int TYPE> struct ShortBlocks {
  using S = CodeTile<TYPE>;
  u32 w[S::RAW];

  __device__ __forceinline__ void read(u32 at) {
    int t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < S::RAW; i++) w[i] = ring_word(at + (S::NEIGHBOURS ? 4 * S::RAW * t + 4 * i : 20 * t + i / 5 * 80 + i % 5 * 4));
  }
  // The codes of set s by products, values 4m on and 16+4m on, and the scale, with a
  // minimum above it where the type has one.
  __device__ __forceinline__ u32 codes(int s, u32 (&to)[4][4], int row) const {
    constexpr int HALF = S::RAW / 2; // word in which the second of two neighbours begins
    auto word = [&](int i) {
      if (!S::NEIGHBOURS) return w[(5 * s + 1 + i) % S::RAW];
      return s ? w[HALF + 1 + i] : __byte_perm(w[i], w[i + 1], 0x5432);
    };
#pragma unroll
    for (int m = 0; m < 4; m++) {
      if (TYPE == Q8_0) to[m][row] = word(m), to[m][2 + row] = word((4 + m) % (2 * 4));
      else to[m][row] = word(m) & 0x0f0f0f0fu, to[m][2 + row] = word(m) >> 4 & 0x0f0f0f0fu;
    }
    return !S::NEIGHBOURS ? w[5 * s % S::RAW] : s ? w[HALF] >> 16 : w[0];
  }
};

// What a lane's block in set s adds to the row from the sums of both planes: a short
// block with this scale, or a long one of the row whose part begins there.
template <int TYPE> __device__ __forceinline__ float scaled_sums(u32 scale, u32 at, int s, int high, int low, float unit, int sum) {
  int t = threadIdx.x % 4, dot = high * 256 + low;
  if (TYPE == Q8_0) return half_to_float(scale) * unit * dot;
  if (TYPE == Q4_0) return half_to_float(scale) * unit * (dot - 8 * sum);
  if (TYPE == Q4_1) return unit * (half_to_float(scale) * dot + half_to_float(scale >> 16) * sum);
  if (TYPE == Q4_K) {
    // Six bits per scale: part j has them in one byte if j < 4, in two others.
    u32 dm = ring_word(at), a = ring_word(at + 4), b = ring_word(at + 8), c = ring_word(at + 12);
    int sh = 8 * t;
    int sd = s == 0 ? a >> sh & 63 : c >> sh & 15 | (a >> sh >> 6 & 3) << 4;
    int sm = s == 0 ? b >> sh & 63 : c >> sh >> 4 & 15 | (b >> sh >> 6 & 3) << 4;
    return unit * (half_to_float(dm) * sd * dot - half_to_float(dm >> 16) * sm * sum);
  }
  int of16 = (signed char)code_ring[at + 192 + 4 * s + t];
  return ring_half(at + 208) * of16 * (unit * (dot - 32 * sum));
}

template <int TYPE> __device__ __forceinline__ void multiply_codes(int (&sum)[4], const u32 (&a)[4], uint2 b) {
  if (TYPE == Q8_0)
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
  else
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}

// CodeShare is what a block of the grid takes: pairs from first on, in rounds.
struct CodeShare {
  int first, mine, tiles, parts, chunks, rounds; // chunks: rounds per tile

  __device__ __forceinline__ CodeShare(const One &p, int values) {
    first = blockIdx.x * p.quota + min((int)blockIdx.x, p.rest), mine = p.quota + ((int)blockIdx.x < p.rest), tiles = (mine + 7) / 8;
    parts = (p.k + values - 1) / values, chunks = (parts + p.split - 1) * p.inverse >> 16;
    rounds = (tiles + p.groups - 1) / p.groups * chunks;
  }
};

// CodeBars are a block's barriers: rounds of the ring are there, and may be written over.
struct CodeBars {
  u64 full[CODE_STAGES], empty[CODE_STAGES];
};

// What the last warp of a block does: it copies rounds into the ring, and finds out where
// results go. begins has by how many bytes a row lies behind a multiple of 16.
template <int TYPE> __device__ __forceinline__ void copy_codes(const One &p, const CodeShare &c, CodeBars &bars, u32 *begins, End *ends) {
  using S = CodeTile<TYPE>;
  int lane = threadIdx.x % 32, rows = 16 * p.groups, length = (int)row_bytes(TYPE, p.k), tile = 0, chunk = 0, stage = 0, phase = 1;
  auto fetch = [&](int round) {
    if (round >= p.stages) bar_wait(smem_at(bars.empty + stage), phase);
    int offset = chunk * p.split * S::SIZE, bytes = min(p.split * S::SIZE, length - offset);
#pragma unroll 1
    for (int j = lane; j < (rows + 31 & ~31); j += 32) {
      int i = 8 * (tile + j / 16) + j % 8, n = 0;
      u64 at = 0;
      if (j < rows && i < c.mine) {
        Pair a = pair_at<TYPE>(p, c.first + i);
        at = (u64)(j & 8 ? a.w[1] : a.w[0]) + offset;
        n = (int)(at & 15) + bytes + 15 & ~15;
      }
      if (j < rows) begins[stage * rows + j] = (u32)at & 15;
      copy_lanes(smem_at(code_ring) + (stage * rows + j) * p.pitch, at & ~15ull, n, smem_at(bars.full + stage));
    }
    if (++chunk == c.chunks) chunk = 0, tile += p.groups;
    if (++stage == p.stages) stage = 0, phase ^= 1;
  };
  int round = 0;
#pragma unroll 1
  while (round < min(p.stages, c.rounds)) fetch(round++);
#pragma unroll 1
  for (int i = lane; i < c.mine; i += 32) ends[i] = end_of(p, pair_at<TYPE>(p, c.first + i), 0);
#pragma unroll 1
  while (round < c.rounds) fetch(round++);
}

template <int TYPE> __device__ __forceinline__ void one_codes(STAMP, const One &p) {
  using S = CodeTile<TYPE>;
  __shared__ CodeBars bars;
  __shared__ float squares[CODE_WARPS];
  grid_next();
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = warp * p.inverse >> 16, share = warp - group * p.split, rows = 16 * p.groups;
  const CodeShare c(p, S::VALUES);
  int blocks = p.k / 32, room = c.parts * (S::VALUES / 32);
  u8 *behind = code_ring + p.stages * rows * p.pitch;
  const RowCodes x = {(u32 *)behind, (float *)(behind + 64 * room), (int *)(behind + 68 * room)};
  u32 *begins = (u32 *)(behind + 76 * room);
  End *ends = (End *)(begins + p.stages * rows);
  float *sums = (float *)(ends + c.mine);
  if (threadIdx.x < CODE_STAGES) bar_init(smem_at(bars.full + threadIdx.x), rows + 31 & ~31), bar_init(smem_at(bars.empty + threadIdx.x), p.groups * p.split);
  bars_ready();
  __syncthreads();
  if (!p.early) grid_wait();
  if (warp == CODE_WARPS) {
    copy_codes<TYPE>(p, c, bars, begins, ends);
    asm volatile("bar.arrive 2, 288;" ::: "memory");
    return;
  }

  u32 codes[S::SETS][S::PRODUCTS][4], scales[S::SETS][2], upper = 0, lower = 0; // of a tile, and where its rows are
  ShortBlocks<TYPE> raw[2];
  int stage = 0, phase = 0, at = group < p.groups ? group : c.tiles, now = share, round = 0;
  // The rows of a round as they lie, and what products take of them. A warp without a part
  // of k waits too: otherwise it could free a place twice before others have freed it.
  auto read = [&]() {
    bar_wait(smem_at(bars.full + stage), phase);
    if (now >= c.parts) return;
    int row = stage * rows + 16 * group + lane / 4;
    upper = row * p.pitch + share * S::SIZE + begins[row], lower = (row + 8) * p.pitch + share * S::SIZE + begins[row + 8];
    if constexpr (S::SHORT) raw[0].read(upper), raw[1].read(lower);
  };
  auto unpack = [&]() {
    if (now >= c.parts) return;
    if constexpr (S::SHORT) {
#pragma unroll
      for (int s = 0; s < S::SETS; s++) scales[s][0] = raw[0].codes(s, codes[s], 0), scales[s][1] = raw[1].codes(s, codes[s], 1);
    } else {
      CodeRow<TYPE> first(upper), second(lower);
#pragma unroll
      for (int s = 0; s < S::SETS; s++)
#pragma unroll
        for (int m = 0; m < S::PRODUCTS; m++) first.codes(s, m, codes[s][m][0], codes[s][m][2]), second.codes(s, m, codes[s][m][1], codes[s][m][3]);
    }
  };
  // The place of a round is free when all warps have read it.
  auto free = [&](int round, int stage) {
    if (round + p.stages >= c.rounds) return;
    __syncwarp();
    if (lane == 0) bar_arrive(smem_at(bars.empty + stage));
  };
  if (at < c.tiles) read(), unpack(); // while the kernels before this one run

  if (p.codes & READ_CODES) {
    if (p.early) grid_wait();
    read_codes(p, x, share, c.parts);
  } else {
    if (p.k <= 4 * CODE_THREADS) row_codes<1>(stamp_, p, x, squares);
    else row_codes<2>(stamp_, p, x, squares);
    codes_sync();
  }
  LanePart<TYPE> mult;
  mult.take(x, min(share, c.parts - 1), blocks);
  float acc[2] = {0, 0};
  int chunk = 0;
#pragma unroll 1
  while (at < c.tiles) {
    int done = at, was = stage;
    bool live = now < c.parts, whole = ++chunk == c.chunks;
    now += p.split;
    if (whole) chunk = 0, now = share, at += p.groups;
    if (++stage == p.stages) stage = 0, phase ^= 1;
    if (live) {
      int sum[S::SETS][4];
#pragma unroll
      for (int m = 0; m < S::PRODUCTS; m++)
#pragma unroll
        for (int s = 0; s < S::SETS; s++) {
          if (m == 0) sum[s][0] = sum[s][1] = sum[s][2] = sum[s][3] = 0;
          multiply_codes<TYPE>(sum[s], codes[s][m], mult.columns(s, m));
        }
#pragma unroll
      for (int s = 0; s < S::SETS; s++) {
        float u = scaled_sums<TYPE>(scales[s][0], upper, s, sum[s][0], sum[s][1], mult.unit[s], mult.sum[s]), v = scaled_sums<TYPE>(scales[s][1], lower, s, sum[s][2], sum[s][3], mult.unit[s], mult.sum[s]);
        if (mult.live >> s & 1) acc[0] += u, acc[1] += v;
      }
    }
    free(round++, was);
    if (at < c.tiles) {
      read(), unpack();
      if (c.chunks > 1 && now < c.parts) mult.take(x, now, blocks);
    }
    if (!whole) continue;
    // Both sums at once: neighbours exchange what the other adds up.
    float sum = (lane & 1 ? acc[1] : acc[0]) + __shfl_xor_sync(~0u, lane & 1 ? acc[0] : acc[1], 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (lane % 4 < 2) sums[16 * c.tiles * share + 2 * (8 * done + lane / 4) + lane % 2] = sum;
    acc[0] = acc[1] = 0;
  }
  asm volatile("bar.sync 2, 288;" ::: "memory"); // all have their sums, and ends are there
  if (threadIdx.x >= c.mine) return;
  const End end = ends[threadIdx.x];
  float2 s = {0, 0};
  float factor = 1;
#pragma unroll
  for (int w = 0; w < CODE_WARPS; w++)
    if (w < p.split) {
      float2 part = *(const float2 *)(sums + 16 * c.tiles * w + 2 * threadIdx.x);
      s.x += part.x, s.y += part.y;
    }
  if (factor_later(p)) {
    float all = 0;
#pragma unroll
    for (int w = 0; w < CODE_WARPS; w++) all += squares[w];
    factor = rsqrtf(all / p.k + p.eps);
  }
  if (p.codes & WRITE_CODES) end_codes(p, c.first + threadIdx.x, gated(p, end, factor * s.x, factor * s.y));
  else end_sums(p, end, factor * s.x, factor * s.y);
}

#define ONE_CODES(name, TYPE) \
  KERNEL __launch_bounds__(288, 2) k_codes_##name(STAMP, const __grid_constant__ One p) { one_codes<TYPE>(stamp_, p); }
ONE_CODES(q8_0, Q8_0)
ONE_CODES(q4_0, Q4_0)
ONE_CODES(q4_1, Q4_1)
ONE_CODES(q4_k, Q4_K)
ONE_CODES(q6_k, Q6_K)

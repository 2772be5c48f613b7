// Products of a single row with weights in blocks of codes, on the integers of the
// tensor cores. A block has 8 warps. A tile is 8 pairs of rows of weights: the first
// rows of the pairs are the upper half of a 16-row operand, the second rows its lower
// half. A warp takes the same parts of k of every tile that it takes. Rows come by
// asynchronous copies of 16 bytes, as in stream.cu.
//
// x is rounded to 15 bits per block of 32, as the sum of two planes of 8 bits, which
// are two columns of the other operand. Each block has its own scale, so sums of four
// blocks go to different columns of one result: each lane then holds the sums of one
// block for two rows, and all lanes scale at once. Columns of other blocks are 0.
//
// Of types with 32 values per block a lane holds a whole block of both rows, scale and
// all: a product takes 8 values of each of four blocks. Of types with long blocks, a
// product takes all 32 values of one of them.

constexpr int CODE_WARPS = 8;

// What a warp takes of a row at a time, and how many tiles are under way. The host
// knows these numbers too (codes.go).
template <int TYPE> struct CodeTile {
  static constexpr int VALUES = 256;
  static constexpr int SIZE = TYPE == Q8_0 ? 8 * 34 : TYPE == Q4_0 ? 8 * 18 : TYPE == Q4_1 ? 8 * 20 : TYPE == Q4_K ? 144 : 210;
  static constexpr int PITCH = TYPE == Q8_0 ? 304 : TYPE == Q6_K ? 240 : 176; // an odd number of 16 bytes: rows lie in different banks
  static constexpr int CHUNKS = (SIZE + 29) / 16;        // of 16 bytes, from an even byte on
  static constexpr int LANES = CHUNKS > 16 ? 32 : 16, ROWS = 32 / LANES; // that copy a row, and what a warp copies at once
  static constexpr bool SHORT = TYPE == Q8_0 || TYPE == Q4_0 || TYPE == Q4_1; // 32 values per block
  static constexpr int BLOCK = TYPE == Q8_0 ? 34 : TYPE == Q4_0 ? 18 : 20, WORDS = TYPE == Q8_0 ? 9 : 5; // of a short block: bytes, and words that contain them
  static constexpr int STAGES = TYPE == Q8_0 || TYPE == Q6_K ? 2 : 3, STAGE = CODE_WARPS * 16 * PITCH;
  static constexpr int PRODUCTS = TYPE == Q6_K ? 2 : 4; // per set: Q6_K has a scale per 16 values
  static constexpr int SETS = VALUES / 32 / PRODUCTS;
};

// x in shared memory, and in memory where the step before wrote it so. Per block of 32:
// two planes of 8 words; a unit; and the sums of both halves' integers.
struct RowCodes {
  u32 *words;  // [blocks][2][8]
  float *unit; // [blocks]
  int *sum;    // [blocks][2]
};

// Blocks of 32 values become integers of 15 bits, in units of the largest / CODE_RANGE.
// A value becomes the low bits of CODE_ZERO as a float: conversions are slow.
constexpr float CODE_RANGE = 127 * 256, CODE_ZERO = 12582912; // 1.5 * 2^23
__device__ __forceinline__ float code_factor(float most) { return most > 1e-30f ? __fdividef(CODE_RANGE, most) : 0; }
__device__ __forceinline__ u32 code_of(float v, float factor) { return __float_as_uint(__fmaf_rn(v, factor, CODE_ZERO)); }

// Rounds eight values from i on. Whole warps call it; lanes from k on hold nothing.
__device__ __forceinline__ void put_codes(const RowCodes &x, int k, int i, const float4 &v, const float4 &w) {
  float most = fmaxf(fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))), fmaxf(fmaxf(fabsf(w.x), fabsf(w.y)), fmaxf(fabsf(w.z), fabsf(w.w))));
#pragma unroll
  for (int o = 1; o < 4; o *= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
  float factor = code_factor(most), f[8] = {v.x, v.y, v.z, v.w, w.x, w.y, w.z, w.w};
  u32 q[8], high[2], low[2];
  int sum = 0;
#pragma unroll
  for (int e = 0; e < 8; e++) q[e] = code_of(f[e], factor), sum += (int)(q[e] - __float_as_uint(CODE_ZERO));
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const u32 *r = q + 4 * e;
    low[e] = __byte_perm(__byte_perm(r[0], r[1], 0x40), __byte_perm(r[2], r[3], 0x40), 0x5410);
    high[e] = __byte_perm(__byte_perm(r[0] + 128, r[1] + 128, 0x51), __byte_perm(r[2] + 128, r[3] + 128, 0x51), 0x5410);
  }
  sum += __shfl_xor_sync(~0u, sum, 1);
  if (i >= k) return;
  uint2 *to = (uint2 *)(x.words + (u32)i / 32 * 16 + (u32)i % 32 / 4);
  to[0] = {high[0], high[1]}, to[4] = {low[0], low[1]};
  if (i % 16 == 0) x.sum[(u32)i / 16] = sum;
  if (i % 32 == 0) x.unit[(u32)i / 32] = most * (1 / CODE_RANGE);
}

// The bytes of a row of codes of k values, a multiple of 32.
__device__ __forceinline__ int codes_bytes(int k) { return k / 32 * 76; }

// The ends of gated pairs as a row of codes. A block has whole blocks of 32 pairs.
__device__ __forceinline__ void end_codes(const One &p, int first, int mine, const float *sums) {
  u8 *words = (u8 *)p.y[0];
  float *unit = (float *)(words + p.n[0] / 32 * 64);
  int *halves = (int *)(unit + p.n[0] / 32), lane = threadIdx.x % 32;
#pragma unroll 1
  for (int i = threadIdx.x; i < mine; i += 32 * CODE_WARPS) {
    float2 s = sums_of(p, sums, i);
    float v = gated(p, first + i, s.x, s.y), most = fabsf(v);
#pragma unroll
    for (int o = 1; o < 32; o *= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
    u32 q = code_of(v, code_factor(most));
    int sum = (int)(q - __float_as_uint(CODE_ZERO)), block = (first + i) / 32;
#pragma unroll
    for (int o = 1; o < 16; o *= 2) sum += __shfl_xor_sync(~0u, sum, o);
    words[64 * block + lane] = q + 128 >> 8, words[64 * block + 32 + lane] = q;
    if (lane % 16 == 0) halves[2 * block + lane / 16] = sum;
    if (lane == 0) unit[block] = most * (1 / CODE_RANGE);
  }
}

// Codes have a unit per block, so the factor of an RMS norm can be multiplied in later:
// then nobody waits for it.
__device__ __forceinline__ bool factor_later(const One &p) { return p.norm == 1 && !p.nb; }

// x + add, normed where there is a norm, as codes. Gains lie in shared memory where
// there was room for them: they came by the asynchronous copies before the last PENDING.
// Where the factor comes later, squares gets each warp's sum of squares.
template <int PENDING> __device__ __forceinline__ void row_codes(STAMP, const One &p, const float *gains, const RowCodes &x, float *squares) {
  constexpr int THREADS = 32 * CODE_WARPS, PER = 2048 / THREADS;
  if (p.codes & READ_CODES) { // of whole parts: they lie as in shared memory
    if (p.early) grid_wait();
#pragma unroll 1
    for (int i = 16 * threadIdx.x; i < codes_bytes(p.k); i += 16 * THREADS)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem_at(x.words) + i), "l"((const u8 *)p.x + i) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    return;
  }
#pragma unroll 1
  for (int first = 0; first < p.k; first += 8192) {
    float4 v[PER];
    if (p.early && first == 0) grid_wait();
    row_of<THREADS, 2, true>(v, p, first);
    float rstd = 1;
    if (factor_later(p)) {
      float sq = 0;
#pragma unroll
      for (int e = 0; e < PER; e++) {
        int i = four_at<THREADS, true>(threadIdx.x, e);
        if (i >= p.k) break;
        if (p.sum && blockIdx.x == 0) *(float4 *)(p.sum + i) = v[e];
        sq += v[e].x * v[e].x + v[e].y * v[e].y + v[e].z * v[e].z + v[e].w * v[e].w;
      }
      sq = warp_sum(sq);
      if (threadIdx.x % 32 == 0) squares[threadIdx.x / 32] = sq;
    } else if (p.norm) rstd = centred<THREADS, true>(v, p);
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); // a thread reads what it copied
#pragma unroll
    for (int e = 0; e < PER; e += 2) {
      int i = first + four_at<THREADS, true>(threadIdx.x, e);
      if (i - (int)threadIdx.x % 32 * 8 >= p.k) break; // for the whole warp
      if (p.norm && i < p.k) {
        const float4 *gain = (const float4 *)((gains ? gains : p.nw) + i);
        v[e] = scaled(p, i, v[e], gain[0], rstd), v[e + 1] = scaled(p, i + 4, v[e + 1], gain[1], rstd);
      }
      put_codes(x, p.k, i, v[e], v[e + 1]);
    }
  }
}

// The part of x that a lane multiplies: its words of the second operand, and what the
// block needs whose sums it gets.
template <int TYPE> struct LanePart {
  using S = CodeTile<TYPE>;
  static constexpr int WORDS = S::SHORT ? 8 : TYPE == Q6_K ? 1 : 2;
  u32 word[S::SETS][WORDS];
  float unit[S::SETS];
  int sum[S::SETS];
  u32 live; // bits: the set's block of the lane is within k

  __device__ __forceinline__ void take(const RowCodes &x, int part, int blocks, float factor) {
    int lane = threadIdx.x % 32, t = lane % 4;
    live = 0;
#pragma unroll
    for (int s = 0; s < S::SETS; s++) {
      int set = part * S::SETS + s;
      if (TYPE == Q6_K) {
        word[s][0] = x.words[(2 * set + lane / 16) * 16 + lane / 4 % 2 * 8 + lane / 8 % 2 * 4 + t];
        unit[s] = factor * x.unit[2 * set + t / 2], sum[s] = x.sum[4 * set + t];
        live |= 1u << s;
        continue;
      }
      if constexpr (S::SHORT) {
        // Columns of block t, in the lanes that hold it; 0 in others.
        const uint4 *w = (const uint4 *)(x.words + (4 * set + t) * 16 + lane / 4 % 2 * 8);
        uint4 lower = {0, 0, 0, 0}, upper = lower;
        if (lane / 8 == t) lower = w[0], upper = w[1];
        word[s][0] = lower.x, word[s][1] = lower.y, word[s][2] = lower.z, word[s][3] = lower.w;
        word[s][4] = upper.x, word[s][5] = upper.y, word[s][6] = upper.z, word[s][7] = upper.w;
      } else {
        const u32 *w = x.words + (4 * set + lane / 8) * 16 + lane / 4 % 2 * 8 + t;
        word[s][0] = w[0], word[s][WORDS - 1] = w[4];
      }
      int2 u = ((const int2 *)x.sum)[4 * set + t];
      unit[s] = factor * x.unit[4 * set + t], sum[s] = u.x + u.y;
      live |= (u32)(4 * set + t < blocks) << s;
    }
  }

  // The second operand of product m of set s.
  __device__ __forceinline__ uint2 columns(int s, int m) const {
    int mine = threadIdx.x % 32 / 8;
    if constexpr (S::SHORT) return {word[s][m], word[s][4 + m]};
    if (TYPE == Q6_K) return {mine == 2 * m ? word[s][0] : 0, mine == 2 * m + 1 ? word[s][0] : 0};
    return {mine == m ? word[s][0] : 0, mine == m ? word[s][WORDS - 1] : 0};
  }
};

extern __shared__ __align__(16) u8 code_ring[]; // [STAGES][CODE_WARPS][16][PITCH], x, addresses [tiles][8][2], sums [rows][split]

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

// A short block in the ring that begins at an even byte: its codes by products, values
// 4m on and 16+4m on, and its scale, with a minimum above it where the type has one.
template <int TYPE> __device__ __forceinline__ u32 short_block(u32 at, u32 (&codes)[4][4], int row) {
  using S = CodeTile<TYPE>;
  u32 w[S::WORDS], from = at & ~3u, pick = at & 2 ? 0x7654 : 0x5432;
#pragma unroll
  for (int i = 0; i < S::WORDS; i++) w[i] = ring_word(from + 4 * i);
#pragma unroll
  for (int m = 0; m < 4; m++) {
    auto word = [&](int i) { return TYPE == Q4_1 ? w[i + 1] : __byte_perm(w[i], w[i + 1], pick); };
    if (TYPE == Q8_0) codes[m][row] = word(m), codes[m][2 + row] = word((4 + m) % (S::WORDS - 1));
    else codes[m][row] = word(m) & 0x0f0f0f0fu, codes[m][2 + row] = word(m) >> 4 & 0x0f0f0f0fu;
  }
  return TYPE == Q4_1 ? w[0] : at & 2 ? w[0] >> 16 : w[0];
}

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

template <int TYPE> __device__ __forceinline__ void one_codes(STAMP, const One &p) {
  using S = CodeTile<TYPE>;
  constexpr int THREADS = 32 * CODE_WARPS;
  grid_next();
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = warp * p.inverse >> 16, share = warp - group * p.split;
  int first = blockIdx.x * p.quota + min((int)blockIdx.x, p.rest), mine = p.quota + ((int)blockIdx.x < p.rest), tiles = (mine + 7) / 8; // pairs of this block
  int parts = (p.k + S::VALUES - 1) / S::VALUES, blocks = p.k / 32, room = parts * (S::VALUES / 32), length = (int)row_bytes(TYPE, p.k);
  u8 *behind = code_ring + S::STAGES * S::STAGE;
  const RowCodes x = {(u32 *)behind, (float *)(behind + 64 * room), (int *)(behind + 68 * room)};
  ulonglong2 *rows = (ulonglong2 *)(behind + 76 * room);
  float *sums = (float *)(rows + 8 * tiles);
  u32 stages = warp * 16 * S::PITCH;

  Pair end;
  float sn = 0, cs = 1;
#pragma unroll 1
  for (int i = threadIdx.x; i < 8 * tiles; i += THREADS) {
    ulonglong2 at = {0, 0};
    if (i < mine) {
      Pair a = pair_at<TYPE>(p, first + i);
      at = {(u64)a.w[0], (u64)a.w[1]};
      if (i < THREADS) end = a;
    }
    rows[i] = at;
  }
  __syncthreads();
  int tile = group < p.groups ? group : tiles, part = share, to = 0; // what is asked for next
  auto fetch = [&]() {
    if (tile < tiles) {
      int offset = part * S::SIZE, bytes = min(S::SIZE, length - offset), chunk = lane % S::LANES * 16;
      u32 stage = smem_at(code_ring) + stages + to * S::STAGE + lane / S::LANES * S::PITCH + chunk;
#pragma unroll
      for (int j = 0; j < 8; j += S::ROWS) {
        ulonglong2 row = rows[8 * tile + j + lane / S::LANES];
#pragma unroll
        for (int r = 0; r < 2; r++) {
          u64 at = (r ? row.y : row.x) + offset;
          if (lane % S::LANES < S::CHUNKS && row.x && chunk < (int)(at & 15) + bytes)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(stage + (8 * r + j) * S::PITCH), "l"((at & ~15ull) + chunk) : "memory");
        }
      }
      if ((part += p.split) >= parts) part = share, tile += p.groups;
    }
    to = to + 1 == S::STAGES ? 0 : to + 1;
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  if (!p.early) grid_wait();
  // The last stage is asked for when gains were read.
  float *gains = p.norm && 4 * p.k <= S::STAGE ? (float *)(code_ring + (S::STAGES - 1) * S::STAGE) : 0;
#pragma unroll 1
  for (int i = 8 * threadIdx.x; gains && i < p.k; i += 8 * THREADS) asm volatile("cp.async.ca.shared.global [%0], [%1], 16;\ncp.async.ca.shared.global [%0+16], [%1+16], 16;" ::"r"(smem_at(gains + i)), "l"(p.nw + i) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
#pragma unroll 1
  for (int s = 0; s + 1 < S::STAGES; s++) fetch();
  if (threadIdx.x < mine && end.turn >= 0) angle(p.turn[end.part], 0, end.turn, sn, cs);

  u32 codes[S::SETS][S::PRODUCTS][4], scales[S::SETS][2], upper, lower; // of a tile, and where its rows are
  int stage = 0, at = group < p.groups ? group : tiles, now = share;
  auto unpack = [&]() {
    __syncwarp(); // all lanes' copies are there
    if (at >= tiles) return;
    ulonglong2 from = rows[8 * at + lane / 4];
    u32 place = stages + stage * S::STAGE + lane / 4 * S::PITCH;
    upper = place + ((u32)from.x + now * S::SIZE & 15), lower = place + 8 * S::PITCH + ((u32)from.y + now * S::SIZE & 15);
    if constexpr (S::SHORT) {
#pragma unroll
      for (int s = 0; s < S::SETS; s++) {
        u32 block = (4 * s + lane % 4) * S::BLOCK;
        scales[s][0] = short_block<TYPE>(upper + block, codes[s], 0), scales[s][1] = short_block<TYPE>(lower + block, codes[s], 1);
      }
      return;
    } else {
      CodeRow<TYPE> first(upper), second(lower);
#pragma unroll
      for (int s = 0; s < S::SETS; s++)
#pragma unroll
        for (int m = 0; m < S::PRODUCTS; m++) first.codes(s, m, codes[s][m][0], codes[s][m][2]), second.codes(s, m, codes[s][m][1], codes[s][m][3]);
    }
  };
  asm volatile("cp.async.wait_group %0;" ::"n"(S::STAGES - 2) : "memory");
  unpack(); // while the kernels before this one run
  __shared__ float squares[CODE_WARPS];
  row_codes<S::STAGES - 2>(stamp_, p, gains, x, squares);
  __syncthreads();
  fetch();
  float factor = 1;
  if (factor_later(p)) {
    float sq = 0;
#pragma unroll
    for (int w = 0; w < CODE_WARPS; w++) sq += squares[w];
    factor = 1 / sqrtf(sq / p.k + p.eps);
  }

  LanePart<TYPE> mult;
  mult.take(x, share, blocks, factor);
  float acc[2] = {0, 0};
#pragma unroll 1
  while (at < tiles) {
    if (parts > p.split) mult.take(x, now, blocks, factor);
#pragma unroll
    for (int s = 0; s < S::SETS; s++) {
      int sum[4] = {0, 0, 0, 0};
#pragma unroll
      for (int m = 0; m < S::PRODUCTS; m++) multiply_codes<TYPE>(sum, codes[s][m], mult.columns(s, m));
      float u = scaled_sums<TYPE>(scales[s][0], upper, s, sum[0], sum[1], mult.unit[s], mult.sum[s]), v = scaled_sums<TYPE>(scales[s][1], lower, s, sum[2], sum[3], mult.unit[s], mult.sum[s]);
      if (mult.live >> s & 1) acc[0] += u, acc[1] += v;
    }
    int done = at;
    stage = stage + 1 == S::STAGES ? 0 : stage + 1;
    bool whole = (now += p.split) >= parts;
    if (whole) now = share, at += p.groups;
    __syncwarp(); // all lanes have read the rows whose place is asked for next
    fetch();
    asm volatile("cp.async.wait_group %0;" ::"n"(S::STAGES - 1) : "memory");
    unpack();
    if (!whole) continue;
    // Both sums at once: neighbours exchange what the other adds up.
    float sum = (lane & 1 ? acc[1] : acc[0]) + __shfl_xor_sync(~0u, lane & 1 ? acc[0] : acc[1], 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (lane % 4 < 2 && 8 * done + lane / 4 < mine) sums[(2 * (8 * done + lane / 4) + lane % 2) * p.split + share] = sum;
    acc[0] = acc[1] = 0;
  }
  __syncthreads();
  if (p.codes & WRITE_CODES) end_codes(p, first, mine, sums);
  else end_pairs<TYPE, THREADS>(p, first, mine, end, sums, sn, cs);
}

#define ONE_CODES(name, TYPE) \
  KERNEL __launch_bounds__(256, 2) k_codes_##name(STAMP, const __grid_constant__ One p) { one_codes<TYPE>(stamp_, p); }
ONE_CODES(q8_0, Q8_0)
ONE_CODES(q4_0, Q4_0)
ONE_CODES(q4_1, Q4_1)
ONE_CODES(q4_k, Q4_K)
ONE_CODES(q6_k, Q6_K)

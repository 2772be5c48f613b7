// Products of a single row, with what comes before and after them in a decoder: a
// residual sum and its norm, an activation or a gate, rotation and the way into the
// cache. Compiled once per type of the weights and size of the row: up to ROOM values.
//
// At most three parts: matrices with one left operand. Teams of lanes of a group
// have two rows of weights each, which give two results: neighbours, a pair that
// rotates together, or a gate and what it gates. With CODES products are on integers.

#define ONE_LANES 128

// Puts the norm of x[k] + add[k], or x itself, into xs[k]. The first group writes x + add
// to sum[k], where somebody reads it. nw[k] and nb[k] are the norm's weight and bias. norm is
// 0: none, 1: RMS, 2: layer. part has a place per lane.
void norm_row(L float *xs, L float *part, G const float *x, G const float *add, G float *sum, G const float *nw, G const float *nb, int k, int norm, float eps, float offset) {
  int lane = LANE;
  if (norm) {
    float4 nws = 4 * lane < k ? *(G const float4 *)(nw + 4 * lane) : (float4)(0);
    float mean = 0, sq = 0;
    for (int i = 4 * lane; i < k; i += 4 * ONE_LANES) {
      float4 v = *(G const float4 *)(x + i);
      if (add) v += *(G const float4 *)(add + i);
      if (sum && GROUP == 0) *(G float4 *)(sum + i) = v;
      *(L float4 *)(xs + i) = v;
      mean += v.x + v.y + (v.z + v.w);
      sq += dot(v, v);
    }
    if (norm == 2) {
      mean = group_sum(mean, part) / k, sq = 0;
      for (int i = 4 * lane; i < k; i += 4 * ONE_LANES) {
        float4 v = *(L float4 *)(xs + i) - mean;
        sq += dot(v, v);
      }
    } else mean = 0;
    float scale = 1 / sqrt(group_sum(sq, part) / k + eps);
    for (int i = 4 * lane; i < k; i += 4 * ONE_LANES) {
      float4 v = (*(L float4 *)(xs + i) - mean) * scale * ((i == 4 * lane ? nws : *(G const float4 *)(nw + i)) + offset);
      *(L float4 *)(xs + i) = nb ? v + *(G const float4 *)(nb + i) : v;
    }
  } else
    for (int i = lane; i < k; i += ONE_LANES) xs[i] = x[i];
  barrier(CLK_LOCAL_MEM_FENCE);
}

// Pair is two rows of the matrix of a part. turn is which pair of its head rotates,
// -1: none.
typedef struct {
  int part, r0, r1, turn;
} Pair;

Pair pair_at(int i, int n0, int n1, int n2, int glu, int rotates, Turn t0, Turn t1, Turn t2) {
  Pair a;
  a.part = 0, a.turn = -1, a.r0 = a.r1 = i;
  if (glu) return a;
  int n = n0;
  Turn t = t0;
  if (i >= (n + 1) / 2) {
    i -= (n + 1) / 2, a.part = 1, n = n1, t = t1;
    if (i >= (n + 1) / 2) i -= (n + 1) / 2, a.part = 2, n = n2, t = t2;
  }
  a.r0 = 2 * i, a.r1 = min(2 * i + 1, n - 1);
  if (rotates >> a.part & 1) {
    int half_ = t.head / 2, h = i / half_, e = i % half_;
    if (e < t.rot / 2) {
      a.turn = e;
      a.r0 = h * t.head + (t.interleaved ? 2 * e : e), a.r1 = a.r0 + (t.interleaved ? 1 : t.rot / 2);
    } else a.r0 = h * t.head + t.rot + 2 * (e - t.rot / 2), a.r1 = a.r0 + 1;
  }
  return a;
}

// A lane multiplies PART values of a row at a time.
#ifdef CODES
#define PART 16
typedef Codes Part;
typedef float Sum;
#define PART_AT(row, i) codes_at(row, i)
#define ADD_PART(sum, w, i) sum += dot_codes(w, codes, i)
#define SUM_OF(sum) sum
#else
#define PART 8
typedef float8 Part;
typedef float8 Sum;
#define PART_AT(row, i) part8(TYPE, row, i)
#define ADD_PART(sum, w, i) sum = fma(w, (float8)(*(L float4 *)(xs + 8 * (i)), *(L float4 *)(xs + 8 * (i) + 4)), sum)
#define SUM_OF(sum) sum8(sum)
#endif

#define OF(part, name) (part == 0 ? name##0 : part == 1 ? name##1 : name##2)

// One is what k_one takes, in one argument: each costs the host time per launch. The
// first line and norm are as norm_row takes them: x[k], add[k], sum[k]. w are matrices
// [n,k], y results [n], absent where they go into a cache. kv is the type of the caches,
// F32 or F16. team is the number of lanes per pair.
typedef struct {
  PTR(const float, x); PTR(const float, add); PTR(float, sum); PTR(const float, nw); PTR(const float, nb);
  PTR(const u8, w0); PTR(const u8, w1); PTR(const u8, w2); PTR(float, y0); PTR(float, y1); PTR(float, y2);
  PTR(const float, bias0); PTR(const float, bias1); PTR(const float, bias2); PTR(u8, cache0); PTR(u8, cache1); PTR(u8, cache2); PTR(const int, slots);
  PTR(const int, pos0); PTR(const int, pos1); PTR(const int, pos2); PTR(const int, length0); PTR(const int, length1); PTR(const int, length2);
  PTR(const u64, freqs0); PTR(const u64, freqs1); PTR(const u64, freqs2);
  Turn t0, t1, t2;
  int n0, n1, n2, k, glu, kind, norm;
  float eps, offset;
  int kv, team;
} One;
#define FROM(type, name) u64 name##_place = o.name##_place; AT(type, name)

KERNEL_OF(ONE_LANES) k_one(SLABS, One o) {
  FROM(const float, x); FROM(const float, add); FROM(float, sum); FROM(const float, nw); FROM(const float, nb);
  FROM(const u8, w0); FROM(const u8, w1); FROM(const u8, w2); FROM(float, y0); FROM(float, y1); FROM(float, y2);
  FROM(const float, bias0); FROM(const float, bias1); FROM(const float, bias2); FROM(u8, cache0); FROM(u8, cache1); FROM(u8, cache2); FROM(const int, slots);
  FROM(const int, pos0); FROM(const int, pos1); FROM(const int, pos2); FROM(const int, length0); FROM(const int, length1); FROM(const int, length2);
  FROM(const u64, freqs0); FROM(const u64, freqs1); FROM(const u64, freqs2);
  Turn t0 = o.t0, t1 = o.t1, t2 = o.t2;
  int n0 = o.n0, n1 = o.n1, n2 = o.n2, k = o.k, glu = o.glu, kind = o.kind, norm = o.norm, kv = o.kv, team = o.team;
  float eps = o.eps, offset = o.offset;
  L float part[2 * ONE_LANES];
  L float xs[ROOM] __attribute__((aligned(16))); // the row, normed
#ifdef CODES
  L u32 high[ROOM / 4], low[ROOM / 4];
  L float unit[ROOM / 32];
  L int sums[ROOM / 16];
  Row codes = {high, low, unit, sums};
#endif
  int lane = LANE, teams = ONE_LANES / team, at = lane % team, parts = k % PART == 0 ? k / PART : 0;
  u64 stride = row_bytes(TYPE, k);
  int rotates = (freqs0 ? 1 : 0) | (freqs1 ? 2 : 0) | (freqs2 ? 4 : 0);
  int pairs = glu ? n0 : (n0 + 1) / 2 + (n1 + 1) / 2 + (n2 + 1) / 2, first = GROUP * teams;
  // The first weights are on their way while the row is normed.
  Pair p = pair_at(min(first + lane / team, pairs - 1), n0, n1, n2, glu, rotates, t0, t1, t2);
  G const u8 *a = OF(p.part, w) + p.r0 * stride, *b = (glu ? w1 : OF(p.part, w)) + p.r1 * stride;
  Part wa, wb;
  if (at < parts) wa = PART_AT(a, at), wb = PART_AT(b, at);
  // So are the operands of what comes last.
  Pair mine = pair_at(min(first + lane % teams, pairs - 1), n0, n1, n2, glu, rotates, t0, t1, t2);
  float2 turn = (float2)(0);
  if (mine.turn >= 0 && lane < teams) turn = angle(OF(mine.part, t), OF(mine.part, freqs), OF(mine.part, pos), OF(mine.part, length), 0, mine.turn);
  u64 slot = slots ? slots[0] : 0;
  norm_row(xs, part, x, add, sum, nw, nb, k, norm, eps, offset);
#ifdef CODES
  for (int i = 4 * lane; i < k; i += 4 * ONE_LANES) put_codes(codes, xs, i);
  barrier(CLK_LOCAL_MEM_FENCE);
#endif
  for (int base = first; base < pairs; base += GROUPS * teams) {
    if (base != first) {
      p = pair_at(min(base + lane / team, pairs - 1), n0, n1, n2, glu, rotates, t0, t1, t2);
      a = OF(p.part, w) + p.r0 * stride, b = (glu ? w1 : OF(p.part, w)) + p.r1 * stride;
      if (at < parts) wa = PART_AT(a, at), wb = PART_AT(b, at);
    }
    float u = 0, v = 0;
    if (parts) {
      Sum s = 0, t = 0;
#pragma unroll 4
      for (int c = at; c < parts; c += team) {
        Part ca = wa, cb = wb;
        if (c + team < parts) wa = PART_AT(a, c + team), wb = PART_AT(b, c + team);
        ADD_PART(s, ca, c);
        ADD_PART(t, cb, c);
      }
      u = SUM_OF(s), v = SUM_OF(t);
    }
#ifndef CODES // of codes rows are whole blocks
    else
      for (int c = at; c < k; c += team) {
        u += value_at(TYPE, a, c) * xs[c];
        v += value_at(TYPE, b, c) * xs[c];
      }
#endif
    // Sums of teams. Without warps 16 lanes per sum add the parts of some lanes each, then
    // one adds those.
    barrier(CLK_LOCAL_MEM_FENCE);
#ifdef WARPS
    u = sub_group_reduce_add(u), v = sub_group_reduce_add(v);
    if (lane % 32 == 0) part[lane / 32] = u, part[ONE_LANES + lane / 32] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    u = v = 0;
    if (lane < teams)
      for (int e = lane * (team / 32); e < (lane + 1) * (team / 32); e++) u += part[e], v += part[ONE_LANES + e];
#else
    part[lane] = u, part[ONE_LANES + lane] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    u = 0;
    if (lane < 32 * teams) {
      int from = lane / 16 % 2 * ONE_LANES + lane / 32 * team + lane % 16;
      for (int e = 0; e < team; e += 16) u += part[from + e];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < 32 * teams) part[lane] = u;
    barrier(CLK_LOCAL_MEM_FENCE);
    u = v = 0;
    if (lane < teams)
      for (int e = 0; e < 16; e++) u += part[32 * lane + e], v += part[32 * lane + 16 + e];
#endif
    if (lane < teams && base + lane < pairs) {
      if (base != first) {
        mine = pair_at(base + lane, n0, n1, n2, glu, rotates, t0, t1, t2);
        if (mine.turn >= 0) turn = angle(OF(mine.part, t), OF(mine.part, freqs), OF(mine.part, pos), OF(mine.part, length), 0, mine.turn);
      }
      G const float *bias = OF(mine.part, bias), *second = glu ? bias1 : bias;
      if (bias) u += bias[mine.r0];
      if (second) v += second[mine.r1];
      if (kind >= 0) u = act(kind, u), v = glu ? u * v : act(kind, v);
      if (glu) u = v;
      if (mine.turn >= 0) {
        float f = u;
        u = f * turn.y - v * turn.x, v = v * turn.y + f * turn.x;
      }
      if (mine.r0 == mine.r1) v = u;
      G float *y = OF(mine.part, y);
      if (y) y[mine.r0] = u, y[mine.r1] = v;
      G u8 *cache = OF(mine.part, cache);
      if (cache) {
        u64 row = slot * OF(mine.part, n);
        if (kv == F32) ((G float *)cache)[row + mine.r0] = u, ((G float *)cache)[row + mine.r1] = v;
        else vstore_half(u, row + mine.r0, (G half *)cache), vstore_half(v, row + mine.r1, (G half *)cache);
      }
    }
  }
}

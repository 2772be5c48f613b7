// Drawing tokens from logits, as package sample does. Weights are integers in units
// of 2^-44 of the best token's: sums do not depend on the order of additions, so a
// row of logits and a random number always give the same token.

#define DRAWERS 256 // lanes of a group

#ifdef DOUBLES
#define LOG2E 1.4426950408889634
#else
#define LOG2E 1.44269504f
#endif

// Tokens compare by key, then by id: the larger logit is the larger key (-0 is 0),
// and among equal keys the lower id is the better token.
u32 key_of(float logit) {
  u32 b = logit == 0 ? 0 : as_uint(logit);
  return b ^ ((u32)((int)b >> 31) | 0x80000000u);
}
float logit_of(u32 key) { return as_float(key >> 31 ? key ^ 0x80000000u : ~key); }

// The best token of parts of a row, a group each: its key, then the complement of its
// id, 0 where all logits are -Inf; and whether a logit is NaN or +Inf.
KERNEL_OF(DRAWERS) k_sample_best(SLABS, PTR(const int, bind), Dim rows, int n, PTR(u64, best), PTR(const float, logits)) {
  AT(const int, bind); AT(u64, best); AT(const float, logits);
  L u64 tops[DRAWERS];
  L int bads[DRAWERS];
  int r = get_group_id(1), lane = LANE;
  if (r >= size(rows, bind)) return;
  G const float *x = logits + (u64)r * n;
  u64 top = 0;
  int bad = 0;
  for (int i = get_global_id(0); i < n; i += get_global_size(0)) {
    float v = x[i];
    if (isnan(v) || v == INFINITY) bad = 1;
    else if (v != -INFINITY) top = max(top, (u64)key_of(v) << 32 | ~(u32)i);
  }
  tops[lane] = top, bads[lane] = bad;
  for (int half_ = DRAWERS / 2; half_ > 0; half_ /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < half_) tops[lane] = max(tops[lane], tops[lane + half_]), bads[lane] |= bads[lane + half_];
  }
  if (lane == 0) {
    u64 at = 2 * (r * GROUPS + GROUP);
    best[at] = tops[0], best[at + 1] = bads[0];
  }
}

// Draw is one row on its way. Tokens that are left have a key above low, or low
// itself and an id of at most cut.
typedef struct {
  real top;
  int n, cut;
  u32 low;
} Draw;

bool is_left(Draw d, u32 key, int id) { return key > d.low || (key == d.low && id <= d.cut); }

// The weight of a logit at a temperature, whose inverse is given: the mantissa is of
// 24 bits, and the exponent shifts it.
u64 weight_of(Draw d, float logit, real inverse) {
  real t = ((real)logit - d.top) * inverse * LOG2E;
  if (!(t > -46)) return 0;
  int whole = min((int)floor(t), 0), down = -whole;
  u64 w = (u64)(exp2((float)(t - whole)) * 8388608.0f) << 21;
  return down ? (w + ((u64)1 << (down - 1))) >> down : w;
}

// What a token counts: its weight, 1 where inverse is 0, nothing where it is not left.
u64 count_of(Draw d, G const float *x, int i, real inverse) {
  float v = x[i];
  if (!is_left(d, key_of(v), i)) return 0;
  return inverse > 0 ? weight_of(d, v, inverse) : 1;
}

// Sum over a group; everybody gets it.
u64 group_sum64(u64 v, L u64 *part) {
  barrier(CLK_LOCAL_MEM_FENCE);
  part[LANE] = v;
  for (int half_ = DRAWERS / 2; half_ > 0; half_ /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (LANE < half_) part[LANE] += part[LANE + half_];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return part[0];
}

// What the tokens that are left count.
u64 weigh(Draw d, G const float *x, real inverse, L u64 *part) {
  u64 sum = 0;
  for (int i = LANE; i < d.n; i += DRAWERS) sum += count_of(d, x, i, inverse);
  return group_sum64(sum, part);
}

// Adds to a sum of 64 bits with atomics of 32, which every device has: whoever makes
// the low word overflow carries.
void add64(L u32 *low, L u32 *high, u64 v) {
  u32 lo = (u32)v, hi = (u32)(v >> 32), before = atomic_add(low, lo);
  if (before + lo < before) hi++;
  if (hi) atomic_add(high, hi);
}

// The key at which the counts of the tokens that are left, added up from the best
// (or from the worst, where up), reach target; rest is what is still missing when
// that key's tokens begin. Target is at least 1 and at most the sum. Eight bits of
// the key at a time. part has room for 256 sums.
u32 descend(Draw d, G const float *x, real inverse, bool up, u64 target, u64 *rest, L u64 *part) {
  L u32 *low = (L u32 *)part, *high = low + 256;
  u32 prefix = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = LANE; i < 512; i += DRAWERS) low[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    u64 run = 0;
    u32 of = 0; // the slot that run belongs to
    for (int i = LANE; i < d.n; i += DRAWERS) {
      u32 key = key_of(x[i]), slot = key >> shift & 255;
      if (shift < 24 && key >> shift >> 8 != prefix) continue;
      u64 w = count_of(d, x, i, inverse);
      if (slot != of) {
        if (run) add64(low + of, high + of, run);
        run = 0, of = slot;
      }
      run += w;
    }
    if (run) add64(low + of, high + of, run);
    barrier(CLK_LOCAL_MEM_FENCE);
    // Every lane walks: they all get the same.
    int i = up ? 0 : 255, step_ = up ? 1 : -1;
    for (;;) {
      u64 here = (u64)high[i] << 32 | low[i];
      if (here >= target || i + step_ < 0 || i + step_ > 255) break;
      target -= here, i += step_;
    }
    prefix = prefix << 8 | (u32)i;
  }
  *rest = target;
  return prefix;
}

// The first token, by id, up to which the tokens that are left count more than u: all
// of them, or those of one key where by_key.
int locate(Draw d, G const float *x, real inverse, bool by_key, u32 key, u64 u, L u64 *part) {
#define COUNT(i) (by_key && key_of(x[i]) != key ? 0 : count_of(d, x, i, inverse))
  // First a part of the row, of which each lane has one, then a token of it.
  int per = (d.n + DRAWERS - 1) / DRAWERS, from = LANE * per, to = min(d.n, from + per);
  u64 sum = 0;
  for (int i = from; i < to; i++) sum += COUNT(i);
  barrier(CLK_LOCAL_MEM_FENCE);
  part[LANE] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  int which = 0;
  while (which + 1 < DRAWERS && (which + 1) * per < d.n && u >= part[which]) u -= part[which], which++;
  from = which * per, to = min(d.n, from + per);
  int found = -1;
  for (int round_ = 0; round_ < (per + DRAWERS - 1) / DRAWERS; round_++) { // as often on all lanes
    int i0 = from + round_ * DRAWERS, i = i0 + LANE;
    barrier(CLK_LOCAL_MEM_FENCE);
    part[LANE] = i < to ? COUNT(i) : 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    int many = min(DRAWERS, to - i0);
    for (int at = 0; at < many && found < 0; at++) {
      if (u < part[at]) found = i0 + at;
      else u -= part[at];
    }
  }
  return found < 0 ? to - 1 : found;
#undef COUNT
}

// The least whole number that is not below share times mass, exactly; share is
// between 0 and 1, mass below 2^63.
u64 part_of(float share, u64 mass) {
  int e;
  u64 m = (u64)(frexp(share, &e) * 16777216.0f), lo = m * mass, hi = mul_hi(m, mass);
  int down = 24 - e;
  if (down >= 128) return 1;
  if (down >= 64) return (down == 64 ? hi : hi >> (down - 64)) + ((lo | (down == 64 ? 0 : hi << (128 - down))) != 0);
  return (hi << (64 - down) | lo >> down) + ((lo << (64 - down)) != 0);
}

// Columns of how, as package graph numbers them.
enum { TEMPERATURE, TOP_K, TOP_P, MIN_P, HOW };

// What a group knows of its row. Each stage of drawing is a kernel of its own, since
// not every compiler copes with barriers behind conditions. state is low and cut of
// a row, which the stages narrow.
#define DRAW                                                                                                 \
  PTR(const int, bind), Dim rows, int n, PTR(int, ids), PTR(const u64, best), int parts, PTR(int, state), PTR(const float, logits), PTR(const float, how), PTR(const u32, random)
#define DRAW_BEGIN                                                                                           \
  AT(const int, bind); AT(int, ids); AT(const u64, best); AT(int, state); AT(const float, logits); AT(const float, how); AT(const u32, random); \
  L u64 part[DRAWERS];                                                                                       \
  u64 r = GROUP, top = 0, bad = 0, rest;                                                                     \
  if (r >= size(rows, bind)) return;                                                                         \
  for (int i = 0; i < parts; i++) top = max(top, best[2 * (r * parts + i)]), bad |= best[2 * (r * parts + i) + 1]; \
  G const float *h = how + r * HOW, *x = logits + r * n;                                                     \
  state += 2 * r;                                                                                            \
  float share = h[TOP_P];                                                                                    \
  int k = (int)h[TOP_K], id = bad || !top ? -1 : (int)~(u32)top;                                             \
  bool greedy = id < 0 || h[TEMPERATURE] == 0 || k == 1, by_p = share > 0 && share < 1;                      \
  Draw d = {logit_of(top >> 32), n, n, key_of(-INFINITY) + 1}
#define DRAW_GO_ON d.low = (u32)state[0], d.cut = state[1]
#define DRAWN KERNEL_OF(DRAWERS)

DRAWN k_sample_top_k(SLABS, DRAW) {
  DRAW_BEGIN;
  if (LANE == 0) {
    state[0] = (int)d.low, state[1] = d.cut;
    if (greedy) ids[r] = id;
  }
  if (greedy || k <= 0 || k >= n) return;
  u32 low = descend(d, x, 0, false, min((u64)k, weigh(d, x, 0, part)), &rest, part);
  int cut = locate(d, x, 0, true, low, rest - 1, part);
  if (LANE == 0) state[0] = (int)low, state[1] = cut;
}

DRAWN k_sample_top_p(SLABS, DRAW) {
  DRAW_BEGIN;
  if (greedy || !by_p) return;
  DRAW_GO_ON;
  u64 mass = weigh(d, x, 1, part), target = part_of(share, mass);
  u32 low = descend(d, x, 1, false, max(min(target, mass), (u64)1), &rest, part);
  u64 each = max(weight_of(d, logit_of(low), 1), (u64)1);
  int cut = locate(d, x, 0, true, low, (rest + each - 1) / each - 1, part);
  if (LANE == 0) state[0] = (int)low, state[1] = cut;
}

// The draw among the tokens that are left, after min-p: its number is the random one
// times the sum of weights.
#define DRAW_LAST                                                                                            \
  DRAW_GO_ON;                                                                                                \
  if (h[MIN_P] > 0) { /* the first key that is not below */                                                  \
    real floor_ = d.top + log((real)h[MIN_P]);                                                               \
    float v = (float)fmax(floor_, (real)-FLT_MAX);                                                           \
    u32 low = key_of(v) + ((real)v < floor_);                                                                \
    if (low > d.low) d.low = low, d.cut = n;                                                                 \
  }                                                                                                          \
  real inverse = 1 / (real)h[TEMPERATURE];                                                                   \
  u64 bits = (u64)random[2 * r] << 32 | random[2 * r + 1], sum = weigh(d, x, inverse, part), u = mul_hi(bits << 11, sum)

// Where tokens are sorted: the worst first, and among equals the highest id.
DRAWN k_sample_sorted(SLABS, DRAW) {
  DRAW_BEGIN;
  if (greedy || (k <= 0 && !by_p)) return;
  DRAW_LAST;
  u32 key = descend(d, x, inverse, true, u + 1, &rest, part);
  u64 each = max(weight_of(d, logit_of(key), inverse), (u64)1), behind = (rest - 1) / each, same = 0;
  for (int i = LANE; i < n; i += DRAWERS) {
    u32 other = key_of(x[i]);
    same += other == key && is_left(d, other, i);
  }
  same = group_sum64(same, part);
  id = locate(d, x, 0, true, key, same - min(behind, same - 1) - 1, part);
  if (LANE == 0) ids[r] = id;
}

// The others: by id. Rows that ask for the best have it from the first stage.
DRAWN k_sample_by_id(SLABS, DRAW) {
  DRAW_BEGIN;
  if (greedy || k > 0 || by_p) return;
  DRAW_LAST;
  id = locate(d, x, inverse, false, 0, u, part);
  if (LANE == 0) ids[r] = id;
}

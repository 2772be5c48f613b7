// Attention of single queries: a group of 256 lanes per query and head, whose size is
// a multiple of 8. Compiled once per type of the cache.
//
// Keys come in blocks of 256. Lanes first have a key each; then groups of lanes that
// hold the values of a head, 4 each, share the keys. Softmax is online. The first
// AHEAD values of a lane are on their way while scores are computed.

#define ONES 256
#define AHEAD 4

float4 value4(G const u8 *row, int e) {
#if TYPE == F32
  return ((G const float4 *)row)[e / 4];
#elif TYPE == F16
  return vloada_half4(e / 4, (G const half *)row);
#else
  float8 g = part8(TYPE, row, e / 8);
  return e % 8 ? g.hi : g.lo;
#endif
}

KERNEL_OF(ONES) k_attend_one(SLABS, ATTENTION) {
  ATTENTION_AT;
  L float qs[256] __attribute__((aligned(16)));
  L float ps[ONES], part[ONES];
  L float4 sums[ONES];
  int t = GROUP, h = get_group_id(1), d = a.head, lane = LANE;
  if (t >= size(drows, bind)) return;
  int s = sequence_of(start, size(dseqs, bind), t), q0 = start[s], q1 = start[s + 1], off = h / (a.heads / a.kv_heads) * d;
  int keys = table ? kv_len[s] : q1 - q0, at = table ? keys - (q1 - t) : t - q0;
  int2 see = visible(a, at, keys);
  if (t < q0 || t >= q1) see = (int2)(0, 0); // of no sequence
  u64 stride = row_bytes(TYPE, a.kv_heads * d), o = ((u64)t * a.heads + h) * d;
  float slope = slopes ? slopes[h] : 0, top = -INFINITY, sum = 0;
  if (lane < d) qs[lane] = q[o + lane];
  int wide = d / 4, shares = ONES / wide, share = lane / wide, e0 = lane % wide * 4;
  float4 acc = (float4)(0);
  for (int j0 = see.x; j0 < see.y; j0 += ONES) {
    int j = j0 + lane, many = min(ONES, see.y - j0);
    float score = -INFINITY;
    float4 ahead[AHEAD];
#pragma unroll
    for (int n = 0; n < AHEAD; n++) {
      int i = share + n * shares;
      if (share < shares && i < many) ahead[n] = value4(v + KEY_ROW(s, q0, j0 + i) * stride, off + e0);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < many) {
      G const u8 *row = k + KEY_ROW(s, q0, j) * stride;
      float8 dots = (float8)(0);
#pragma unroll 4
      for (int e = 0; e < d; e += 8) dots = fma(part8(TYPE, row, (off + e) / 8), (float8)(*(L float4 *)(qs + e), *(L float4 *)(qs + e + 4)), dots);
      score = final_score(a, sum8(dots), slope, j);
      if (rel) score += rel[h * relcols + rel_at(relcols, at, j)];
    }
    float next = fmax(top, group_max(score, part)), keep = next == -INFINITY ? 1 : exp(top - next), p = next == -INFINITY ? 0 : exp(score - next);
    top = next, sum = sum * keep + p;
    ps[lane] = p;
    barrier(CLK_LOCAL_MEM_FENCE);
    acc *= keep;
    if (share < shares) {
#pragma unroll
      for (int n = 0; n < AHEAD; n++)
        if (share + n * shares < many) acc = fma((float4)(ps[share + n * shares]), ahead[n], acc);
#pragma unroll 4
      for (int i = share + AHEAD * shares; i < many; i += shares) acc = fma((float4)(ps[i]), value4(v + KEY_ROW(s, q0, j0 + i) * stride, off + e0), acc);
    }
  }
  sum = group_sum(sum, part);
  sums[lane] = acc;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane < wide) {
    for (int i = 1; i < shares; i++) acc += sums[lane + i * wide];
    *(G float4 *)(out + o + 4 * lane) = sum > 0 ? acc / sum : (float4)(0);
  }
  if (lse && lane == 0) lse[(u64)t * a.heads + h] = sum > 0 ? top + log(sum) : -INFINITY;
}

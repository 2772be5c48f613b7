// Attention of many queries: a group has BQ queries of one head, keys come in blocks
// of BK. Heads have up to HEAD values, a multiple of 8. Compiled once per size of head
// and type of the cache.
//
// Scores and weighted sums are products in tiles: a lane has 4 queries, and 4 keys or
// VALUES values of the head. Softmax is online. Blocks begin at multiples of BK, so
// that a query's result does not depend on its neighbours.

#define TX (BK / 4)
#define TY (BQ / 4)
#define FLASH (TX * TY) // lanes
#define VALUES (HEAD / TX)
#define QS (BQ + 4)
#define KS (BK + 4)
#define VS (HEAD + 4)
#define KV_ROOM (HEAD * KS > BK * VS ? HEAD * KS : BK * VS)

// Rows of HEAD values in parts of 8.
#define EACH_PART(i, rows) for (int i = lane; i < (rows) * HEAD / 8; i += FLASH)
#define ROW_OF_PART(i) ((i) / (HEAD / 8))
#define AT_PART(i) ((i) % (HEAD / 8) * 8)

KERNEL_OF(FLASH) k_flash(SLABS, ATTENTION) {
  ATTENTION_AT;
  L float qs[HEAD * QS] __attribute__((aligned(16))); // [value][query]
  L float kvs[KV_ROOM] __attribute__((aligned(16)));  // keys [value][key], then values [key][value]
  L float ps[BK * QS] __attribute__((aligned(16)));   // [key][query]
  L float part[BQ * TX] __attribute__((aligned(16))); // [query][lane]
  int rows = size(drows, bind), seqs = size(dseqs, bind), t0 = GROUP * BQ, h = get_group_id(1), d = a.head, lane = LANE;
  if (t0 >= rows) return;
  int n = min(BQ, rows - t0), off = h / (a.heads / a.kv_heads) * d, tx = lane % TX, ty = lane / TX;
  u64 stride = row_bytes(TYPE, a.kv_heads * d);
  float slope = slopes ? slopes[h] : 0;
  EACH_PART(i, BQ) {
    int r = ROW_OF_PART(i), e = AT_PART(i);
    float8 f = (float8)(0);
    if (r < n && e < d) f = part8(F32, (G const u8 *)(q + ((u64)(t0 + r) * a.heads + h) * d), e / 8);
    L float *to = qs + e * QS + r;
    to[0] = f.s0, to[QS] = f.s1, to[2 * QS] = f.s2, to[3 * QS] = f.s3, to[4 * QS] = f.s4, to[5 * QS] = f.s5, to[6 * QS] = f.s6, to[7 * QS] = f.s7;
  }
  float acc[4][VALUES], top[4], sum[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    top[i] = -INFINITY, sum[i] = 0;
#pragma unroll
    for (int c = 0; c < VALUES; c++) acc[i][c] = 0;
  }
  // The queries may be of several sequences: one after the other.
  int last = 0;
  for (int first = 0; first < n; first = last) {
    int s = sequence_of(start, seqs, t0 + first), q0 = start[s], q1 = start[s + 1];
    last = min(n, max(q1 - t0, first + 1));
    int keys = table ? kv_len[s] : q1 - q0, before = table ? keys - (q1 - t0) : t0 - q0; // position of query 0
    int lo = keys, hi = 0, from[4], to[4];
    if (t0 + first < q0 || t0 + first >= q1) lo = hi = 0; // of no sequence
    else
      for (int i = first; i < last; i++) {
        int2 see = visible(a, before + i, keys);
        lo = min(lo, see.x), hi = max(hi, see.y);
      }
#pragma unroll
    for (int i = 0; i < 4; i++) {
      int2 see = visible(a, before + ty * 4 + i, keys);
      bool mine = ty * 4 + i >= first && ty * 4 + i < last;
      from[i] = mine ? see.x : 0, to[i] = mine ? see.y : 0;
    }
    for (int j0 = lo / BK * BK; j0 < hi; j0 += BK) {
      barrier(CLK_LOCAL_MEM_FENCE);
      EACH_PART(i, BK) {
        int r = ROW_OF_PART(i), e = AT_PART(i);
        float8 f = (float8)(0);
        if (j0 + r < hi && e < d) f = part8(TYPE, k + KEY_ROW(s, q0, j0 + r) * stride, (off + e) / 8);
        L float *at = kvs + e * KS + r;
        at[0] = f.s0, at[KS] = f.s1, at[2 * KS] = f.s2, at[3 * KS] = f.s3, at[4 * KS] = f.s4, at[5 * KS] = f.s5, at[6 * KS] = f.s6, at[7 * KS] = f.s7;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      float p[4][4];
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) p[i][j] = 0;
#pragma unroll 8
      for (int e = 0; e < HEAD; e++) {
        float4 u = *(L float4 *)(qs + e * QS + ty * 4), v4 = *(L float4 *)(kvs + e * KS + tx * 4);
        float x[4] = {u.s0, u.s1, u.s2, u.s3}, y[4] = {v4.s0, v4.s1, v4.s2, v4.s3};
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
          for (int j = 0; j < 4; j++) p[i][j] = fma(x[i], y[j], p[i][j]);
      }
#pragma unroll
      for (int i = 0; i < 4; i++) {
        float most = -INFINITY;
#pragma unroll
        for (int j = 0; j < 4; j++) {
          int key = j0 + tx * 4 + j;
          float score = -INFINITY;
          if (key >= from[i] && key < to[i]) {
            score = final_score(a, p[i][j], slope, key);
            if (rel) score += rel[h * relcols + rel_at(relcols, before + ty * 4 + i, key)];
          }
          p[i][j] = score;
          most = fmax(most, score);
        }
        part[(ty * 4 + i) * TX + tx] = most;
      }
      barrier(CLK_LOCAL_MEM_FENCE); // keys are not needed any more
      EACH_PART(i, BK) {
        int r = ROW_OF_PART(i), e = AT_PART(i);
        float8 f = (float8)(0);
        if (j0 + r < hi && e < d) f = part8(TYPE, v + KEY_ROW(s, q0, j0 + r) * stride, (off + e) / 8);
        *(L float4 *)(kvs + r * VS + e) = f.lo;
        *(L float4 *)(kvs + r * VS + e + 4) = f.hi;
      }
#pragma unroll
      for (int i = 0; i < 4; i++) {
        float most = top[i];
#pragma unroll
        for (int e = 0; e < TX; e += 4) {
          float4 f = *(L float4 *)(part + (ty * 4 + i) * TX + e);
          most = fmax(fmax(most, fmax(f.s0, f.s1)), fmax(f.s2, f.s3));
        }
        float keep = most == -INFINITY ? 1 : exp(top[i] - most);
        top[i] = most;
        sum[i] *= keep;
#pragma unroll
        for (int j = 0; j < 4; j++) {
          p[i][j] = most == -INFINITY ? 0 : exp(p[i][j] - most);
          sum[i] += p[i][j];
        }
#pragma unroll
        for (int c = 0; c < VALUES; c++) acc[i][c] *= keep;
      }
#pragma unroll
      for (int j = 0; j < 4; j++) *(L float4 *)(ps + (tx * 4 + j) * QS + ty * 4) = (float4)(p[0][j], p[1][j], p[2][j], p[3][j]);
      barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 8
      for (int j = 0; j < BK; j++) {
        float4 u = *(L float4 *)(ps + j * QS + ty * 4);
        float x[4] = {u.s0, u.s1, u.s2, u.s3};
#pragma unroll
        for (int c = 0; c < VALUES; c += 2) {
          float2 f = *(L float2 *)(kvs + j * VS + tx * VALUES + c);
#pragma unroll
          for (int i = 0; i < 4; i++) acc[i][c] = fma(x[i], f.x, acc[i][c]), acc[i][c + 1] = fma(x[i], f.y, acc[i][c + 1]);
        }
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
  for (int i = 0; i < 4; i++) part[(ty * 4 + i) * TX + tx] = sum[i];
  barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
  for (int i = 0; i < 4; i++) {
    int r = ty * 4 + i;
    float all = 0;
    for (int e = 0; e < TX; e++) all += part[r * TX + e];
    u64 o = ((u64)(t0 + r) * a.heads + h) * d;
#pragma unroll
    for (int c = 0; c < VALUES; c++)
      if (r < n && tx * VALUES + c < d) out[o + tx * VALUES + c] = all > 0 ? acc[i][c] / all : 0;
    if (lse && r < n && tx == 0) lse[(u64)(t0 + r) * a.heads + h] = all > 0 ? top[i] + log(all) : -INFINITY;
  }
}

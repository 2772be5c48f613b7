// Attention of QUERIES queries of one head per group of 64 lanes, for heads of any
// size up to HEAD. Compiled once per number of queries and type of the cache.
//
// Keys come in blocks of 64. Lanes first have a key each, then some values of the
// head each. Softmax is online: scores lie in local memory only.

#define HEAD 256 // the most values of a head
#define SLOTS 4 // values of a head per lane, of 64
#define LANES_OF (64 / QUERIES) // lanes that reduce the scores of a query

KERNEL_OF(64) k_attend(SLABS, ATTENTION) {
  ATTENTION_AT;
  L float qs[QUERIES * HEAD], ps[QUERIES * 64], part[64], top[QUERIES], sum[QUERIES], keep[QUERIES];
  int rows = size(drows, bind), seqs = size(dseqs, bind), t0 = GROUP * QUERIES, h = get_group_id(1), d = a.head, lane = LANE;
  if (t0 >= rows) return;
  int n = min(QUERIES, rows - t0), off = h / (a.heads / a.kv_heads) * d;
  u64 stride = row_bytes(TYPE, a.kv_heads * d);
  float slope = slopes ? slopes[h] : 0;
  for (int i = lane; i < QUERIES * d; i += 64) qs[i] = i / d < n ? q[((u64)(t0 + i / d) * a.heads + h) * d + i % d] : 0;
  if (lane < QUERIES) top[lane] = -INFINITY, sum[lane] = 0;
  float acc[QUERIES][SLOTS];
  for (int i = 0; i < QUERIES; i++)
    for (int c = 0; c < SLOTS; c++) acc[i][c] = 0;
  int mine = lane / LANES_OF, part0 = lane % LANES_OF;
  // The queries may be of several sequences: one after the other.
  for (int first = 0, last; first < n; first = last) {
    int s = sequence_of(start, seqs, t0 + first), q0 = start[s], q1 = start[s + 1];
    last = min(n, q1 - t0);
    if (t0 + first < q0 || last <= first) { // of no sequence
      last = first + 1;
      continue;
    }
    int keys = table ? kv_len[s] : q1 - q0, before = table ? keys - (q1 - t0) : t0 - q0; // position of query 0
    int lo = keys, hi = 0;
    for (int i = first; i < last; i++) {
      int2 see = visible(a, before + i, keys);
      lo = min(lo, see.x), hi = max(hi, see.y);
    }
    for (int j0 = lo; j0 < hi; j0 += 64) {
      int j = j0 + lane, many = min(64, hi - j0);
      float dots[QUERIES];
      for (int i = 0; i < QUERIES; i++) dots[i] = 0;
      barrier(CLK_LOCAL_MEM_FENCE);
      if (j < hi) {
        G const u8 *row = k + KEY_ROW(s, q0, j) * stride;
        for (int e = 0; e < d; e++) {
          float x = value_at(TYPE, row, off + e);
          for (int i = 0; i < QUERIES; i++) dots[i] += qs[i * d + e] * x;
        }
      }
      for (int i = 0; i < QUERIES; i++) {
        float sc = -INFINITY;
        int at = before + i;
        int2 see = visible(a, at, keys);
        if (i >= first && i < last && j >= see.x && j < see.y) {
          sc = final_score(a, dots[i], slope, j);
          if (rel) sc += rel[h * relcols + rel_at(relcols, at, j)];
        }
        ps[i * 64 + lane] = sc;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      float most = -INFINITY;
      for (int i = part0; i < 64; i += LANES_OF) most = fmax(most, ps[mine * 64 + i]);
      part[lane] = most;
      barrier(CLK_LOCAL_MEM_FENCE);
      most = top[mine];
      for (int i = 0; i < LANES_OF; i++) most = fmax(most, part[mine * LANES_OF + i]);
      barrier(CLK_LOCAL_MEM_FENCE);
      float add = 0;
      for (int i = part0; i < 64; i += LANES_OF) {
        float p = most == -INFINITY ? 0 : exp(ps[mine * 64 + i] - most);
        ps[mine * 64 + i] = p;
        add += p;
      }
      part[lane] = add;
      barrier(CLK_LOCAL_MEM_FENCE);
      if (part0 == 0) {
        float kept = most == -INFINITY ? 1 : exp(top[mine] - most), all = sum[mine] * kept;
        for (int i = 0; i < LANES_OF; i++) all += part[mine * LANES_OF + i];
        keep[mine] = kept, sum[mine] = all, top[mine] = most;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int c = 0; c < SLOTS; c++) {
        int e = lane + 64 * c;
        if (e >= d) break;
        for (int i = 0; i < QUERIES; i++) acc[i][c] *= keep[i];
        for (int i = 0; i < many; i++) {
          int at = j0 + i;
          float x = value_at(TYPE, v + KEY_ROW(s, q0, at) * stride, off + e);
          for (int m = 0; m < QUERIES; m++) acc[m][c] += ps[m * 64 + i] * x;
        }
      }
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 0; i < n; i++) {
    u64 o = ((u64)(t0 + i) * a.heads + h) * d;
    for (int c = 0; c < SLOTS; c++)
      if (lane + 64 * c < d) out[o + lane + 64 * c] = sum[i] > 0 ? acc[i][c] / sum[i] : 0;
    if (lse && lane == 0) lse[(u64)(t0 + i) * a.heads + h] = sum[i] > 0 ? top[i] + log(sum[i]) : -INFINITY;
  }
}

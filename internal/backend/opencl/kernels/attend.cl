// Attention of QUERIES queries of one head per group of 64 lanes; the file is
// compiled for several numbers, N(name) is a name of its own for each.
//
// Keys come in blocks of 64. Lanes first have a key each, then some values of the
// head each. Softmax is online: scores lie in local memory only.

#define LANES_OF (64 / QUERIES) // lanes that reduce the scores of a query

void N(attend)(int type, Mask a, int rows, int seqs, G const float *slopes, G float *out, G float *lse, G const float *q, G const u8 *k, G const u8 *v, G const int *start,
               G const int *kv_len, G const int *table, int blocks, int block, G const float *rel, int relcols,
               L float *qs, L float *ps, L float *part, L float *top, L float *sum, L float *keep) {
  int t0 = GROUP * QUERIES, h = get_group_id(1), d = a.head, lane = LANE;
  if (t0 >= rows) return;
  int n = min(QUERIES, rows - t0), off = h / (a.heads / a.kv_heads) * d;
  u64 stride = row_bytes(type, a.kv_heads * d);
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
        G const u8 *row = k + (table ? (u64)table[(u64)s * blocks + j / block] * block + j % block : (u64)(q0 + j)) * stride;
        for (int e = 0; e < d; e++) {
          float x = value_at(type, row, off + e);
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
          float x = value_at(type, v + (table ? (u64)table[(u64)s * blocks + at / block] * block + at % block : (u64)(q0 + at)) * stride, off + e);
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

#define LOCALS L float qs[QUERIES * HEAD], ps[QUERIES * 64], part[64], top[QUERIES], sum[QUERIES], keep[QUERIES]

KERNEL N(k_attention)(PTR(const int, bind), Dim rows, Dim seqs, Mask a, PTR(const float, slopes), PTR(float, out), PTR(float, lse), PTR(const float, q), PTR(const u8, k), PTR(const u8, v), PTR(const int, start), PTR(const float, rel), int relcols) {
  AT(const int, bind); AT(const float, slopes); AT(float, out); AT(float, lse); AT(const float, q); AT(const u8, k); AT(const u8, v); AT(const int, start); AT(const float, rel);
  LOCALS;
  N(attend)(F32, a, size(rows, bind), size(seqs, bind), slopes, out, lse, q, k, v, start, 0, 0, 0, 1, rel, relcols, qs, ps, part, top, sum, keep);
}

#define ATTENTION_KV(name, TYPE)                                                                                                                       \
  KERNEL N(name)(PTR(const int, bind), Dim rows, Dim seqs, Mask a, PTR(const float, slopes), PTR(float, out), PTR(const float, q), PTR(const u8, k),   \
                 PTR(const u8, v), PTR(const int, start), PTR(const int, kv_len), PTR(const int, table), int blocks, int block) {                     \
    AT(const int, bind); AT(const float, slopes); AT(float, out); AT(const float, q); AT(const u8, k); AT(const u8, v);                                \
    AT(const int, start); AT(const int, kv_len); AT(const int, table);                                                                                 \
    LOCALS;                                                                                                                                            \
    N(attend)(TYPE, a, size(rows, bind), size(seqs, bind), slopes, out, 0, q, k, v, start, kv_len, table, blocks, block, 0, 1, qs, ps, part, top, sum, keep); \
  }
ATTENTION_KV(k_attention_kv_f32, F32)
ATTENTION_KV(k_attention_kv_f16, F16)
ATTENTION_KV(k_attention_kv_q8_0, Q8_0)
#undef ATTENTION_KV
#undef LOCALS
#undef LANES_OF

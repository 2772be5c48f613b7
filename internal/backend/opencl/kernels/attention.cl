// Attention, and the cache of keys and values.

// k and v into rows of the cache, in its encoding. One work item per 32 values.
KERNEL k_kv_write(SLABS, BIND, PTR(u8, ks), PTR(u8, vs), int type, PTR(const float, k), PTR(const float, v), PTR(const int, slots)) {
  AT(const int, bind); AT(u8, ks); AT(u8, vs); AT(const float, k); AT(const float, v); AT(const int, slots);
  u64 stride = row_bytes(type, cols), parts = (cols + 31) / 32;
  for (u64 i = get_global_id(0), n = 2 * size(rows, bind) * parts; i < n; i += get_global_size(0)) {
    u64 t = i / 2 / parts, p = i / 2 % parts;
    int width = min(32, cols - (int)p * 32);
    G const float *x = (i % 2 ? v : k) + t * cols + p * 32;
    G u8 *row = (i % 2 ? vs : ks) + slots[t] * stride;
    if (type == F32) {
      for (int c = 0; c < width; c++) ((G float *)row)[p * 32 + c] = x[c];
    } else if (type == F16) {
      for (int c = 0; c < width; c++) vstore_half(x[c], p * 32 + c, (G half *)row);
    } else {
      float most = 0;
      for (int c = 0; c < 32; c++) most = fmax(most, fabs(x[c]));
      float d = most / 127, inv = d != 0 ? 1 / d : 0;
      row += p * 34;
      vstore_half(d, 0, (G half *)row);
      for (int c = 0; c < 32; c++) row[2 + c] = (u8)(char)round(x[c] * inv);
    }
  }
}

#define HEAD 256 // the most values of a head
#define SLOTS 4 // values of a head per lane, of 64

// Gradients: probabilities are computed again from the log-sum-exp. rel is the
// pair's bias by distance.
float2 pair_grad(Mask a, G const float *q, G const float *k, G const float *v, G const float *dout, G const float *out, float lse, float slope, int j, float rel) {
  float s = 0, g = 0, delta = 0;
  for (int i = 0; i < a.head; i++) {
    s += q[i] * k[i];
    g += dout[i] * v[i];
    delta += dout[i] * out[i];
  }
  s = final_score(a, s, slope, j);
  float p = exp(s + rel - lse), ds = p * (g - delta) * a.scale;
  if (a.cap > 0) ds *= 1 - (s / a.cap) * (s / a.cap);
  return (float2)(p, ds);
}

// One group of 64 lanes per query head.
KERNEL k_attention_dq(SLABS, PTR(const int, bind), Dim rows, Dim seqs, Mask a, PTR(const float, slopes), PTR(float, dq), PTR(const float, q), PTR(const float, k), PTR(const float, v), PTR(const float, out), PTR(const float, lse), PTR(const float, dout), PTR(const int, start), PTR(const float, rel), int relcols) {
  AT(const float, rel); AT(const int, bind); AT(const float, slopes); AT(float, dq); AT(const float, q); AT(const float, k); AT(const float, v); AT(const float, out); AT(const float, lse); AT(const float, dout); AT(const int, start);
  L float ds[64];
  int t = GROUP, h = get_group_id(1), d = a.head, kcols = a.kv_heads * d;
  if (t >= size(rows, bind)) return;
  int s = sequence_of(start, size(seqs, bind), t), q0 = start[s], q1 = start[s + 1];
  u64 o = ((u64)t * a.heads + h) * d, head = h / (a.heads / a.kv_heads) * d;
  float acc[SLOTS] = {0, 0, 0, 0};
  if (t >= q0 && t < q1) {
    int2 see = visible(a, t - q0, q1 - q0);
    float slope = slopes ? slopes[h] : 0, l = lse[(u64)t * a.heads + h];
    for (int j0 = see.x; j0 < see.y; j0 += 64) {
      int j = j0 + LANE, n = min(64, see.y - j0);
      barrier(CLK_LOCAL_MEM_FENCE);
      if (LANE < n) {
        u64 u = (u64)(q0 + j) * kcols + head;
        ds[LANE] = pair_grad(a, q + o, k + u, v + u, dout + o, out + o, l, slope, j, rel ? rel[h * relcols + rel_at(relcols, t - q0, j)] : 0).y;
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int c = 0; c < SLOTS; c++) {
        int e = LANE + 64 * c;
        if (e < d)
          for (int i = 0; i < n; i++) acc[c] += ds[i] * k[(u64)(q0 + j0 + i) * kcols + head + e];
      }
    }
  }
  for (int c = 0; c < SLOTS; c++)
    if (LANE + 64 * c < d) dq[o + LANE + 64 * c] = acc[c];
}

// One group of 64 lanes per key head: sums over the heads of its group and the
// queries that see it, in order.
KERNEL k_attention_dkv(SLABS, PTR(const int, bind), Dim rows, Dim seqs, Mask a, PTR(const float, slopes), PTR(float, dk), PTR(float, dv), PTR(const float, q), PTR(const float, k), PTR(const float, v), PTR(const float, out), PTR(const float, lse), PTR(const float, dout), PTR(const int, start), PTR(const float, rel), int relcols) {
  AT(const float, rel); AT(const int, bind); AT(const float, slopes); AT(float, dk); AT(float, dv); AT(const float, q); AT(const float, k); AT(const float, v); AT(const float, out); AT(const float, lse); AT(const float, dout); AT(const int, start);
  L float2 g[64];
  int u = GROUP, kv = get_group_id(1), d = a.head, group = a.heads / a.kv_heads;
  if (u >= size(rows, bind)) return;
  int s = sequence_of(start, size(seqs, bind), u), q0 = start[s], q1 = start[s + 1];
  u64 ko = ((u64)u * a.kv_heads + kv) * d;
  float gk[SLOTS] = {0, 0, 0, 0}, gv[SLOTS] = {0, 0, 0, 0};
  if (u >= q0 && u < q1)
    for (int h = kv * group; h < (kv + 1) * group; h++) {
      float slope = slopes ? slopes[h] : 0;
      for (int t0 = q0; t0 < q1; t0 += 64) {
        int t = t0 + LANE, n = min(64, q1 - t0);
        barrier(CLK_LOCAL_MEM_FENCE);
        g[LANE] = (float2)(0, 0);
        if (LANE < n) {
          int2 see = visible(a, t - q0, q1 - q0);
          u64 o = ((u64)t * a.heads + h) * d;
          if (u - q0 >= see.x && u - q0 < see.y) g[LANE] = pair_grad(a, q + o, k + ko, v + ko, dout + o, out + o, lse[(u64)t * a.heads + h], slope, u - q0, rel ? rel[h * relcols + rel_at(relcols, t - q0, u - q0)] : 0);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int c = 0; c < SLOTS; c++) {
          int e = LANE + 64 * c;
          if (e < d)
            for (int i = 0; i < n; i++) {
              u64 o = ((u64)(t0 + i) * a.heads + h) * d + e;
              gk[c] += g[i].y * q[o];
              gv[c] += g[i].x * dout[o];
            }
        }
      }
    }
  for (int c = 0; c < SLOTS; c++)
    if (LANE + 64 * c < d) {
      if (dk) dk[ko + LANE + 64 * c] = gk[c];
      if (dv) dv[ko + LANE + 64 * c] = gv[c];
    }
}

// The gradient of the bias: one group of 64 lanes per head and distance, lanes
// over queries. Pairs beyond the largest distance count to it.
KERNEL k_attention_drel(SLABS, PTR(const int, bind), Dim rows, Dim seqs, Mask a, PTR(const float, slopes), PTR(float, drel), PTR(const float, q), PTR(const float, k), PTR(const float, v), PTR(const float, out), PTR(const float, lse), PTR(const float, dout), PTR(const int, start), PTR(const float, rel), int relcols) {
  AT(const float, rel); AT(const int, bind); AT(const float, slopes); AT(float, drel); AT(const float, q); AT(const float, k); AT(const float, v); AT(const float, out); AT(const float, lse); AT(const float, dout); AT(const int, start);
  L float part[64];
  int at = GROUP, h = get_group_id(1), d = a.head, n = size(rows, bind), ns = size(seqs, bind), reach = (relcols - 1) / 2;
  u64 head = h / (a.heads / a.kv_heads) * d;
  float sum = 0;
  for (int t = LANE; t < n; t += 64) {
    int s = sequence_of(start, ns, t), q0 = start[s], q1 = start[s + 1];
    if (t < q0 || t >= q1) continue;
    int2 see = visible(a, t - q0, q1 - q0);
    int lo = t - q0 + at - reach, hi = lo + 1;
    if (at == 0) lo = see.x;
    if (at == 2 * reach) hi = see.y;
    u64 o = ((u64)t * a.heads + h) * d;
    for (int j = max(lo, see.x); j < min(hi, see.y); j++) {
      u64 u = (u64)(q0 + j) * a.kv_heads * d + head;
      sum += pair_grad(a, q + o, k + u, v + u, dout + o, out + o, lse[(u64)t * a.heads + h], slopes ? slopes[h] : 0, j, rel[h * relcols + at]).y / a.scale;
    }
  }
  sum = group_sum(sum, part);
  if (LANE == 0) drel[h * relcols + at] = sum;
}

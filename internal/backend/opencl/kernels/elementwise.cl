// Functions of each element, and rows that move.

KERNEL k_add(SLABS, BIND, PTR(float, z), PTR(const float, x), PTR(const float, y)) {
  AT(const int, bind); AT(float, z); AT(const float, x); AT(const float, y);
  EACH(i) z[i] = x[i] + y[i];
}
KERNEL k_mul(SLABS, BIND, PTR(float, z), PTR(const float, x), PTR(const float, y)) {
  AT(const int, bind); AT(float, z); AT(const float, x); AT(const float, y);
  EACH(i) z[i] = x[i] * y[i];
}
KERNEL k_scale(SLABS, BIND, PTR(float, y), PTR(const float, x), float c) {
  AT(const int, bind); AT(float, y); AT(const float, x);
  EACH(i) y[i] = c * x[i];
}
KERNEL k_shift(SLABS, BIND, PTR(float, y), PTR(const float, x), float c) {
  AT(const int, bind); AT(float, y); AT(const float, x);
  EACH(i) y[i] = x[i] + c;
}
KERNEL k_fill(SLABS, BIND, PTR(float, y), float c) {
  AT(const int, bind); AT(float, y);
  EACH(i) y[i] = c;
}
KERNEL k_add_row(SLABS, BIND, PTR(float, y), PTR(const float, x), PTR(const float, v)) {
  AT(const int, bind); AT(float, y); AT(const float, x); AT(const float, v);
  EACH(i) y[i] = x[i] + v[i % cols];
}
KERNEL k_mul_rows(SLABS, BIND, PTR(float, y), PTR(const float, x), PTR(const float, f)) {
  AT(const int, bind); AT(float, y); AT(const float, x); AT(const float, f);
  EACH(i) y[i] = f[i / cols] * x[i];
}
KERNEL k_act(SLABS, BIND, PTR(float, y), PTR(const float, x), int kind) {
  AT(const int, bind); AT(float, y); AT(const float, x);
  EACH(i) y[i] = act(kind, x[i]);
}
KERNEL k_act_grad(SLABS, BIND, PTR(float, dx), PTR(const float, x), PTR(const float, dy), int kind) {
  AT(const int, bind); AT(float, dx); AT(const float, x); AT(const float, dy);
  EACH(i) dx[i] = act_slope(kind, x[i]) * dy[i];
}
KERNEL k_glu(SLABS, BIND, PTR(float, y), PTR(const float, gate), PTR(const float, up), int kind) {
  AT(const int, bind); AT(float, y); AT(const float, gate); AT(const float, up);
  EACH(i) y[i] = act(kind, gate[i]) * up[i];
}
KERNEL k_glu_grad(SLABS, BIND, PTR(float, dgate), PTR(float, dup), PTR(const float, gate), PTR(const float, up), PTR(const float, dy), int kind) {
  AT(const int, bind); AT(float, dgate); AT(float, dup); AT(const float, gate); AT(const float, up); AT(const float, dy);
  EACH(i) {
    float g = gate[i], d = dy[i];
    if (dgate) dgate[i] = act_slope(kind, g) * up[i] * d;
    if (dup) dup[i] = act(kind, g) * d;
  }
}

// Tokens below 0 are ids that the run before drew and that never left the device: -1-i
// is its row i. Where it could draw none the token is 0; the host ends that text.
KERNEL k_resume(SLABS, BIND, PTR(int, y), PTR(const int, tokens), PTR(const int, last)) {
  AT(const int, bind); AT(int, y); AT(const int, tokens); AT(const int, last);
  EACH(i) y[i] = tokens[i] < 0 ? max(last[-1 - tokens[i]], 0) : tokens[i];
}
// Keeps the ids of a run for the next.
KERNEL k_keep(SLABS, BIND, PTR(int, last), PTR(const int, ids)) {
  AT(const int, bind); AT(int, last); AT(const int, ids);
  EACH(i) last[i] = ids[i];
}

KERNEL k_embed(SLABS, BIND, PTR(float, y), PTR(const u8, table), int type, PTR(const int, ids), float scale) {
  AT(const int, bind); AT(float, y); AT(const u8, table); AT(const int, ids);
  u64 stride = row_bytes(type, cols);
  EACH(i) y[i] = scale * value_at(type, table + ids[i / cols] * stride, i % cols);
}

// One group per sequence, lanes over columns.
KERNEL k_embed_bag(SLABS, BIND, PTR(float, y), PTR(const u8, table), int type, PTR(const int, ids), PTR(const int, start)) {
  AT(const int, bind); AT(float, y); AT(const u8, table); AT(const int, ids); AT(const int, start);
  u64 s = GROUP, stride = row_bytes(type, cols);
  if (s >= size(rows, bind)) return;
  int lo = start[s], hi = start[s + 1];
  for (int c = LANE; c < cols; c += LANES) {
    float sum = 0;
    for (int t = lo; t < hi; t++) sum += value_at(type, table + ids[t] * stride, c);
    y[s * cols + c] = sum / max(hi - lo, 1);
  }
}

// One group per row of the table: the rows of an id are added in order of tokens.
KERNEL k_embed_grad(SLABS, BIND, PTR(float, dw), PTR(const float, dy), PTR(const int, ids), float scale) {
  AT(const int, bind); AT(float, dw); AT(const float, dy); AT(const int, ids);
  int id = GROUP, n = size(rows, bind);
  for (int c = LANE; c < cols; c += LANES) {
    float sum = 0;
    for (int t = 0; t < n; t++)
      if (ids[t] == id) sum += scale * dy[(u64)t * cols + c];
    dw[(u64)id * cols + c] = sum;
  }
}

KERNEL k_gather(SLABS, BIND, PTR(float, y), PTR(const float, x), PTR(const int, from)) {
  AT(const int, bind); AT(float, y); AT(const float, x); AT(const int, from);
  EACH(i) y[i] = x[(u64)from[i / cols] * cols + i % cols];
}

// One work item per element of dx: rows that repeat are added in order.
KERNEL k_scatter_rows(SLABS, BIND, PTR(float, dx), PTR(const float, dy), PTR(const int, to), Dim from) {
  AT(const int, bind); AT(float, dx); AT(const float, dy); AT(const int, to);
  int n = size(from, bind);
  EACH(i) {
    float sum = 0;
    int row = i / cols, c = i % cols;
    for (int r = 0; r < n; r++)
      if (to[r] == row) sum += dy[(u64)r * cols + c];
    dx[i] = sum;
  }
}

KERNEL k_rope(SLABS, BIND, PTR(float, y), PTR(const float, x), PTR(const int, pos), PTR(const int, length), PTR(const u64, freqs), Turn a) {
  AT(const int, bind); AT(float, y); AT(const float, x); AT(const int, pos); AT(const int, length); AT(const u64, freqs);
  int half_ = a.rot / 2, heads = cols / a.head;
  u64 n = (u64)size(rows, bind) * half_;
  for (u64 i = get_global_id(0); i < n; i += get_global_size(0)) {
    int t = i / half_, p = i % half_;
    float2 turn = angle(a, freqs, pos, length, t, p);
    int first = a.interleaved ? 2 * p : p, second = a.interleaved ? 2 * p + 1 : p + half_;
    for (int h = 0; h < heads; h++) {
      u64 o = (u64)t * cols + h * a.head;
      float u = x[o + first], v = x[o + second];
      y[o + first] = u * turn.y - v * turn.x;
      y[o + second] = v * turn.y + u * turn.x;
      if (x != y) // what does not rotate is copied, shared among the pairs
        for (int e = a.rot + p; e < a.head; e += half_) y[o + e] = x[o + e];
    }
  }
}

KERNEL k_positions(SLABS, PTR(const int, bind), Dim seqs, PTR(int, y), PTR(const int, tokens), PTR(const int, start), int pad) {
  AT(const int, bind); AT(int, y); AT(const int, tokens); AT(const int, start);
  int s = get_global_id(0);
  if (s >= size(seqs, bind)) return;
  for (int t = start[s], count = 0; t < start[s + 1]; t++) y[t] = tokens[t] == pad ? 0 : ++count;
}

KERNEL k_combine(SLABS, BIND, PTR(float, out), PTR(const float, y), PTR(const int, slots), PTR(const float, weights), int used) {
  AT(const int, bind); AT(float, out); AT(const float, y); AT(const int, slots); AT(const float, weights);
  EACH(i) {
    int t = i / cols, c = i % cols;
    float sum = 0;
    for (int j = 0; j < used; j++) sum += weights[t * used + j] * y[(u64)slots[t * used + j] * cols + c];
    out[i] = sum;
  }
}

// What objectives of training need beyond the models.

// sum is kept, or begun anew where keep is 0.
KERNEL k_accumulate(SLABS, BIND, PTR(float, sum), PTR(const float, g), PTR(const float, keep)) {
  AT(const int, bind); AT(float, sum); AT(const float, g); AT(const float, keep);
  EACH(i) sum[i] = keep[0] == 0 ? g[i] : sum[i] + g[i];
}

// y[h,i] = table[of[i],h].
KERNEL k_buckets(SLABS, BIND, PTR(float, y), PTR(const float, table), PTR(const int, of), int heads) {
  AT(const int, bind); AT(float, y); AT(const float, table); AT(const int, of);
  EACH(i) y[i] = table[of[i % cols] * heads + i / cols];
}

KERNEL k_buckets_grad(SLABS, BIND, PTR(float, dtable), PTR(const float, dy), PTR(const int, of), int n) {
  AT(const int, bind); AT(float, dtable); AT(const float, dy); AT(const int, of);
  EACH(i) {
    float sum = 0;
    for (int k = 0; k < n; k++)
      if (of[k] == i / cols) sum += dy[i % cols * n + k];
    dtable[i] = sum;
  }
}

// What both have of the columns, then zeros.
KERNEL k_columns(SLABS, BIND, PTR(float, y), PTR(const float, x), int width) {
  AT(const int, bind); AT(float, y); AT(const float, x);
  EACH(i) y[i] = i % cols < width ? x[i / cols * width + i % cols] : 0;
}

// One group per row.
KERNEL k_row_dot(SLABS, BIND, PTR(float, y), PTR(const float, a), PTR(const float, b)) {
  AT(const int, bind); AT(float, y); AT(const float, a); AT(const float, b);
  L float part[MOST];
  u64 r = GROUP;
  if (r >= size(rows, bind)) return;
  float sum = 0;
  for (int i = LANE; i < cols; i += LANES) sum += a[r * cols + i] * b[r * cols + i];
  sum = group_sum(sum, part);
  if (LANE == 0) y[r] = sum;
}

u64 mix64(u64 z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ul;
  z = (z ^ z >> 27) * 0x94d049bb133111ebul;
  return z ^ z >> 31;
}

// The elements that package graph drops.
KERNEL k_dropout(SLABS, BIND, PTR(float, y), PTR(const float, x), PTR(const int, key), int salt) {
  AT(const int, bind); AT(float, y); AT(const float, x); AT(const int, key);
  const u64 golden = 0x9e3779b97f4a7c15ul;
  float p = as_float(key[2]);
  u64 base = mix64(((u64)(u32)key[0] | (u64)(u32)key[1] << 32) + (u64)(u32)salt * golden), below = (u64)(p * 4294967296.0f);
  EACH(i) {
    u64 word = mix64(base + (i >> 1) * golden);
    y[i] = (word >> (32 * (i & 1)) & 0xffffffff) < below ? 0 : x[i] * (below ? 1 / (1 - p) : 1);
  }
}

// One group per row of the table: the rows of an id are added in order of tokens.
KERNEL k_embed_bag_grad(SLABS, BIND, PTR(float, dw), PTR(const float, dy), PTR(const int, ids), PTR(const int, start)) {
  AT(const int, bind); AT(float, dw); AT(const float, dy); AT(const int, ids); AT(const int, start);
  int id = GROUP, n = size(rows, bind);
  for (int c = LANE; c < cols; c += LANES) {
    float sum = 0;
    for (int s = 0; s < n; s++) {
      float f = 1.0f / max(start[s + 1] - start[s], 1);
      for (int t = start[s]; t < start[s + 1]; t++)
        if (ids[t] == id) sum += f * dy[(u64)s * cols + c];
    }
    dw[(u64)id * cols + c] = sum;
  }
}

// Log-sum-exp of a row divided by a temperature.
float row_lse(G const float *x, int n, float temperature, L float *part) {
  float top = -INFINITY, sum = 0;
  for (int i = LANE; i < n; i += LANES) top = fmax(top, x[i] / temperature);
  top = group_max(top, part);
  for (int i = LANE; i < n; i += LANES) sum += exp(x[i] / temperature - top);
  return top + log(group_sum(sum, part));
}

KERNEL k_distill(SLABS, BIND, PTR(float, kl), PTR(const float, student), PTR(const float, teacher), float temperature) {
  AT(const int, bind); AT(float, kl); AT(const float, student); AT(const float, teacher);
  L float part[MOST];
  u64 r = GROUP, o = r * cols;
  if (r >= size(rows, bind)) return;
  float ls = row_lse(student + o, cols, temperature, part), lt = row_lse(teacher + o, cols, temperature, part), sum = 0;
  for (int i = LANE; i < cols; i += LANES) {
    float l = teacher[o + i] / temperature - lt;
    sum += exp(l) * (l - (student[o + i] / temperature - ls));
  }
  sum = group_sum(sum, part);
  if (LANE == 0) kl[r] = sum * temperature * temperature;
}

KERNEL k_distill_grad(SLABS, BIND, PTR(float, dx), PTR(const float, student), PTR(const float, teacher), PTR(const float, d), float temperature) {
  AT(const int, bind); AT(float, dx); AT(const float, student); AT(const float, teacher); AT(const float, d);
  L float part[MOST];
  u64 r = GROUP, o = r * cols;
  if (r >= size(rows, bind)) return;
  float ls = row_lse(student + o, cols, temperature, part), lt = row_lse(teacher + o, cols, temperature, part), g = d[r] * temperature;
  for (int i = LANE; i < cols; i += LANES) dx[o + i] = g * (exp(student[o + i] / temperature - ls) - exp(teacher[o + i] / temperature - lt));
}

// Whether row c is among the answers of row q.
bool counts(G const int *partner, G const int *same, int q, int c) {
  int right = partner[q];
  if ((same[q] < 0) == (same[c] < 0)) return false;
  if (c == right) return true;
  if (same[q] < 0) return same[c] != same[right];
  return partner[c] < 0 || same[partner[c]] != same[q];
}

float dot_rows(G const float *a, G const float *b, int n) {
  float sum = 0;
  for (int i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

// One group per row that asks, lanes over the answers.
KERNEL k_infonce(SLABS, BIND, PTR(float, nll), PTR(float, lse), PTR(const float, x), PTR(const int, partner), PTR(const int, same), float scale) {
  AT(const int, bind); AT(float, nll); AT(float, lse); AT(const float, x); AT(const int, partner); AT(const int, same);
  L float part[MOST];
  int q = GROUP, n = size(rows, bind);
  if (q >= n) return;
  float l = 0, right = 0;
  if (partner[q] >= 0) {
    float top = -INFINITY, sum = 0;
    for (int s = LANE; s < n; s += LANES)
      if (counts(partner, same, q, s)) {
        float v = scale * dot_rows(x + (u64)q * cols, x + (u64)s * cols, cols), most = fmax(top, v);
        sum = sum * exp(top - most) + exp(v - most);
        top = most;
      }
    float most = group_max(top, part);
    l = most + log(group_sum(sum > 0 ? sum * exp(top - most) : 0, part));
    right = scale * dot_rows(x + (u64)q * cols, x + (u64)partner[q] * cols, cols);
  }
  if (LANE) return;
  if (lse) lse[q] = l;
  if (nll) nll[q] = l - right;
}

// One group per row: lanes have a row of the other side each, then columns.
KERNEL k_infonce_grad(SLABS, BIND, PTR(float, dx), PTR(const float, x), PTR(const float, lse), PTR(const int, partner), PTR(const int, same), PTR(const float, d), float scale) {
  AT(const int, bind); AT(float, dx); AT(const float, x); AT(const float, lse); AT(const int, partner); AT(const int, same); AT(const float, d);
  L float f[MOST];
  int i = GROUP, n = size(rows, bind);
  if (i >= n) return;
  G float *row = dx + (u64)i * cols;
  for (int c = LANE; c < cols; c += LANES) row[c] = 0;
  for (int j0 = 0; j0 < n; j0 += LANES) {
    int j = j0 + LANE, many = min(LANES, n - j0);
    float slope = 0;
    if (j < n && (same[i] < 0) != (same[j] < 0)) {
      float v = scale * dot_rows(x + (u64)i * cols, x + (u64)j * cols, cols);
      if (partner[i] >= 0 && counts(partner, same, i, j)) slope += (exp(v - lse[i]) - (partner[i] == j)) * scale * d[i];
      if (partner[j] >= 0 && counts(partner, same, j, i)) slope += (exp(v - lse[j]) - (partner[j] == i)) * scale * d[j];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    f[LANE] = slope;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int c = LANE; c < cols; c += LANES) {
      float sum = row[c];
      for (int k = 0; k < many; k++) sum += f[k] * x[(u64)(j0 + k) * cols + c];
      row[c] = sum;
    }
  }
}

// beta times how much more the model prefers the first answer of a pair than the
// reference does.
float margin(G const float *nll, G const float *ref, u64 i, float beta) { return beta * ((ref[i] - nll[i]) - (ref[i + 1] - nll[i + 1])); }

KERNEL k_preference(SLABS, BIND, PTR(float, y), PTR(const float, nll), PTR(const float, ref), float beta) {
  AT(const int, bind); AT(float, y); AT(const float, nll); AT(const float, ref);
  EACH(i) {
    float m = i % 2 == 0 && i + 1 < n_ ? margin(nll, ref, i, beta) : 0;
    y[i] = i % 2 == 0 && i + 1 < n_ ? log1p(exp(-fabs(m))) + fmax(-m, 0.0f) : 0;
  }
}

KERNEL k_preference_grad(SLABS, BIND, PTR(float, y), PTR(const float, nll), PTR(const float, ref), PTR(const float, d), float beta) {
  AT(const int, bind); AT(float, y); AT(const float, nll); AT(const float, ref); AT(const float, d);
  EACH(i) {
    u64 pair = i - i % 2;
    float g = 0;
    if (pair + 1 < n_) g = d[pair] * beta * logistic(-margin(nll, ref, pair, beta));
    y[i] = i % 2 ? -g : g;
  }
}

KERNEL k_sequence_sum(SLABS, BIND, PTR(float, y), PTR(const float, x), PTR(const int, start)) {
  AT(const int, bind); AT(float, y); AT(const float, x); AT(const int, start);
  EACH(s) {
    float sum = 0;
    for (int t = start[s]; t < start[s + 1]; t++) sum += x[t];
    y[s] = sum;
  }
}

KERNEL k_sequence_sum_grad(SLABS, BIND, PTR(float, dx), PTR(const float, dy), PTR(const int, start), Dim seqs) {
  AT(const int, bind); AT(float, dx); AT(const float, dy); AT(const int, start);
  int n = size(seqs, bind);
  EACH(t) {
    int s = sequence_of(start, n, t);
    dx[t] = start[s] <= (int)t && (int)t < start[s + 1] ? dy[s] : 0;
  }
}

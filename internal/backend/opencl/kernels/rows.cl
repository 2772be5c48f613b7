// Functions of whole rows: norms, pools, losses. One group per row or chunk of it;
// all lanes of a group make the same rounds, so that barriers meet.

// Mean and reciprocal deviation of a chunk.
float2 norm_stats(G const float *x, int n, int rms, float eps, L float *part) {
  float sum = 0, sq = 0, mean = 0;
  if (!rms) {
    for (int i = LANE; i < n; i += LANES) sum += x[i];
    mean = group_sum(sum, part) / n;
  }
  for (int i = LANE; i < n; i += LANES) {
    float d = x[i] - mean;
    sq += d * d;
  }
  return (float2)(mean, 1 / sqrt(group_sum(sq, part) / n + eps));
}

#define EACH_CHUNK(c) for (u64 c = GROUP, n_ = (u64)size(rows, bind) * cols / chunk; c < n_; c += GROUPS)

// sum, if there is one, is x + add, which is normed in place of x and written.
KERNEL k_norm(SLABS, BIND, PTR(float, y), PTR(const float, x), PTR(const float, w), PTR(const float, bias), int width, int chunk, int rms, float eps, float offset, PTR(float, sum), PTR(const float, add)) {
  AT(const int, bind); AT(float, y); AT(const float, x); AT(const float, w); AT(const float, bias); AT(float, sum); AT(const float, add);
  L float part[MOST];
  EACH_CHUNK(c) {
    u64 o = c * chunk;
    G const float *from = x + o;
    if (add) {
      for (int i = LANE; i < chunk; i += LANES) sum[o + i] = x[o + i] + add[o + i];
      barrier(CLK_GLOBAL_MEM_FENCE);
      from = sum + o;
    }
    float2 s = norm_stats(from, chunk, rms, eps, part);
    int at = o % width;
    for (int i = LANE; i < chunk; i += LANES) {
      float v = (from[i] - s.x) * s.y * (w[at + i] + offset);
      y[o + i] = bias ? v + bias[at + i] : v;
    }
  }
}

KERNEL k_norm_dx(SLABS, BIND, PTR(float, dx), PTR(const float, dy), PTR(const float, x), PTR(const float, w), int width, int chunk, int rms, float eps, float offset) {
  AT(const int, bind); AT(float, dx); AT(const float, dy); AT(const float, x); AT(const float, w);
  L float part[MOST];
  EACH_CHUNK(c) {
    u64 o = c * chunk;
    float2 s = norm_stats(x + o, chunk, rms, eps, part);
    int at = o % width;
    float sum = 0, dot = 0;
    for (int i = LANE; i < chunk; i += LANES) {
      float g = dy[o + i] * (w[at + i] + offset);
      sum += g;
      dot += g * (x[o + i] - s.x) * s.y;
    }
    sum = rms ? 0 : group_sum(sum, part) / chunk;
    dot = group_sum(dot, part) / chunk;
    for (int i = LANE; i < chunk; i += LANES) {
      float g = dy[o + i] * (w[at + i] + offset);
      dx[o + i] = s.y * (g - sum - (x[o + i] - s.x) * s.y * dot);
    }
  }
}

KERNEL k_norm_stats(SLABS, BIND, PTR(float, stats), PTR(const float, x), int chunk, int rms, float eps) {
  AT(const int, bind); AT(float, stats); AT(const float, x);
  L float part[MOST];
  EACH_CHUNK(c) {
    float2 s = norm_stats(x + c * chunk, chunk, rms, eps, part);
    if (LANE == 0) {
      stats[2 * c] = s.x;
      stats[2 * c + 1] = s.y;
    }
  }
}

// One work item per column: rows are added in order.
KERNEL k_norm_dw(SLABS, BIND, PTR(float, dw), PTR(float, db), PTR(const float, dy), PTR(const float, x), PTR(const float, stats), int width, int chunk) {
  AT(const int, bind); AT(float, dw); AT(float, db); AT(const float, dy); AT(const float, x); AT(const float, stats);
  int i = get_global_id(0);
  if (i >= width) return;
  u64 n = (u64)size(rows, bind) * cols;
  float w = 0, b = 0;
  for (u64 o = i; o < n; o += width) {
    float g = dy[o];
    u64 k = 2 * (o / chunk);
    w += g * (x[o] - stats[k]) * stats[k + 1];
    b += g;
  }
  if (dw) dw[i] = w;
  if (db) db[i] = b;
}

KERNEL k_col_sum(SLABS, BIND, PTR(float, y), PTR(const float, x)) {
  AT(const int, bind); AT(float, y); AT(const float, x);
  int c = get_global_id(0), n = size(rows, bind);
  if (c >= cols) return;
  float sum = 0;
  for (int r = 0; r < n; r++) sum += x[(u64)r * cols + c];
  y[c] = sum;
}

// Pools, as package graph numbers them.
enum { POOL_MEAN, POOL_CLS, POOL_LAST, POOL_MAX, POOL_MEAN_SQRT, POOL_WEIGHTED };

int2 pool_span(int kind, int lo, int hi) {
  if (lo < hi && kind == POOL_CLS) hi = lo + 1;
  if (lo < hi && kind == POOL_LAST) lo = hi - 1;
  return (int2)(lo, hi);
}

// One group per sequence; kind is the one of the columns from out on.
KERNEL k_pool(SLABS, BIND, PTR(float, y), PTR(const float, x), PTR(const int, start), int kind, int width, int out) {
  AT(const int, bind); AT(float, y); AT(const float, x); AT(const int, start);
  u64 s = GROUP;
  if (s >= size(rows, bind)) return;
  int2 span = pool_span(kind, start[s], start[s + 1]);
  int lo = span.x, hi = span.y;
  float n = max(hi - lo, 1);
  if (kind == POOL_MEAN_SQRT) n = sqrt(n);
  if (kind == POOL_WEIGHTED) n = n * (n + 1) / 2;
  for (int c = LANE; c < cols; c += LANES) {
    float acc = 0;
    for (int t = lo; t < hi; t++) {
      float v = x[(u64)t * cols + c];
      if (kind == POOL_WEIGHTED) acc += v * (t - lo + 1);
      else if (kind != POOL_MAX) acc += v;
      else if (t == lo || v > acc) acc = v;
    }
    y[s * width + out + c] = kind == POOL_MAX ? acc : acc / n;
  }
}

// One group per token, of the columns of dy from out on: dx is zero where no
// sequence reads it. The first of the largest rows gets all of a maximum's.
KERNEL k_pool_grad(SLABS, BIND, PTR(float, dx), PTR(const float, dy), PTR(const int, start), PTR(const float, x), Dim seqs, int kind, int width, int out, int add) {
  AT(const int, bind); AT(float, dx); AT(const float, dy); AT(const int, start); AT(const float, x);
  int t = GROUP;
  if (t >= size(rows, bind)) return;
  int s = sequence_of(start, size(seqs, bind), t);
  int2 span = pool_span(kind, start[s], start[s + 1]);
  bool in = span.x <= t && t < span.y;
  float n = span.y - span.x, f = in ? 1 / n : 0;
  if (in && kind == POOL_MEAN_SQRT) f = 1 / sqrt(n);
  if (in && kind == POOL_WEIGHTED) f = (t - span.x + 1) / (n * (n + 1) / 2);
  for (int c = LANE; c < cols; c += LANES) {
    float g = in ? dy[(u64)s * width + out + c] * f : 0;
    if (in && kind == POOL_MAX) {
      int top = span.x;
      for (int r = span.x + 1; r < span.y; r++)
        if (x[(u64)r * cols + c] > x[(u64)top * cols + c]) top = r;
      g = top == t ? dy[(u64)s * width + out + c] : 0;
    }
    dx[(u64)t * cols + c] = add ? dx[(u64)t * cols + c] + g : g;
  }
}

KERNEL k_l2norm(SLABS, BIND, PTR(float, y), PTR(const float, x)) {
  AT(const int, bind); AT(float, y); AT(const float, x);
  L float part[MOST];
  for (u64 r = GROUP; r < size(rows, bind); r += GROUPS) {
    float sq = 0;
    for (int i = LANE; i < cols; i += LANES) sq += x[r * cols + i] * x[r * cols + i];
    float inv = 1 / fmax(sqrt(group_sum(sq, part)), 1e-12f);
    for (int i = LANE; i < cols; i += LANES) y[r * cols + i] = x[r * cols + i] * inv;
  }
}

KERNEL k_l2norm_grad(SLABS, BIND, PTR(float, dx), PTR(const float, dy), PTR(const float, x)) {
  AT(const int, bind); AT(float, dx); AT(const float, dy); AT(const float, x);
  L float part[MOST];
  for (u64 r = GROUP; r < size(rows, bind); r += GROUPS) {
    float sq = 0, dot = 0;
    for (int i = LANE; i < cols; i += LANES) {
      float v = x[r * cols + i];
      sq += v * v;
      dot += v * dy[r * cols + i];
    }
    float length = sqrt(group_sum(sq, part)), inv = 1 / fmax(length, 1e-12f);
    dot = group_sum(dot, part);
    float proj = length < 1e-12f ? 0 : dot * inv * inv;
    for (int i = LANE; i < cols; i += LANES) dx[r * cols + i] = (dy[r * cols + i] - x[r * cols + i] * proj) * inv;
  }
}

// One group per row.
KERNEL k_cross_entropy(SLABS, BIND, PTR(float, nll), PTR(float, lse), PTR(const float, logits), PTR(const int, targets), PTR(const float, smoothing)) {
  AT(const int, bind); AT(float, nll); AT(float, lse); AT(const float, logits); AT(const int, targets); AT(const float, smoothing);
  L float part[MOST];
  u64 r = GROUP;
  if (r >= size(rows, bind)) return;
  G const float *x = logits + r * cols;
  float top = -INFINITY, sum = 0;
  for (int i = LANE; i < cols; i += LANES) top = fmax(top, x[i]);
  top = group_max(top, part);
  for (int i = LANE; i < cols; i += LANES) sum += exp(x[i] - top);
  sum = group_sum(sum, part);
  float smooth = smoothing ? *smoothing : 0, mean = 0;
  if (smooth > 0) {
    for (int i = LANE; i < cols; i += LANES) mean += x[i];
    mean = group_sum(mean, part) / cols;
  }
  if (LANE) return;
  float l = top + log(sum);
  if (lse) lse[r] = l;
  if (nll) nll[r] = targets[r] < 0 ? 0 : l - (1 - smooth) * x[targets[r]] - smooth * mean;
}

KERNEL k_cross_entropy_grad(SLABS, BIND, PTR(float, dx), PTR(const float, logits), PTR(const float, lse), PTR(const int, targets), PTR(const float, dnll), PTR(const float, smoothing)) {
  AT(const int, bind); AT(float, dx); AT(const float, logits); AT(const float, lse); AT(const int, targets); AT(const float, dnll); AT(const float, smoothing);
  u64 r = GROUP, o = r * cols;
  if (r >= size(rows, bind)) return;
  int target = targets[r];
  float smooth = smoothing ? *smoothing : 0, all = smooth / cols;
  for (int i = LANE; i < cols; i += LANES) dx[o + i] = target < 0 ? 0 : dnll[r] * (exp(logits[o + i] - lse[r]) - all - (i == target ? 1 - smooth : 0));
}

// One group in all.
KERNEL k_mean(SLABS, PTR(const int, bind), Dim rows, PTR(float, y), PTR(const float, x), PTR(const int, targets)) {
  AT(const int, bind); AT(float, y); AT(const float, x); AT(const int, targets);
  L float part[MOST];
  float sum = 0, count = 0;
  for (int r = LANE; r < size(rows, bind); r += LANES)
    if (!targets || targets[r] >= 0) sum += x[r], count += 1;
  sum = group_sum(sum, part);
  count = group_sum(count, part);
  if (LANE == 0) y[0] = sum / fmax(count, 1.0f);
}

KERNEL k_mean_grad(SLABS, PTR(const int, bind), Dim rows, PTR(float, dx), PTR(const float, d), PTR(const int, targets)) {
  AT(const int, bind); AT(float, dx); AT(const float, d); AT(const int, targets);
  L float part[MOST];
  float count = 0;
  int n = size(rows, bind);
  for (int r = LANE; r < n; r += LANES) count += !targets || targets[r] >= 0;
  count = group_sum(count, part);
  float g = d[0] / fmax(count, 1.0f);
  for (int r = LANE; r < n; r += LANES) dx[r] = !targets || targets[r] >= 0 ? g : 0;
}

// Groups sum parts of a fixed size; k_sum_parts adds them.
KERNEL k_sum_squares(SLABS, BIND, PTR(float, parts), PTR(const float, g)) {
  AT(const int, bind); AT(float, parts); AT(const float, g);
  L float part[MOST];
  u64 n = (u64)size(rows, bind) * cols, lo = GROUP * 65536;
  float sum = 0;
  for (u64 i = lo + LANE; i < n && i < lo + 65536; i += LANES) sum += g[i] * g[i];
  sum = group_sum(sum, part);
  if (LANE == 0) parts[GROUP] = sum;
}

// to[at] is the sum of n parts; root takes the square root of it.
KERNEL k_sum_parts(SLABS, PTR(float, y), PTR(const float, parts), int n, int root) {
  AT(float, y); AT(const float, parts);
  L float part[MOST];
  float sum = 0;
  for (int i = LANE; i < n; i += LANES) sum += parts[i];
  sum = group_sum(sum, part);
  if (LANE == 0) y[0] = root ? sqrt(sum) : sum;
}

// Entries of hyper, as package graph numbers them.
enum { LR, BETA1, BETA2, EPS, DECAY, CORR1, CORR2, CLIP, LIMIT };

// Whether the step is made: its global norm is within the limit, if there is one.
bool within(G const float *h, G const float *norm) { return !(h[LIMIT] > 0) || norm[0] <= h[LIMIT]; }
float clip_factor(G const float *h, G const float *norm) { return h[CLIP] > 0 ? fmin(1.0f, h[CLIP] / (norm[0] + 1e-6f)) : 1; }

KERNEL k_adamw(SLABS, BIND, PTR(float, w), PTR(float, m), PTR(float, v), PTR(const float, g), PTR(const float, norm), PTR(const float, h), int decay) {
  AT(const int, bind); AT(float, w); AT(float, m); AT(float, v); AT(const float, g); AT(const float, norm); AT(const float, h);
  if (!within(h, norm)) return;
  float clip = clip_factor(h, norm), keep = decay ? 1 - h[LR] * h[DECAY] : 1, step_ = h[LR] / h[CORR1], root = sqrt(h[CORR2]);
  EACH(i) {
    float gc = g[i] * clip, mi = h[BETA1] * m[i] + (1 - h[BETA1]) * gc, vi = h[BETA2] * v[i] + (1 - h[BETA2]) * gc * gc;
    w[i] = keep * w[i] - step_ * mi / (sqrt(vi) / root + h[EPS]);
    m[i] = mi;
    v[i] = vi;
  }
}

KERNEL k_sgd(SLABS, BIND, PTR(float, w), PTR(float, m), PTR(const float, g), PTR(const float, norm), PTR(const float, h), int decay, int nesterov) {
  AT(const int, bind); AT(float, w); AT(float, m); AT(const float, g); AT(const float, norm); AT(const float, h);
  if (!within(h, norm)) return;
  float clip = clip_factor(h, norm), momentum = h[BETA1], add = decay ? h[DECAY] : 0;
  EACH(i) {
    float d = g[i] * clip + add * w[i], mi = momentum * m[i] + d;
    w[i] -= h[LR] * (nesterov ? d + momentum * mi : mi);
    m[i] = mi;
  }
}

// One value into a list.
KERNEL k_put(SLABS, PTR(float, y), int at, PTR(const float, x)) {
  AT(float, y); AT(const float, x);
  if (get_global_id(0) == 0) y[at] = x[0];
}

// Functions of whole rows: norms, pools, losses.

// One warp per chunk of a row.
__device__ __forceinline__ void norm_stats(const float *x, int n, int rms, float eps, float &mean, float &rstd) {
  int lane = threadIdx.x % 32;
  float sum = 0;
  mean = 0;
  if (!rms) {
    for (int i = lane; i < n; i += 32) sum += x[i];
    mean = warp_sum(sum) / n;
  }
  float sq = 0;
  for (int i = lane; i < n; i += 32) {
    float d = x[i] - mean;
    sq += d * d;
  }
  rstd = 1 / sqrtf(warp_sum(sq) / n + eps);
}

#define EACH_CHUNK(c) for (u64 c = (blockIdx.x * (u64)blockDim.x + threadIdx.x) / 32, n_ = (u64)size(rows, bind) * cols / chunk; c < n_; c += (u64)gridDim.x * blockDim.x / 32)

KERNEL k_norm(const int *bind, Dim rows, int cols, Out y, In x, In add, float *sum, const float *w, const float *bias, int width, int chunk, int rms, float eps, float offset) {
  grid_wait();
  int lane = threadIdx.x % 32;
  EACH_CHUNK(c) {
    u64 o = c * chunk;
    int at = o % width;
    auto value = [&](int i) { return get(x, o + i) + (add.p ? get(add, o + i) : 0); };
    float mean = 0, sq = 0;
    for (int i = lane; i < chunk && !rms; i += 32) mean += value(i);
    mean = rms ? 0 : warp_sum(mean) / chunk;
    for (int i = lane; i < chunk; i += 32) {
      float d = value(i) - mean;
      sq += d * d;
    }
    float rstd = 1 / sqrtf(warp_sum(sq) / chunk + eps);
    __syncwarp();
    for (int i = lane; i < chunk; i += 32) {
      float u = value(i), v = (u - mean) * rstd * (w[at + i] + offset);
      if (sum) sum[o + i] = u;
      put(y, o + i, bias ? v + bias[at + i] : v);
    }
  }
}

// Before is a norm of x by itself before another is added to it; w 0: none.
struct Before {
  const float *w, *bias;
  float eps, offset;
  int rms;
};

// The same for chunks of a multiple of 4 values, of which W threads hold up to E
// times 4 each. add, if there is one, is added to x, or to its norm; sum is where the sum is
// written, or 0.
template <int W, int E>
__device__ __forceinline__ void norm_held(const int *bind, Dim rows, int cols, Out y, In x, In add, float *sum, const float *w, const float *bias, int width, int chunk, int rms, float eps, float offset, const Before &b) {
  u64 o = (blockIdx.x * (u64)(blockDim.x / W) + threadIdx.x / W) * chunk;
  bool mine = o < (u64)size(rows, bind) * cols;
  grid_wait();
  if (!mine) return;
  int t = threadIdx.x % W, at = o % width;
  auto total = [](float v) { return W == 32 ? warp_sum(v) : block_sum(v); };
  constexpr int AHEAD = W == 32 ? E : 1; // values of add that are loaded with those of x: more would leave room for fewer blocks
  float4 v[E], u[AHEAD];
#pragma unroll
  for (int e = 0; e < E; e++) {
    if (4 * (t + e * W) >= chunk) break;
    v[e] = four_of(x.p, x.half, o + 4 * (t + e * W));
    if (add.p && e < AHEAD) u[e] = four_of(add.p, add.half, o + 4 * (t + e * W));
  }
  // The factor of the norm of v, from which its mean is taken, where it has one.
  auto factor = [&](int rms, float eps) {
    float sq = 0, mean = 0;
#pragma unroll
    for (int e = 0; e < E && !rms; e++) {
      if (4 * (t + e * W) >= chunk) break;
      mean += v[e].x + v[e].y + v[e].z + v[e].w;
    }
    if (!rms) mean = total(mean) / chunk;
#pragma unroll
    for (int e = 0; e < E; e++) {
      if (4 * (t + e * W) >= chunk) break;
      v[e].x -= mean, v[e].y -= mean, v[e].z -= mean, v[e].w -= mean;
      sq += v[e].x * v[e].x + v[e].y * v[e].y + v[e].z * v[e].z + v[e].w * v[e].w;
    }
    return 1 / sqrtf(total(sq) / chunk + eps);
  };
  auto scaled = [&](float4 v, float rstd, const float *w, const float *bias, float offset, int i) -> float4 {
    float4 g = *(const float4 *)(w + at + i), r = {v.x * rstd * (g.x + offset), v.y * rstd * (g.y + offset), v.z * rstd * (g.z + offset), v.w * rstd * (g.w + offset)};
    if (bias) {
      float4 b = *(const float4 *)(bias + at + i);
      r.x += b.x, r.y += b.y, r.z += b.z, r.w += b.w;
    }
    return r;
  };
  if (b.w) {
    float rstd = factor(b.rms, b.eps);
#pragma unroll
    for (int e = 0; e < E; e++) {
      int i = 4 * (t + e * W);
      if (i >= chunk) break;
      v[e] = scaled(v[e], rstd, b.w, b.bias, b.offset, i);
    }
  }
#pragma unroll
  for (int e = 0; e < E; e++) {
    int i = 4 * (t + e * W);
    if (i >= chunk) break;
    if (add.p) {
      float4 g = e < AHEAD ? u[e < AHEAD ? e : 0] : four_of(add.p, add.half, o + i);
      v[e].x += g.x, v[e].y += g.y, v[e].z += g.z, v[e].w += g.w;
    }
    if (sum) *(float4 *)(sum + o + i) = v[e];
  }
  float rstd = factor(rms, eps);
#pragma unroll
  for (int e = 0; e < E; e++) {
    int i = 4 * (t + e * W);
    if (i >= chunk) break;
    float4 r = scaled(v[e], rstd, w, bias, offset, i);
    if (y.f) *(float4 *)(y.f + o + i) = r;
    if (y.h) *(uint2 *)(y.h + o + i) = {bf16_pair(r.x, r.y), bf16_pair(r.z, r.w)};
  }
}

KERNEL __launch_bounds__(128) k_norm_warp(const int *bind, Dim rows, int cols, Out y, In x, In add, float *sum, const float *w, const float *bias, int width, int chunk, int rms, float eps, float offset, Before b) {
  norm_held<32, 4>(bind, rows, cols, y, x, add, sum, w, bias, width, chunk, rms, eps, offset, b);
}
KERNEL __launch_bounds__(128) k_norm_warp_long(const int *bind, Dim rows, int cols, Out y, In x, In add, float *sum, const float *w, const float *bias, int width, int chunk, int rms, float eps, float offset, Before b) {
  norm_held<32, 8>(bind, rows, cols, y, x, add, sum, w, bias, width, chunk, rms, eps, offset, b);
}
KERNEL __launch_bounds__(256) k_norm_block(const int *bind, Dim rows, int cols, Out y, In x, In add, float *sum, const float *w, const float *bias, int width, int chunk, int rms, float eps, float offset, Before b) {
  norm_held<256, 8>(bind, rows, cols, y, x, add, sum, w, bias, width, chunk, rms, eps, offset, b);
}

KERNEL k_norm_dx(const int *bind, Dim rows, int cols, float *dx, const float *dy, const float *x, const float *w, int width, int chunk, int rms, float eps, float offset) {
  grid_wait();
  int lane = threadIdx.x % 32;
  EACH_CHUNK(c) {
    u64 o = c * chunk;
    float mean, rstd;
    norm_stats(x + o, chunk, rms, eps, mean, rstd);
    int at = o % width;
    float sum = 0, dot = 0;
    for (int i = lane; i < chunk; i += 32) {
      float g = dy[o + i] * (w[at + i] + offset);
      sum += g;
      dot += g * (x[o + i] - mean) * rstd;
    }
    sum = rms ? 0 : warp_sum(sum) / chunk;
    dot = warp_sum(dot) / chunk;
    __syncwarp();
    for (int i = lane; i < chunk; i += 32) {
      float g = dy[o + i] * (w[at + i] + offset);
      dx[o + i] = rstd * (g - sum - (x[o + i] - mean) * rstd * dot);
    }
  }
}

KERNEL k_norm_stats(const int *bind, Dim rows, int cols, float *stats, const float *x, int chunk, int rms, float eps) {
  grid_wait();
  EACH_CHUNK(c) {
    float mean, rstd;
    norm_stats(x + c * chunk, chunk, rms, eps, mean, rstd);
    if (threadIdx.x % 32 == 0) {
      stats[2 * c] = mean;
      stats[2 * c + 1] = rstd;
    }
  }
}

// Sums over rows come in two steps: blocks of 8 warps sum 32 columns of a slice of
// rows, one slice per blockIdx.y, and k_add_slices adds slices in order.
__device__ __forceinline__ void slice(int n, int &from, int &to) {
  int per = (n + gridDim.y - 1) / gridDim.y;
  from = min(n, per * (int)blockIdx.y), to = min(n, from + per);
}

// slices are [blockIdx.y][2][width]: of dw, then of db.
KERNEL k_norm_dw(const int *bind, Dim rows, int cols, float *slices, const float *dy, const float *x, const float *stats, int width, int chunk) {
  grid_wait();
  __shared__ float sw[8][32], sb[8][32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = blockIdx.x * 32 + lane, from, to;
  slice((u64)size(rows, bind) * cols / width, from, to);
  float w = 0, b = 0;
  if (i < width)
#pragma unroll 4
    for (int r = from + warp; r < to; r += 8) {
      u64 o = (u64)r * width + i, k = 2 * (o / chunk);
      float g = dy[o];
      w += g * (x[o] - stats[k]) * stats[k + 1];
      b += g;
    }
  sw[warp][lane] = w;
  sb[warp][lane] = b;
  __syncthreads();
  if (warp || i >= width) return;
  for (int k = 1; k < 8; k++) w += sw[k][lane], b += sb[k][lane];
  slices[(u64)blockIdx.y * 2 * width + i] = w;
  slices[((u64)blockIdx.y * 2 + 1) * width + i] = b;
}

KERNEL k_col_sum(const int *bind, Dim rows, int cols, float *slices, const float *x) {
  grid_wait();
  __shared__ float part[8][32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, c = blockIdx.x * 32 + lane, from, to;
  slice(size(rows, bind), from, to);
  float sum = 0;
  if (c < cols)
#pragma unroll 4
    for (int r = from + warp; r < to; r += 8) sum += x[(u64)r * cols + c];
  part[warp][lane] = sum;
  __syncthreads();
  if (warp || c >= cols) return;
  for (int k = 1; k < 8; k++) sum += part[k][lane];
  slices[(u64)blockIdx.y * cols + c] = sum;
}

// y[width] of n slices that are stride values apart.
KERNEL k_add_slices(float *y, const float *slices, int n, int stride, int width) {
  grid_wait();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= width) return;
  float sum = 0;
  for (int k = 0; k < n; k++) sum += slices[(u64)k * stride + i];
  y[i] = sum;
}

// Pools, as package graph numbers them.
enum { POOL_MEAN, POOL_CLS, POOL_LAST, POOL_MAX, POOL_MEAN_SQRT, POOL_WEIGHTED };

__device__ __forceinline__ void pool_span(int kind, int &lo, int &hi) {
  if (lo == hi) return;
  if (kind == POOL_CLS) hi = lo + 1;
  if (kind == POOL_LAST) lo = hi - 1;
}

// One block per sequence; kind is the one of the columns from out on.
KERNEL k_pool(const int *bind, Dim seqs, int cols, float *y, const float *x, const int *start, int kind, int width, int out) {
  grid_wait();
  int s = blockIdx.x;
  if (s >= size(seqs, bind)) return;
  int lo = start[s], hi = start[s + 1];
  pool_span(kind, lo, hi);
  float n = max(hi - lo, 1);
  if (kind == POOL_MEAN_SQRT) n = sqrtf(n);
  if (kind == POOL_WEIGHTED) n = n * (n + 1) / 2;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    float acc = 0;
    if (kind == POOL_MEAN) {
#pragma unroll 8
      for (int t = lo; t < hi; t++) acc += x[(u64)t * cols + c];
      y[(u64)s * width + out + c] = acc / n;
      continue;
    }
    for (int t = lo; t < hi; t++) {
      float v = x[(u64)t * cols + c];
      if (kind == POOL_WEIGHTED) acc += v * (t - lo + 1);
      else if (kind != POOL_MAX) acc += v;
      else if (t == lo || v > acc) acc = v;
    }
    y[(u64)s * width + out + c] = kind == POOL_MAX ? acc : acc / n;
  }
}

// One block per token: dx is zero where no sequence reads it. kind is the one of the
// columns of dy from part on; more: what kinds before it gave is kept.
KERNEL k_pool_grad(const int *bind, Dim rows, int cols, float *dx, const float *dy, const int *start, Dim seqs, const float *x, int kind, int width, int part, int more) {
  grid_wait();
  int t = blockIdx.x;
  if (t >= size(rows, bind)) return;
  int s = sequence_of(start, size(seqs, bind), t), lo = start[s], hi = start[s + 1];
  pool_span(kind, lo, hi);
  bool read = lo <= t && t < hi;
  float n = max(hi - lo, 1), f = 1 / n;
  if (kind == POOL_MEAN_SQRT) f = 1 / sqrtf(n);
  if (kind == POOL_WEIGHTED) f = (t - lo + 1) / (n * (n + 1) / 2);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    bool mine = read;
    if (kind == POOL_MAX) { // the first of the largest gets all
      f = 1;
      float v = x[(u64)t * cols + c];
      for (int u = lo; u < hi && mine; u++) {
        float w = x[(u64)u * cols + c];
        mine = u < t ? w < v : w <= v;
      }
    }
    float g = mine ? dy[(u64)s * width + part + c] * f : 0;
    u64 at = (u64)t * cols + c;
    dx[at] = more ? dx[at] + g : g;
  }
}

// One warp per row.
#define EACH_ROW(r) for (u64 r = (blockIdx.x * (u64)blockDim.x + threadIdx.x) / 32, n_ = size(rows, bind); r < n_; r += (u64)gridDim.x * blockDim.x / 32)

KERNEL k_l2norm(const int *bind, Dim rows, int cols, float *y, const float *x) {
  grid_wait();
  int lane = threadIdx.x % 32;
  EACH_ROW(r) {
    float sq = 0;
    for (int i = lane; i < cols; i += 32) sq += x[r * cols + i] * x[r * cols + i];
    float inv = 1 / fmaxf(sqrtf(warp_sum(sq)), 1e-12f);
    for (int i = lane; i < cols; i += 32) y[r * cols + i] = x[r * cols + i] * inv;
  }
}

KERNEL k_l2norm_grad(const int *bind, Dim rows, int cols, float *dx, const float *dy, const float *x) {
  grid_wait();
  int lane = threadIdx.x % 32;
  EACH_ROW(r) {
    float sq = 0, dot = 0;
    for (int i = lane; i < cols; i += 32) {
      float v = x[r * cols + i];
      sq += v * v;
      dot += v * dy[r * cols + i];
    }
    float length = sqrtf(warp_sum(sq)), inv = 1 / fmaxf(length, 1e-12f);
    float proj = length < 1e-12f ? 0 : warp_sum(dot) * inv * inv;
    __syncwarp();
    for (int i = lane; i < cols; i += 32) dx[r * cols + i] = (dy[r * cols + i] - x[r * cols + i] * proj) * inv;
  }
}

// One block per row.
KERNEL k_cross_entropy(const int *bind, Dim rows, int cols, float *nll, float *lse, const float *logits, const int *targets, const float *smoothing) {
  grid_wait();
  int r = blockIdx.x;
  if (r >= size(rows, bind)) return;
  const float *x = logits + (u64)r * cols;
  float top = -INF, sum = 0;
  for (int i0 = threadIdx.x; i0 < cols; i0 += 8 * blockDim.x) { // the sum is of what is below the top so far
    float v[8], next = top;
#pragma unroll
    for (int e = 0; e < 8; e++) {
      int i = i0 + e * blockDim.x;
      v[e] = i < cols ? x[i] : -INF;
    }
#pragma unroll
    for (int e = 0; e < 8; e++) next = fmaxf(next, v[e]);
    if (next == -INF) continue;
    sum *= expf(top - next);
#pragma unroll
    for (int e = 0; e < 8; e++) sum += expf(v[e] - next);
    top = next;
  }
  float all = block_max(top);
  sum = block_sum(top == -INF ? 0 : sum * expf(top - all));
  top = all;
  float smooth = smoothing ? *smoothing : 0, mean = 0;
  if (smooth > 0) {
    for (int i = threadIdx.x; i < cols; i += blockDim.x) mean += x[i];
    mean = block_sum(mean) / cols;
  }
  if (threadIdx.x) return;
  float l = top + logf(sum);
  if (lse) lse[r] = l;
  if (nll) nll[r] = targets[r] < 0 ? 0 : l - (1 - smooth) * x[targets[r]] - smooth * mean;
}

KERNEL k_cross_entropy_grad(const int *bind, Dim rows, int cols, float *dx, const float *logits, const float *lse, const int *targets, const float *dnll, const float *smoothing) {
  grid_wait();
  int r = blockIdx.x;
  if (r >= size(rows, bind)) return;
  int target = targets[r];
  u64 o = (u64)r * cols;
  float smooth = smoothing ? *smoothing : 0, all = smooth / cols;
  for (int i = threadIdx.x; i < cols; i += blockDim.x)
    dx[o + i] = target < 0 ? 0 : dnll[r] * (expf(logits[o + i] - lse[r]) - all - (i == target ? 1 - smooth : 0));
}

// One block in all.
KERNEL k_mean(const int *bind, Dim rows, float *y, const float *x, const int *targets) {
  grid_wait();
  double sum = 0, count = 0;
  for (int r = threadIdx.x; r < size(rows, bind); r += blockDim.x)
    if (!targets || targets[r] >= 0) sum += x[r], count += 1;
  sum = block_sum(sum);
  count = block_sum(count);
  if (threadIdx.x == 0) y[0] = sum / (count > 1 ? count : 1);
}

KERNEL k_mean_grad(const int *bind, Dim rows, float *dx, const float *d, const int *targets) {
  grid_wait();
  double count = 0;
  int n = size(rows, bind);
  for (int r = threadIdx.x; r < n; r += blockDim.x) count += !targets || targets[r] >= 0;
  count = block_sum(count);
  float g = d[0] / (count > 1 ? count : 1);
  for (int r = threadIdx.x; r < n; r += blockDim.x) dx[r] = !targets || targets[r] >= 0 ? g : 0;
}

// Blocks sum parts of a fixed size; k_sum_parts adds them in order.
KERNEL k_sum_squares(const int *bind, Dim rows, int cols, float *parts, const float *g) {
  grid_wait();
  u64 n = (u64)size(rows, bind) * cols, lo = blockIdx.x * (u64)8192;
  double sum = 0;
#pragma unroll 8
  for (u64 i = lo + threadIdx.x; i < min(n, lo + 8192); i += blockDim.x) sum += (double)g[i] * g[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

KERNEL k_sum_parts(float *y, const float *parts, int n) {
  grid_wait();
  double sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += parts[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) y[0] = sum;
}

// parts are the addresses of n sums.
KERNEL k_global_norm(float *y, const u64 *parts, int n) {
  grid_wait();
  double sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += *(const float *)parts[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) y[0] = sqrt(sum);
}

// Entries of hyper, as package graph numbers them.
enum { LR, BETA1, BETA2, EPS, DECAY, CORR1, CORR2, CLIP, LIMIT };

// Whether the step is made: its global norm is within the limit, if there is one.
__device__ __forceinline__ bool within(const float *h, const float *norm) { return !(h[LIMIT] > 0) || norm[0] <= h[LIMIT]; }
__device__ __forceinline__ float clip_factor(const float *h, const float *norm) { return h[CLIP] > 0 ? fminf(1, h[CLIP] / (norm[0] + 1e-6f)) : 1; }

KERNEL k_adamw(const int *bind, Dim rows, int cols, float *w, float *m, float *v, const float *g, const float *norm, const float *h, int decay) {
  grid_wait();
  if (!within(h, norm)) return;
  float clip = clip_factor(h, norm), keep = decay ? 1 - h[LR] * h[DECAY] : 1, step = h[LR] / h[CORR1], root = sqrtf(h[CORR2]);
  EACH(i) {
    float gc = g[i] * clip, mi = h[BETA1] * m[i] + (1 - h[BETA1]) * gc, vi = h[BETA2] * v[i] + (1 - h[BETA2]) * gc * gc;
    w[i] = keep * w[i] - step * mi / (sqrtf(vi) / root + h[EPS]);
    m[i] = mi;
    v[i] = vi;
  }
}

KERNEL k_sgd(const int *bind, Dim rows, int cols, float *w, float *m, const float *g, const float *norm, const float *h, int decay, int nesterov) {
  grid_wait();
  if (!within(h, norm)) return;
  float clip = clip_factor(h, norm), momentum = h[BETA1], add = decay ? h[DECAY] : 0;
  EACH(i) {
    float d = g[i] * clip + add * w[i], mi = momentum * m[i] + d;
    w[i] -= h[LR] * (nesterov ? d + momentum * mi : mi);
    m[i] = mi;
  }
}

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

KERNEL k_norm(STAMP, const int *bind, Dim rows, int cols, Out y, In x, In add, float *sum, const float *w, const float *bias, int width, int chunk, int rms, float eps, float offset) {
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
__device__ __forceinline__ void norm_held(STAMP, const int *bind, Dim rows, int cols, Out y, In x, In add, float *sum, const float *w, const float *bias, int width, int chunk, int rms, float eps, float offset, const Before &b) {
  u64 o = (blockIdx.x * (u64)(blockDim.x / W) + threadIdx.x / W) * chunk;
  bool mine = o < (u64)size(rows, bind) * cols;
  int t = threadIdx.x % W, at = o % width;
  // Few rows wait for each of their loads: gains are brought nearer before.
  if (W > 32 && 32 * t < chunk) asm volatile("prefetch.global.L2 [%0];" ::"l"(w + at + 32 * t));
  grid_wait();
  if (!mine) return;
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

KERNEL __launch_bounds__(128) k_norm_warp(STAMP, const int *bind, Dim rows, int cols, Out y, In x, In add, float *sum, const float *w, const float *bias, int width, int chunk, int rms, float eps, float offset, Before b) {
  norm_held<32, 4>(stamp_, bind, rows, cols, y, x, add, sum, w, bias, width, chunk, rms, eps, offset, b);
}
KERNEL __launch_bounds__(128) k_norm_warp_long(STAMP, const int *bind, Dim rows, int cols, Out y, In x, In add, float *sum, const float *w, const float *bias, int width, int chunk, int rms, float eps, float offset, Before b) {
  norm_held<32, 8>(stamp_, bind, rows, cols, y, x, add, sum, w, bias, width, chunk, rms, eps, offset, b);
}
KERNEL __launch_bounds__(256) k_norm_block(STAMP, const int *bind, Dim rows, int cols, Out y, In x, In add, float *sum, const float *w, const float *bias, int width, int chunk, int rms, float eps, float offset, Before b) {
  norm_held<256, 8>(stamp_, bind, rows, cols, y, x, add, sum, w, bias, width, chunk, rms, eps, offset, b);
}

// Few chunks of up to 2048 values: a block per chunk, whose threads hold 4 values each.
// All that does not depend on x happens before the wait: gains are loaded if no kernel
// writes them (early), because they come from memory, not from the cache.
KERNEL __launch_bounds__(512) k_norm_row(STAMP, const int *bind, Dim rows, int cols, Out y, In x, In add, float *sum, const float *w, const float *bias, int width, int chunk, int rms, float eps, float offset, int early, Before b) {
  __shared__ __align__(16) float parts[4][16]; // a sum per warp, for each of the totals
  grid_next();
  u64 first = blockIdx.x * (u64)chunk;
  int i = 4 * threadIdx.x, at = first % width + i;
  bool live = i < chunk;
  float per = 1.0f / chunk;
  for (int e = threadIdx.x; e < 64; e += blockDim.x) parts[e / 16][e % 16] = 0;
  float4 g = {}, c = {}, bg = {}, bc = {}; // gains and biases of both norms
  auto gains = [&] {
    if (!live) return;
    g = *(const float4 *)(w + at);
    if (bias) c = *(const float4 *)(bias + at);
    if (b.w) bg = *(const float4 *)(b.w + at);
    if (b.w && b.bias) bc = *(const float4 *)(b.bias + at);
  };
  if (early) gains();
  bool there = first < (u64)size(rows, bind) * cols;
  __syncthreads();
  u32 clock = grid_wait_clock();
  u64 o = first + i;
  float4 v = {}, u = {};
  if (live && there) {
    v = four_of(x.p, x.half, o);
    if (add.p) u = four_of(add.p, add.half, o);
  }
  grid_stamp(clock);
  if (!there) return; // the whole block
  if (!early) gains();
  // A total has its own part of shared memory: it needs one barrier.
  auto total = [&](float s, float *part) {
    s = warp_sum(s);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
    __syncthreads();
    const float4 *p = (const float4 *)part;
    float4 a = p[0], b = p[1], c = p[2], d = p[3];
    return (a.x + b.x + (c.x + d.x)) + (a.y + b.y + (c.y + d.y)) + ((a.z + b.z + (c.z + d.z)) + (a.w + b.w + (c.w + d.w)));
  };
  auto norm = [&](int rms, float eps, float offset, const float4 &g, const float4 &c, float (*part)[16]) {
    if (!rms) {
      float mean = total(v.x + v.y + v.z + v.w, part[0]) * per;
      if (live) v.x -= mean, v.y -= mean, v.z -= mean, v.w -= mean;
    }
    float f = rsqrtf(total(v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w, part[1]) * per + eps);
    return float4{v.x * f * (g.x + offset) + c.x, v.y * f * (g.y + offset) + c.y, v.z * f * (g.z + offset) + c.z, v.w * f * (g.w + offset) + c.w};
  };
  if (b.w) v = norm(b.rms, b.eps, b.offset, bg, bc, parts);
  if (!live) v = {};
  if (add.p) v.x += u.x, v.y += u.y, v.z += u.z, v.w += u.w;
  if (sum && live) *(float4 *)(sum + o) = v;
  float4 r = norm(rms, eps, offset, g, c, parts + 2);
  if (!live) return;
  if (y.f) *(float4 *)(y.f + o) = r;
  if (y.h) *(uint2 *)(y.h + o) = {bf16_pair(r.x, r.y), bf16_pair(r.z, r.w)};
}

// Pools, as package graph numbers them.
enum { POOL_MEAN, POOL_CLS, POOL_LAST, POOL_MAX, POOL_MEAN_SQRT, POOL_WEIGHTED };

__device__ __forceinline__ void pool_span(int kind, int &lo, int &hi) {
  if (lo == hi) return;
  if (kind == POOL_CLS) hi = lo + 1;
  if (kind == POOL_LAST) lo = hi - 1;
}

// One block per sequence; kind is the one of the columns from out on.
KERNEL k_pool(STAMP, const int *bind, Dim seqs, int cols, float *y, const float *x, const int *start, int kind, int width, int out) {
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
KERNEL k_pool_grad(STAMP, const int *bind, Dim rows, int cols, float *dx, const float *dy, const int *start, Dim seqs, const float *x, int kind, int width, int part, int more) {
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

KERNEL k_l2norm(STAMP, const int *bind, Dim rows, int cols, float *y, const float *x) {
  grid_wait();
  int lane = threadIdx.x % 32;
  EACH_ROW(r) {
    float sq = 0;
    for (int i = lane; i < cols; i += 32) sq += x[r * cols + i] * x[r * cols + i];
    float inv = 1 / fmaxf(sqrtf(warp_sum(sq)), 1e-12f);
    for (int i = lane; i < cols; i += 32) y[r * cols + i] = x[r * cols + i] * inv;
  }
}

KERNEL k_l2norm_grad(STAMP, const int *bind, Dim rows, int cols, float *dx, const float *dy, const float *x) {
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

// One block in all.
KERNEL k_mean(STAMP, const int *bind, Dim rows, float *y, const float *x, const int *targets) {
  grid_wait();
  double sum = 0, count = 0;
  for (int r = threadIdx.x; r < size(rows, bind); r += blockDim.x)
    if (!targets || targets[r] >= 0) sum += x[r], count += 1;
  sum = block_sum(sum);
  count = block_sum(count);
  if (threadIdx.x == 0) y[0] = sum / (count > 1 ? count : 1);
}

KERNEL k_mean_grad(STAMP, const int *bind, Dim rows, float *dx, const float *d, const int *targets) {
  grid_wait();
  double count = 0;
  int n = size(rows, bind);
  for (int r = threadIdx.x; r < n; r += blockDim.x) count += !targets || targets[r] >= 0;
  count = block_sum(count);
  float g = d[0] / (count > 1 ? count : 1);
  for (int r = threadIdx.x; r < n; r += blockDim.x) dx[r] = !targets || targets[r] >= 0 ? g : 0;
}

// Blocks sum parts of a fixed size; k_sum_parts adds them in order.
KERNEL k_sum_squares(STAMP, const int *bind, Dim rows, int cols, float *parts, const float *g) {
  grid_wait();
  u64 n = (u64)size(rows, bind) * cols, lo = blockIdx.x * (u64)8192;
  double sum = 0;
#pragma unroll 8
  for (u64 i = lo + threadIdx.x; i < min(n, lo + 8192); i += blockDim.x) sum += (double)g[i] * g[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

KERNEL k_sum_parts(STAMP, float *y, const float *parts, int n) {
  grid_wait();
  double sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += parts[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) y[0] = sum;
}

// parts are the addresses of n sums.
KERNEL k_global_norm(STAMP, float *y, const u64 *parts, int n) {
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

// half is the same matrix in bf16, or 0.
KERNEL k_adamw(STAMP, const int *bind, Dim rows, int cols, float *w, u16 *half, float *m, float *v, const float *g, const float *norm, const float *h, int decay) {
  grid_wait();
  if (!within(h, norm)) return;
  float clip = clip_factor(h, norm), keep = decay ? 1 - h[LR] * h[DECAY] : 1, step = h[LR] / h[CORR1], root = sqrtf(h[CORR2]);
  float b1 = h[BETA1], b2 = h[BETA2], eps = h[EPS];
  auto update = [&](float &w, float &m, float &v, float g) {
    g *= clip;
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    w = keep * w - step * m / (sqrtf(v) / root + eps);
  };
  u64 n = (u64)size(rows, bind) * cols, first = blockIdx.x * (u64)blockDim.x + threadIdx.x, all = (u64)gridDim.x * blockDim.x;
  for (u64 i = first; i < n / 4; i += all) {
    float4 a = ((float4 *)w)[i], b = ((float4 *)m)[i], c = ((float4 *)v)[i], d = ((const float4 *)g)[i];
    update(a.x, b.x, c.x, d.x);
    update(a.y, b.y, c.y, d.y);
    update(a.z, b.z, c.z, d.z);
    update(a.w, b.w, c.w, d.w);
    ((float4 *)w)[i] = a;
    ((float4 *)m)[i] = b;
    ((float4 *)v)[i] = c;
    if (half) ((uint2 *)half)[i] = {bf16_pair(a.x, a.y), bf16_pair(a.z, a.w)};
  }
  for (u64 i = n / 4 * 4 + first; i < n; i += all) {
    update(w[i], m[i], v[i], g[i]);
    if (half) half[i] = float_to_bf16(w[i]);
  }
}

KERNEL k_sgd(STAMP, const int *bind, Dim rows, int cols, float *w, u16 *half, float *m, const float *g, const float *norm, const float *h, int decay, int nesterov) {
  u64 n = (u64)size(rows, bind) * cols;
  grid_wait();
  if (!within(h, norm)) return;
  float clip = clip_factor(h, norm), momentum = h[BETA1], add = decay ? h[DECAY] : 0;
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
    float d = g[i] * clip + add * w[i], mi = momentum * m[i] + d;
    w[i] -= h[LR] * (nesterov ? d + momentum * mi : mi);
    if (half) half[i] = float_to_bf16(w[i]);
    m[i] = mi;
  }
}

// Gradients of norms, sums over rows, and the cross entropy.

// dx is the gradient of x, plus add where there is one. One warp per chunk.
KERNEL k_norm_dx(STAMP, const int *bind, Dim rows, int cols, Out dx, In dy, const float *x, const float *w, const float *add, int width, int chunk, int rms, float eps, float offset) {
  grid_wait();
  int lane = threadIdx.x % 32;
  EACH_CHUNK(c) {
    u64 o = c * chunk;
    float mean, rstd;
    norm_stats(x + o, chunk, rms, eps, mean, rstd);
    int at = o % width;
    float sum = 0, dot = 0;
    for (int i = lane; i < chunk; i += 32) {
      float g = get(dy, o + i) * (w[at + i] + offset);
      sum += g;
      dot += g * (x[o + i] - mean) * rstd;
    }
    sum = rms ? 0 : warp_sum(sum) / chunk;
    dot = warp_sum(dot) / chunk;
    __syncwarp();
    for (int i = lane; i < chunk; i += 32) {
      float g = get(dy, o + i) * (w[at + i] + offset), v = rstd * (g - sum - (x[o + i] - mean) * rstd * dot);
      put(dx, o + i, add ? v + add[o + i] : v);
    }
  }
}

// Rows of n values that a warp holds: up to E times 4 per lane. Gives what the mean
// leaves of x, and its factor.
template <int E> __device__ __forceinline__ float centre(float4 (&v)[E], int n, int rms, float eps) {
  int lane = threadIdx.x % 32;
  float mean = 0, sq = 0;
#pragma unroll
  for (int e = 0; e < E && !rms; e++)
    if (4 * (lane + e * 32) < n) mean += v[e].x + v[e].y + v[e].z + v[e].w;
  if (!rms) mean = warp_sum(mean) / n;
#pragma unroll
  for (int e = 0; e < E; e++) {
    if (4 * (lane + e * 32) >= n) continue;
    v[e].x -= mean, v[e].y -= mean, v[e].z -= mean, v[e].w -= mean;
    sq += v[e].x * v[e].x + v[e].y * v[e].y + v[e].z * v[e].z + v[e].w * v[e].w;
  }
  return 1 / sqrtf(warp_sum(sq) / n + eps);
}

// k_norm_dx of chunks that a warp holds, of a multiple of 4 values.
template <int E> __device__ __forceinline__ void norm_dx_held(STAMP, const int *bind, Dim rows, int cols, Out dx, In dy, const float *x, const float *w, const float *add, int width, int chunk, int rms, float eps, float offset) {
  u64 o = (blockIdx.x * (u64)(blockDim.x / 32) + threadIdx.x / 32) * chunk;
  bool mine = o < (u64)size(rows, bind) * cols;
  grid_wait();
  if (!mine) return;
  int lane = threadIdx.x % 32, at = o % width;
  float4 v[E], g[E];
#pragma unroll
  for (int e = 0; e < E; e++) {
    int i = 4 * (lane + e * 32);
    if (i >= chunk) continue;
    v[e] = *(const float4 *)(x + o + i);
    g[e] = four_of(dy.p, dy.half, o + i);
  }
  float rstd = centre(v, chunk, rms, eps), sum = 0, dot = 0;
#pragma unroll
  for (int e = 0; e < E; e++) {
    int i = 4 * (lane + e * 32);
    if (i >= chunk) continue;
    float4 f = *(const float4 *)(w + at + i);
    g[e].x *= f.x + offset, g[e].y *= f.y + offset, g[e].z *= f.z + offset, g[e].w *= f.w + offset;
    sum += g[e].x + g[e].y + g[e].z + g[e].w;
    dot += g[e].x * v[e].x + g[e].y * v[e].y + g[e].z * v[e].z + g[e].w * v[e].w;
  }
  sum = rms ? 0 : warp_sum(sum) / chunk;
  dot = warp_sum(dot) / chunk * rstd * rstd;
#pragma unroll
  for (int e = 0; e < E; e++) {
    int i = 4 * (lane + e * 32);
    if (i >= chunk) continue;
    float4 r = {rstd * (g[e].x - sum - v[e].x * dot), rstd * (g[e].y - sum - v[e].y * dot), rstd * (g[e].z - sum - v[e].z * dot), rstd * (g[e].w - sum - v[e].w * dot)};
    if (add) {
      float4 a = *(const float4 *)(add + o + i);
      r.x += a.x, r.y += a.y, r.z += a.z, r.w += a.w;
    }
    if (dx.f) *(float4 *)(dx.f + o + i) = r;
    if (dx.h) *(uint2 *)(dx.h + o + i) = {bf16_pair(r.x, r.y), bf16_pair(r.z, r.w)};
  }
}
#define NORM_DX(E)                                                                                                                                                                                       \
  KERNEL __launch_bounds__(128) k_norm_dx_##E(STAMP, const int *bind, Dim rows, int cols, Out dx, In dy, const float *x, const float *w, const float *add, int width, int chunk, int rms, float eps, float offset) { \
    norm_dx_held<E>(stamp_, bind, rows, cols, dx, dy, x, w, add, width, chunk, rms, eps, offset);                                                                                                                  \
  }
NORM_DX(4)
NORM_DX(8)

KERNEL k_norm_stats(STAMP, const int *bind, Dim rows, int cols, float *stats, const float *x, int chunk, int rms, float eps) {
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

// Sums over rows come in two steps: blocks sum columns of a slice of rows, one slice
// per blockIdx.y, and k_add_slices adds slices in order.
__device__ __forceinline__ void slice(int n, int &from, int &to) {
  int per = (n + gridDim.y - 1) / gridDim.y;
  from = min(n, per * (int)blockIdx.y), to = min(n, from + per);
}

// slices are [blockIdx.y][2][width]: of dw, then of db. 32 columns per block.
KERNEL k_norm_dw(STAMP, const int *bind, Dim rows, int cols, float *slices, In dy, const float *x, const float *stats, int width, int chunk) {
  grid_wait();
  __shared__ float sw[8][32], sb[8][32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = blockIdx.x * 32 + lane, from, to;
  slice((u64)size(rows, bind) * cols / width, from, to);
  float w = 0, b = 0;
  if (i < width)
#pragma unroll 4
    for (int r = from + warp; r < to; r += 8) {
      u64 o = (u64)r * width + i, k = 2 * (o / chunk);
      float g = get(dy, o);
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

// The same where a warp holds what is normed together, and that is width: all columns
// per block, and each value is read once.
template <int E> __device__ __forceinline__ void norm_dw_held(STAMP, const int *bind, Dim rows, int cols, float *slices, In dy, const float *x, int width, int rms, float eps) {
  grid_wait();
  __shared__ float4 part[4][E * 32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, from, to;
  slice((u64)size(rows, bind) * cols / width, from, to);
  float4 sw[E], sb[E];
#pragma unroll
  for (int e = 0; e < E; e++) sw[e] = sb[e] = {0, 0, 0, 0};
  for (int r = from + warp; r < to; r += 4) {
    float4 v[E], g[E];
    u64 o = (u64)r * width;
#pragma unroll
    for (int e = 0; e < E; e++) {
      int i = 4 * (lane + e * 32);
      if (i >= width) continue;
      v[e] = *(const float4 *)(x + o + i);
      g[e] = four_of(dy.p, dy.half, o + i);
    }
    float rstd = centre(v, width, rms, eps);
#pragma unroll
    for (int e = 0; e < E; e++) {
      if (4 * (lane + e * 32) >= width) continue;
      sw[e].x += g[e].x * v[e].x * rstd, sw[e].y += g[e].y * v[e].y * rstd, sw[e].z += g[e].z * v[e].z * rstd, sw[e].w += g[e].w * v[e].w * rstd;
      sb[e].x += g[e].x, sb[e].y += g[e].y, sb[e].z += g[e].z, sb[e].w += g[e].w;
    }
  }
  for (int b = 0; b < 2; b++) {
    __syncthreads();
#pragma unroll
    for (int e = 0; e < E; e++) part[warp][lane + e * 32] = b ? sb[e] : sw[e];
    __syncthreads();
    for (int i = threadIdx.x; 4 * i < width; i += 128) {
      float4 s = part[0][i];
      for (int k = 1; k < 4; k++) s.x += part[k][i].x, s.y += part[k][i].y, s.z += part[k][i].z, s.w += part[k][i].w;
      ((float4 *)(slices + ((u64)blockIdx.y * 2 + b) * width))[i] = s;
    }
  }
}
#define NORM_DW(E) \
  KERNEL __launch_bounds__(128) k_norm_dw_##E(STAMP, const int *bind, Dim rows, int cols, float *slices, In dy, const float *x, int width, int rms, float eps) { norm_dw_held<E>(stamp_, bind, rows, cols, slices, dy, x, width, rms, eps); }
NORM_DW(4)
NORM_DW(6)
NORM_DW(8)

// A lane takes 8 columns where cols is a multiple of 8, else one: 256 or 32 columns
// per block of 8 warps.
template <int W> __device__ __forceinline__ void col_sum(STAMP, const int *bind, Dim rows, int cols, float *slices, In x) {
  grid_wait();
  __shared__ float part[8][32 * W];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, c = (blockIdx.x * 32 + lane) * W, from, to;
  slice(size(rows, bind), from, to);
  float sum[W] = {};
  if (c < cols)
#pragma unroll 4
    for (int r = from + warp; r < to; r += 8) {
      u64 o = (u64)r * cols + c;
      if constexpr (W == 8) {
        float v[8];
        get8(v, x, o);
#pragma unroll
        for (int e = 0; e < 8; e++) sum[e] += v[e];
      } else sum[0] += get(x, o);
    }
#pragma unroll
  for (int e = 0; e < W; e++) part[warp][lane + 32 * e] = sum[e];
  __syncthreads();
  for (int i = threadIdx.x; i < 32 * W; i += 256) {
    int col = (blockIdx.x * 32 + i / W) * W + i % W;
    if (col >= cols) continue;
    float s = 0;
    for (int k = 0; k < 8; k++) s += part[k][i / W + 32 * (i % W)];
    slices[(u64)blockIdx.y * cols + col] = s;
  }
}
KERNEL __launch_bounds__(256) k_col_sum(STAMP, const int *bind, Dim rows, int cols, float *slices, In x) { col_sum<1>(stamp_, bind, rows, cols, slices, x); }
KERNEL __launch_bounds__(256) k_col_sum_8(STAMP, const int *bind, Dim rows, int cols, float *slices, In x) { col_sum<8>(stamp_, bind, rows, cols, slices, x); }

// y[width] of n slices that are stride values apart: 32 columns per block, whose 8
// warps take slices in turns.
KERNEL k_add_slices(STAMP, float *y, const float *slices, int n, int stride, int width) {
  grid_wait();
  __shared__ float part[8][32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = blockIdx.x * 32 + lane;
  float sum = 0;
  if (i < width)
#pragma unroll 8
    for (int k = warp; k < n; k += 8) sum += slices[(u64)k * stride + i];
  part[warp][lane] = sum;
  __syncthreads();
  if (warp || i >= width) return;
  for (int k = 1; k < 8; k++) sum += part[k][lane];
  y[i] = sum;
}

// Eight values of a row of logits from column c on, -INF behind the last. Rows are
// stride values apart: those in bf16 begin at 16 bytes, those in f32 only if row, the
// number of values before them, is a multiple of 4.
__device__ __forceinline__ void logits8(float (&v)[8], const In &x, u64 row, int c, int cols) {
  if (x.half) {
    unpack8<BF16>(v, *(const uint4 *)((const u16 *)x.p + row + c));
#pragma unroll
    for (int e = 0; e < 8; e++)
      if (c + e >= cols) v[e] = -INF;
    return;
  }
  const float *from = (const float *)x.p + row + c;
  if (row % 4 == 0 && c + 8 <= cols) {
    float4 a = ((const float4 *)from)[0], b = ((const float4 *)from)[1];
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    return;
  }
#pragma unroll
  for (int e = 0; e < 8; e++) v[e] = c + e < cols ? from[e] : -INF;
}

// One block per row.
KERNEL __launch_bounds__(256) k_cross_entropy(STAMP, const int *bind, Dim rows, int cols, int stride, float *nll, float *lse, In logits, const int *targets, const float *smoothing) {
  grid_wait();
  int r = blockIdx.x;
  if (r >= size(rows, bind)) return;
  u64 o = (u64)r * stride;
  float top = -INF, sum = 0;
#pragma unroll 2
  for (int c = 8 * threadIdx.x; c < cols; c += 8 * 256) { // the sum is of what is below the top so far
    float v[8], next = top;
    logits8(v, logits, o, c, cols);
#pragma unroll
    for (int e = 0; e < 8; e++) next = fmaxf(next, v[e]);
    if (next == -INF) continue;
    sum *= __expf(top - next);
#pragma unroll
    for (int e = 0; e < 8; e++) sum += __expf(v[e] - next);
    top = next;
  }
  float all = block_max(top);
  sum = block_sum(top == -INF ? 0 : sum * expf(top - all));
  top = all;
  float smooth = smoothing ? *smoothing : 0, mean = 0;
  if (smooth > 0) {
    for (int i = threadIdx.x; i < cols; i += 256) mean += get(logits, o + i);
    mean = block_sum(mean) / cols;
  }
  if (threadIdx.x) return;
  float l = top + logf(sum);
  if (lse) lse[r] = l;
  if (nll) nll[r] = targets[r] < 0 ? 0 : l - (1 - smooth) * get(logits, o + targets[r]) - smooth * mean;
}

KERNEL __launch_bounds__(256) k_cross_entropy_grad(STAMP, const int *bind, Dim rows, int cols, int stride, Out dx, int out, In logits, const float *lse, const int *targets, const float *dnll, const float *smoothing) {
  grid_wait();
  int r = blockIdx.x;
  if (r >= size(rows, bind)) return;
  int target = targets[r];
  u64 o = (u64)r * stride, to = (u64)r * out;
  float smooth = smoothing ? *smoothing : 0, all = smooth / cols, l = lse[r], d = target < 0 ? 0 : dnll[r];
  for (int c = 8 * threadIdx.x; c < cols; c += 8 * 256) {
    float v[8];
    logits8(v, logits, o, c, cols);
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] = target < 0 ? 0 : d * (__expf(v[e] - l) - all - (c + e == target ? 1 - smooth : 0));
    if (dx.h) *(uint4 *)(dx.h + to + c) = pack8(v);
    else if (to % 4 == 0 && c + 8 <= cols) {
      ((float4 *)(dx.f + to + c))[0] = {v[0], v[1], v[2], v[3]};
      ((float4 *)(dx.f + to + c))[1] = {v[4], v[5], v[6], v[7]};
    } else
      for (int e = 0; e < 8 && c + e < cols; e++) dx.f[to + c + e] = v[e];
  }
}

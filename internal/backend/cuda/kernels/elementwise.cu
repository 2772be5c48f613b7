// Functions of each element, and rows that move.

// Activations, as package graph numbers them.
enum { GELU, GELU_TANH, QUICK_GELU, SILU, RELU, TANH, SIGMOID };

__device__ __forceinline__ float logistic(float x) { return 1 / (1 + expf(-x)); }

__device__ float act(int kind, float x) {
  switch (kind) {
  case GELU: return x * normcdff(x);
  case GELU_TANH: return x / 2 * (1 + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
  case QUICK_GELU: return x * logistic(1.702f * x);
  case SILU: return x * logistic(x);
  case RELU: return fmaxf(x, 0);
  case TANH: return tanhf(x);
  }
  return logistic(x);
}

__device__ float act_slope(int kind, float x) {
  switch (kind) {
  case GELU: return normcdff(x) + x * expf(-x * x / 2) * 0.3989422804014327f;
  case GELU_TANH: {
    float t = tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * 0.7978845608028654f * (1 + 3 * 0.044715f * x * x);
  }
  case QUICK_GELU: {
    float s = logistic(1.702f * x);
    return s + 1.702f * x * s * (1 - s);
  }
  case SILU: {
    float s = logistic(x);
    return s + x * s * (1 - s);
  }
  case RELU: return x > 0 ? 1 : 0;
  case TANH: {
    float t = tanhf(x);
    return 1 - t * t;
  }
  }
  float s = logistic(x);
  return s * (1 - s);
}

// Every element of rows x cols, in a stride of the grid.
#define EACH(i) for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x, n_ = (u64)size(rows, bind) * cols; i < n_; i += (u64)gridDim.x * blockDim.x)

KERNEL k_add(const int *bind, Dim rows, int cols, float *z, const float *x, const float *y) { EACH(i) z[i] = x[i] + y[i]; }
KERNEL k_mul(const int *bind, Dim rows, int cols, float *z, const float *x, const float *y) { EACH(i) z[i] = x[i] * y[i]; }
KERNEL k_scale(const int *bind, Dim rows, int cols, float *y, const float *x, float c) { EACH(i) y[i] = c * x[i]; }
KERNEL k_shift(const int *bind, Dim rows, int cols, float *y, const float *x, float c) { EACH(i) y[i] = x[i] + c; }
KERNEL k_fill(const int *bind, Dim rows, int cols, float *y, float c) { EACH(i) y[i] = c; }
KERNEL k_add_row(const int *bind, Dim rows, int cols, float *y, const float *x, const float *v) { EACH(i) y[i] = x[i] + v[i % cols]; }
KERNEL k_mul_rows(const int *bind, Dim rows, int cols, float *y, const float *x, const float *f) { EACH(i) y[i] = f[i / cols] * x[i]; }
KERNEL k_act(const int *bind, Dim rows, int cols, float *y, const float *x, int kind) { EACH(i) y[i] = act(kind, x[i]); }
KERNEL k_act_grad(const int *bind, Dim rows, int cols, float *dx, const float *x, const float *dy, int kind) {
  EACH(i) dx[i] = act_slope(kind, x[i]) * dy[i];
}
KERNEL k_glu(const int *bind, Dim rows, int cols, float *y, const float *gate, const float *up, int kind) { EACH(i) y[i] = act(kind, gate[i]) * up[i]; }
KERNEL k_glu_grad(const int *bind, Dim rows, int cols, float *dgate, float *dup, const float *gate, const float *up, const float *dy, int kind) {
  EACH(i) {
    float g = gate[i], d = dy[i];
    if (dgate) dgate[i] = act_slope(kind, g) * up[i] * d;
    if (dup) dup[i] = act(kind, g) * d;
  }
}

KERNEL k_embed(const int *bind, Dim rows, int cols, float *y, const u8 *table, int type, const int *ids, float scale) {
  u64 stride = row_bytes(type, cols);
  EACH(i) y[i] = scale * value_at(type, table + ids[i / cols] * stride, i % cols);
}

// One block per sequence, threads over columns.
KERNEL k_embed_bag(const int *bind, Dim rows, int cols, float *y, const u8 *table, int type, const int *ids, const int *start) {
  int s = blockIdx.x;
  if (s >= size(rows, bind)) return;
  u64 stride = row_bytes(type, cols);
  int lo = start[s], hi = start[s + 1];
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    float sum = 0;
    for (int t = lo; t < hi; t++) sum += value_at(type, table + ids[t] * stride, c);
    y[(u64)s * cols + c] = sum / max(hi - lo, 1);
  }
}

// One block per row of the table: the rows of an id are added in order of tokens.
KERNEL k_embed_grad(const int *bind, Dim tokens, int cols, float *dw, const float *dy, const int *ids, float scale) {
  int id = blockIdx.x, n = size(tokens, bind);
  __shared__ int found[256];
  __shared__ int count;
  for (int c0 = 0; c0 < cols; c0 += 4 * blockDim.x) {
    float sum[4] = {0, 0, 0, 0};
    for (int t0 = 0; t0 < n; t0 += blockDim.x) {
      int t = t0 + threadIdx.x, mine = t < n && ids[t] == id;
      // Where a token stands among those found: by warp, then by lane.
      u32 votes = __ballot_sync(~0u, mine);
      __shared__ int before[33];
      if (threadIdx.x % 32 == 0) before[threadIdx.x / 32 + 1] = __popc(votes);
      __syncthreads();
      if (threadIdx.x == 0) {
        before[0] = 0;
        for (int w = 0; w < blockDim.x / 32; w++) before[w + 1] += before[w];
        count = before[blockDim.x / 32];
      }
      __syncthreads();
      if (mine) found[before[threadIdx.x / 32] + __popc(votes & ((1u << threadIdx.x % 32) - 1))] = t;
      __syncthreads();
      for (int k = 0; k < count; k++)
        for (int j = 0; j < 4; j++) {
          int c = c0 + j * blockDim.x + threadIdx.x;
          if (c < cols) sum[j] += scale * dy[(u64)found[k] * cols + c];
        }
      __syncthreads();
    }
    for (int j = 0; j < 4; j++) {
      int c = c0 + j * blockDim.x + threadIdx.x;
      if (c < cols) dw[(u64)id * cols + c] = sum[j];
    }
  }
}

KERNEL k_gather(const int *bind, Dim rows, int cols, float *y, const float *x, const int *from) { EACH(i) y[i] = x[(u64)from[i / cols] * cols + i % cols]; }

// One thread per element of dx: rows that repeat are added in order.
KERNEL k_scatter_rows(const int *bind, Dim rows, int cols, float *dx, const float *dy, const int *to, Dim from) {
  int n = size(from, bind);
  EACH(i) {
    float sum = 0;
    int row = i / cols, c = i % cols;
    for (int r = 0; r < n; r++)
      if (to[r] == row) sum += dy[(u64)r * cols + c];
    dx[i] = sum;
  }
}

// Angles are taken in double from the integer position. freqs has a row of rot/2
// radians per position for short texts, and one for long ones where context is
// not 0; stretch is not 0 for the dynamic rope, which computes its frequencies.
KERNEL k_rope(const int *bind, Dim rows, int cols, float *y, const float *x, const int *pos, const int *length, const double *freqs, int head, int rot,
              int interleaved, int inverse, float magnitude, int context, double stretch) {
  int half = rot / 2, heads = cols / head;
  u64 n = (u64)size(rows, bind) * half;
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
    int t = i / half, p = i % half;
    int len = length ? length[t] : 0;
    int far = context > 0 && len > context;
    double f = freqs[far ? half + p : p];
    if (stretch > 0 && far && rot > 2) {
      double grown = stretch * len / context - (stretch - 1);
      f *= pow(grown, (double)rot / (rot - 2) * (-2.0 * p / rot));
    }
    double s, c;
    sincos(pos[t] * f, &s, &c);
    float sn = (float)s * magnitude, cs = (float)c * magnitude;
    if (inverse) sn = -sn;
    int a = interleaved ? 2 * p : p, b = interleaved ? 2 * p + 1 : p + half;
    for (int h = 0; h < heads; h++) {
      u64 o = (u64)t * cols + h * head;
      float u = x[o + a], v = x[o + b];
      y[o + a] = u * cs - v * sn;
      y[o + b] = v * cs + u * sn;
      if (x != y) // what does not rotate is copied, shared among the pairs
        for (int e = rot + p; e < head; e += half) y[o + e] = x[o + e];
    }
  }
}

KERNEL k_positions(const int *bind, Dim seqs, int *y, const int *tokens, const int *start, int pad) {
  int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= size(seqs, bind)) return;
  for (int t = start[s], count = 0; t < start[s + 1]; t++) y[t] = tokens[t] == pad ? 0 : ++count;
}

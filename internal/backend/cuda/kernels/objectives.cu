// Objectives of training besides the next token. Rows are few: kernels are plain,
// and sums that the reference takes in double are taken in double.

KERNEL k_columns(STAMP, const int *bind, Dim rows, int cols, float *y, const float *x, int from) {
  EACH(i) {
    int c = i % cols;
    y[i] = c < from ? x[i / cols * from + c] : 0;
  }
}

// One warp per row.
__device__ __forceinline__ double dot64(const float *x, const float *y, int n) {
  double s = 0;
  for (int i = threadIdx.x % 32; i < n; i += 32) s += (double)x[i] * y[i];
  return warp_sum(s);
}

KERNEL k_row_dot(STAMP, const int *bind, Dim rows, int cols, float *y, const float *a, const float *b) {
  grid_wait();
  EACH_ROW(r) {
    double s = dot64(a + r * cols, b + r * cols, cols);
    if (threadIdx.x % 32 == 0) y[r] = s;
  }
}

// y[H,cols] of table[B,H]: of is the bucket of each column.
KERNEL k_buckets(STAMP, const int *bind, Dim rows, int cols, float *y, const float *table, const int *of, int heads) {
  EACH(i) y[i] = table[of[i % cols] * heads + i / cols];
}

// dtable[B,H] of dy[H,n], added in the order of columns.
KERNEL k_buckets_grad(STAMP, const int *bind, Dim rows, int cols, float *dt, const float *dy, const int *of, int n) {
  EACH(i) {
    int at = i / cols, h = i % cols;
    float sum = 0;
    for (int c = 0; c < n; c++)
      if (of[c] == at) sum += dy[(u64)h * n + c];
    dt[i] = sum;
  }
}

// One warp per sequence.
KERNEL k_sequence_sum(STAMP, const int *bind, Dim rows, float *y, const float *x, const int *start) {
  grid_wait();
  EACH_ROW(s) {
    double sum = 0;
    for (int t = start[s] + threadIdx.x % 32; t < start[s + 1]; t += 32) sum += x[t];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) y[s] = sum;
  }
}

KERNEL k_sequence_sum_grad(STAMP, const int *bind, Dim rows, int cols, float *dx, const float *dy, const int *start, Dim seqs) {
  EACH(i) {
    int s = sequence_of(start, size(seqs, bind), i);
    dx[i] = start[s] <= i && i < start[s + 1] ? dy[s] : 0;
  }
}

// beta times how much more the model prefers the chosen answer of a pair than the
// reference does.
__device__ __forceinline__ double margin(const float *nll, const float *ref, u64 i, float beta) {
  return (double)beta * (((double)ref[i] - nll[i]) - ((double)ref[i + 1] - nll[i + 1]));
}

// Pairs of rows; a last row without a partner has 0.
KERNEL k_preference(STAMP, const int *bind, Dim rows, int cols, float *y, const float *nll, const float *ref, float beta) {
  EACH(i) {
    if (i % 2 || i + 1 >= n_) {
      y[i] = 0;
      continue;
    }
    double m = margin(nll, ref, i, beta);
    y[i] = log1p(exp(-fabs(m))) + fmax(-m, 0.0);
  }
}
KERNEL k_preference_grad(STAMP, const int *bind, Dim rows, int cols, float *dnll, const float *nll, const float *ref, const float *d, float beta) {
  EACH(i) {
    u64 first = i / 2 * 2;
    float g = 0;
    if (first + 1 < n_) g = (double)d[first] * beta / (1 + exp(margin(nll, ref, first, beta)));
    dnll[i] = i % 2 ? -g : g;
  }
}

// The log-sum-exp of a row divided by a temperature; a block.
__device__ __forceinline__ double row_lse(const float *x, int n, double t) {
  float top = -INF;
  double sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) top = fmaxf(top, x[i]);
  top = block_max(top);
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += exp(x[i] / t - top / t);
  return top / t + log(block_sum(sum));
}

KERNEL k_distill(STAMP, const int *bind, Dim rows, int cols, float *kl, const float *student, const float *teacher, float temperature) {
  grid_wait();
  int r = blockIdx.x;
  if (r >= size(rows, bind)) return;
  const float *s = student + (u64)r * cols, *t = teacher + (u64)r * cols;
  double temp = temperature, ls = row_lse(s, cols, temp), lt = row_lse(t, cols, temp), sum = 0;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    double log_ = t[i] / temp - lt;
    sum += exp(log_) * (log_ - (s[i] / temp - ls));
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) kl[r] = sum * temp * temp;
}
KERNEL k_distill_grad(STAMP, const int *bind, Dim rows, int cols, float *dx, const float *student, const float *teacher, const float *dkl, float temperature) {
  grid_wait();
  int r = blockIdx.x;
  if (r >= size(rows, bind)) return;
  const float *s = student + (u64)r * cols, *t = teacher + (u64)r * cols;
  double temp = temperature, ls = row_lse(s, cols, temp), lt = row_lse(t, cols, temp), g = dkl[r] * temp;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) dx[(u64)r * cols + i] = g * (exp(s[i] / temp - ls) - exp(t[i] / temp - lt));
}

// Whether row c is among the answers of row q.
__device__ __forceinline__ bool counts(const int *partner, const int *same, int q, int c) {
  int right = partner[q];
  if (same[q] < 0 == same[c] < 0) return false;
  if (c == right) return true;
  if (same[q] < 0) return same[c] != same[right];
  return partner[c] < 0 || same[partner[c]] != same[q];
}

// A block per row that asks; its warps take the other rows in turns.
KERNEL k_infonce(STAMP, const int *bind, Dim rows, int cols, float *nll, float *lse, const float *x, const int *partner, const int *same, float scale) {
  __shared__ double tops[8], sums[8], rights[8];
  grid_wait();
  int q = blockIdx.x, n = size(rows, bind), warp = threadIdx.x / 32;
  if (q >= n) return;
  double top = -1e300, sum = 0, right = 0;
  if (partner[q] >= 0)
    for (int s = warp; s < n; s += 8) {
      if (!counts(partner, same, q, s)) continue;
      double v = scale * dot64(x + (u64)q * cols, x + (u64)s * cols, cols), next = fmax(top, v);
      sum = sum * exp(top - next) + exp(v - next);
      top = next;
      if (s == partner[q]) right = v;
    }
  if (threadIdx.x % 32 == 0) tops[warp] = top, sums[warp] = sum, rights[warp] = right;
  __syncthreads();
  if (threadIdx.x) return;
  sum = 0, right = 0;
  for (int w = 0; w < 8; w++) top = fmax(top, tops[w]);
  for (int w = 0; w < 8; w++) sum += sums[w] * exp(tops[w] - top), right += rights[w];
  double l = partner[q] < 0 ? 0 : top + log(sum);
  if (lse) lse[q] = l;
  if (nll) nll[q] = l - right;
}

// A block per row of dx: eight products at a time, whose rows are then added in
// order.
KERNEL k_infonce_grad(STAMP, const int *bind, Dim rows, int cols, float *dx, const float *x, const float *lse, const int *partner, const int *same, const float *d, float scale) {
  __shared__ double slopes[8];
  grid_wait();
  int i = blockIdx.x, n = size(rows, bind), warp = threadIdx.x / 32;
  if (i >= n) return;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) dx[(u64)i * cols + c] = 0;
  for (int j0 = 0; j0 < n; j0 += 8) {
    int j = j0 + warp;
    double f = 0;
    if (j < n && same[i] < 0 != same[j] < 0) {
      double dot = dot64(x + (u64)i * cols, x + (u64)j * cols, cols);
      for (int e = 0; e < 2; e++) { // i asks, j asks
        int q = e ? j : i, a = e ? i : j;
        if (partner[q] < 0 || !counts(partner, same, q, a)) continue;
        f += (exp(scale * dot - lse[q]) - (partner[q] == a)) * scale * d[q];
      }
    }
    if (threadIdx.x % 32 == 0) slopes[warp] = f;
    __syncthreads();
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
      float sum = dx[(u64)i * cols + c];
      for (int w = 0; w < 8 && j0 + w < n; w++) sum += (float)(slopes[w] * x[(u64)(j0 + w) * cols + c]);
      dx[(u64)i * cols + c] = sum;
    }
    __syncthreads();
  }
}

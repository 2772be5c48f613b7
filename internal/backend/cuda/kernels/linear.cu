// Products.

// c[m,n] = sum over k of a(m,k) * b(k,n) + bias[n] in f32, with any strides of a
// and b: forward, dX and dW are the same kernel. 64 x 64 results per block of 256
// threads, 4 x 4 per thread. Sums run over k in order.
KERNEL k_gemm_f32(const int *bind, Dim dm, Dim dn, Dim dk, float *c, const float *a, u64 sam, u64 sak, const float *b, u64 sbk, u64 sbn, const float *bias) {
  __shared__ float as[16][65], bs[16][65];
  int m0 = blockIdx.y * 64, n0 = blockIdx.x * 64;
  int m = size(dm, bind), n = size(dn, bind), k = size(dk, bind);
  if (m0 >= m || n0 >= n) return;
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float acc[4][4] = {};
  for (int k0 = 0; k0 < k; k0 += 16) {
    for (int i = threadIdx.x; i < 64 * 16; i += 256) {
      // Neighbours in memory are read by neighbours in the warp.
      int r = sak == 1 ? i / 16 : i % 64, q = sak == 1 ? i % 16 : i / 64;
      as[q][r] = m0 + r < m && k0 + q < k ? a[(m0 + r) * sam + (k0 + q) * sak] : 0;
      r = sbk == 1 ? i / 16 : i % 64, q = sbk == 1 ? i % 16 : i / 64;
      bs[q][r] = n0 + r < n && k0 + q < k ? b[(k0 + q) * sbk + (n0 + r) * sbn] : 0;
    }
    __syncthreads();
    for (int q = 0; q < 16; q++) {
      float x[4], y[4];
      for (int i = 0; i < 4; i++) x[i] = as[q][ty + 16 * i], y[i] = bs[q][tx + 16 * i];
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) acc[i][j] += x[i] * y[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) {
      int r = m0 + ty + 16 * i, q = n0 + tx + 16 * j;
      if (r < m && q < n) c[(u64)r * n + q] = acc[i][j] + (bias ? bias[q] : 0);
    }
}

// 32 values of a row of stored weights as f32: part kb, clipped at n.
template <int TYPE> __device__ __forceinline__ void part32(float *v, const u8 *row, int kb, int n) {
  if (TYPE == F32 || TYPE == F16 || TYPE == BF16) {
    for (int i = 0; i < 32; i++) v[i] = kb * 32 + i < n ? value_at(TYPE, row, kb * 32 + i) : 0;
    return;
  }
  if (TYPE == Q8_0) {
    const u8 *b = row + kb * 34;
    float d = half_at(b);
    for (int i = 0; i < 32; i++) v[i] = d * (signed char)b[2 + i];
  }
  if (TYPE == Q4_0 || TYPE == Q4_1) {
    const u8 *b = row + kb * (TYPE == Q4_0 ? 18 : 20);
    float d = half_at(b), m = TYPE == Q4_0 ? -8 * d : half_at(b + 2);
    b += TYPE == Q4_0 ? 2 : 4;
    for (int i = 0; i < 16; i++) v[i] = d * (b[i] & 15) + m, v[16 + i] = d * (b[i] >> 4) + m;
  }
  if (TYPE == Q4_K) {
    const u8 *b = row + kb / 8 * 144;
    int sd, sm;
    q4k_scale(b + 4, kb % 8, sd, sm);
    float d = half_at(b) * sd, m = half_at(b + 2) * sm;
    const u8 *q = b + 16 + kb % 8 / 2 * 32;
    for (int i = 0; i < 32; i++) v[i] = d * (kb % 2 ? q[i] >> 4 : q[i] & 15) - m;
  }
  if (TYPE == Q6_K)
    for (int i = 0; i < 32; i++) v[i] = value_at(TYPE, row, kb * 32 + i);
}

// Few rows: one warp per weight row, its codes read once for up to 8 rows of x.
template <int TYPE> __device__ __forceinline__ void few(const int *bind, Dim dm, int n, int k, float *y, const float *x, const u8 *w, const float *bias) {
  int m = size(dm, bind), lane = threadIdx.x % 32, row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, m0 = blockIdx.y * 8;
  if (row >= n || m0 >= m) return;
  const u8 *wr = w + row * row_bytes(TYPE, k);
  float acc[8] = {};
  if (TYPE == F32 || TYPE == F16 || TYPE == BF16) {
    for (int i = lane; i < k; i += 32) {
      float v = value_at(TYPE, wr, i);
      for (int r = 0; r < 8; r++)
        if (m0 + r < m) acc[r] += v * x[(u64)(m0 + r) * k + i];
    }
  } else {
    for (int kb = lane; kb < k / 32; kb += 32) {
      float v[32];
      part32<TYPE>(v, wr, kb, k);
      for (int r = 0; r < 8; r++)
        if (m0 + r < m) {
          const float *xr = x + (u64)(m0 + r) * k + kb * 32;
          for (int i = 0; i < 32; i++) acc[r] += v[i] * xr[i];
        }
    }
  }
  for (int r = 0; r < 8; r++) {
    float s = warp_sum(acc[r]);
    if (lane == 0 && m0 + r < m) y[(u64)(m0 + r) * n + row] = s + (bias ? bias[row] : 0);
  }
}

// Many rows on tensor cores: 128 x 64 results per block of 256 threads (8 warps,
// 4 x 2, 32 x 32 each). Both operands are rounded to bf16 on their way into shared
// memory, weights of any type; sums are f32. Rows of shared memory are padded by
// 16 bytes, so that ldmatrix meets no bank twice.
template <int TYPE>
__device__ __forceinline__ void tensor(const int *bind, Dim dm, int n, int k, float *y, const float *x, const u8 *w, const float *bias) {
  __shared__ __align__(16) u32 as[128][20], bs[64][20]; // [row][k pair], 32 of k and padding
  int m = size(dm, bind), m0 = blockIdx.y * 128, n0 = blockIdx.x * 64;
  if (m0 >= m) return;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, wm = warp % 4 * 32, wn = warp / 4 * 32;
  u64 stride = row_bytes(TYPE, k);
  float acc[2][4][4] = {};
  for (int k0 = 0; k0 < k; k0 += 32) {
    // x: 128 rows of 32 values, 8 values per thread and turn.
    for (int i = threadIdx.x; i < 128 * 4; i += 256) {
      int r = i / 4, q = i % 4 * 8;
      float v[8];
      const float *p = x + (u64)(m0 + r) * k + k0 + q;
      if (m0 + r < m && k0 + q + 8 <= k && k % 4 == 0) {
        float4 u = *(const float4 *)p, t = *(const float4 *)(p + 4);
        v[0] = u.x, v[1] = u.y, v[2] = u.z, v[3] = u.w, v[4] = t.x, v[5] = t.y, v[6] = t.z, v[7] = t.w;
      } else
        for (int e = 0; e < 8; e++) v[e] = m0 + r < m && k0 + q + e < k ? p[e] : 0;
      for (int e = 0; e < 4; e++) as[r][q / 2 + e] = bf16_pair(v[2 * e], v[2 * e + 1]);
    }
    // w: 64 rows of 32 values.
    if (TYPE == BF16 && k % 8 == 0) {
      int r = threadIdx.x / 4, q = threadIdx.x % 4 * 8;
      uint4 v = {0, 0, 0, 0};
      if (n0 + r < n && k0 + q < k) v = *(const uint4 *)(w + (n0 + r) * stride + (k0 + q) * 2);
      *(uint4 *)&bs[r][q / 2] = v;
    } else if (TYPE == F32 || TYPE == F16 || TYPE == BF16) {
      for (int i = threadIdx.x; i < 64 * 16; i += 256) {
        int r = i / 16, q = i % 16 * 2;
        const u8 *row = w + (n0 + r) * stride;
        float lo = n0 + r < n && k0 + q < k ? value_at(TYPE, row, k0 + q) : 0;
        float hi = n0 + r < n && k0 + q + 1 < k ? value_at(TYPE, row, k0 + q + 1) : 0;
        bs[r][q / 2] = bf16_pair(lo, hi);
      }
    } else if (threadIdx.x < 64) {
      int r = threadIdx.x;
      float v[32];
      if (n0 + r < n) part32<TYPE>(v, w + (n0 + r) * stride, k0 / 32, k);
      for (int e = 0; e < 16; e++) bs[r][e] = n0 + r < n ? bf16_pair(v[2 * e], v[2 * e + 1]) : 0;
    }
    __syncthreads();
    for (int s = 0; s < 2; s++) { // 16 of k
      u32 fa[2][4], fb[4][2];
      for (int i = 0; i < 2; i++) {
        u32 p = __cvta_generic_to_shared(&as[wm + 16 * i + lane % 16][s * 8 + lane / 16 * 4]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3]) : "r"(p));
      }
      for (int j = 0; j < 4; j += 2) {
        u32 p = __cvta_generic_to_shared(&bs[wn + 8 * j + lane % 8 + lane / 16 * 8][s * 8 + lane / 8 % 2 * 4]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(fb[j][0]), "=r"(fb[j][1]), "=r"(fb[j + 1][0]), "=r"(fb[j + 1][1]) : "r"(p));
      }
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                       : "+f"(acc[i][j][0]), "+f"(acc[i][j][1]), "+f"(acc[i][j][2]), "+f"(acc[i][j][3])
                       : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j][0]), "r"(fb[j][1]));
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 4; j++)
      for (int e = 0; e < 4; e++) {
        int r = m0 + wm + 16 * i + lane / 4 + e / 2 * 8, q = n0 + wn + 8 * j + lane % 4 * 2 + e % 2;
        if (r < m && q < n) y[(u64)r * n + q] = acc[i][j][e] + (bias ? bias[q] : 0);
      }
}

// Rows of stored weights as f32: for products in f32 with many rows.
KERNEL k_decode(float *out, const u8 *w, int type, u64 rows, int cols) {
  u64 stride = row_bytes(type, cols);
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < rows * cols; i += (u64)gridDim.x * blockDim.x) out[i] = value_at(type, w + i / cols * stride, i % cols);
}

#define LINEAR(name, TYPE)                                                                                                                             \
  KERNEL k_few_##name(const int *bind, Dim dm, int n, int k, float *y, const float *x, const u8 *w, const float *bias) { few<TYPE>(bind, dm, n, k, y, x, w, bias); } \
  KERNEL __launch_bounds__(256) k_tensor_##name(const int *bind, Dim dm, int n, int k, float *y, const float *x, const u8 *w, const float *bias) { tensor<TYPE>(bind, dm, n, k, y, x, w, bias); }
LINEAR(f32, F32)
LINEAR(f16, F16)
LINEAR(bf16, BF16)
LINEAR(q8_0, Q8_0)
LINEAR(q4_0, Q4_0)
LINEAR(q4_1, Q4_1)
LINEAR(q4_k, Q4_K)
LINEAR(q6_k, Q6_K)

// Experts: one warp per row of x and column of y.
KERNEL k_grouped(const int *bind, Dim dm, int n, int k, float *y, const float *x, const u8 *w, int type, const int *offsets, int experts) {
  int m = size(dm, bind), lane = threadIdx.x % 32;
  u64 stride = row_bytes(type, k), total = (u64)m * n;
  for (u64 i = (blockIdx.x * (u64)blockDim.x + threadIdx.x) / 32; i < total; i += (u64)gridDim.x * blockDim.x / 32) {
    int r = i / n, c = i % n, e = 0;
    while (e + 1 < experts && offsets[e + 1] <= r) e++;
    const u8 *row = w + ((u64)e * n + c) * stride;
    float acc = 0;
    for (int q = lane; q < k; q += 32) acc += value_at(type, row, q) * x[(u64)r * k + q];
    acc = warp_sum(acc);
    if (lane == 0) y[i] = acc;
  }
}

// One thread per token chooses its experts.
KERNEL k_route(const int *bind, Dim dt, int experts, float *weights, int *slots, const float *logits, int used, int normalize) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= size(dt, bind)) return;
  const float *x = logits + (u64)t * experts;
  float top = -INF, sum = 0, chosen = 0;
  for (int e = 0; e < experts; e++) top = fmaxf(top, x[e]);
  for (int e = 0; e < experts; e++) sum += expf(x[e] - top);
  int *ids = slots + t * used;
  float *w = weights + t * used;
  for (int j = 0; j < used; j++) {
    int best = -1;
    for (int e = 0; e < experts; e++) {
      int taken = 0;
      for (int i = 0; i < j; i++) taken |= ids[i] == e;
      if (!taken && (best < 0 || x[e] > x[best])) best = e;
    }
    ids[j] = best;
    w[j] = expf(x[best] - top) / sum;
    chosen += w[j];
  }
  if (normalize)
    for (int j = 0; j < used; j++) w[j] /= chosen;
}

// One thread sorts the choices by expert, then by token.
KERNEL k_sort_choices(const int *bind, Dim dt, int experts, int *rows, int *slots, int *offsets, int used) {
  int n = size(dt, bind) * used;
  for (int e = 0; e <= experts; e++) offsets[e] = 0;
  for (int i = 0; i < n; i++) offsets[slots[i] + 1]++;
  for (int e = 1; e <= experts; e++) offsets[e] += offsets[e - 1];
  for (int i = 0; i < n; i++) {
    int at = offsets[slots[i]]++;
    rows[at] = i / used;
    slots[i] = at;
  }
  for (int e = experts; e > 0; e--) offsets[e] = offsets[e - 1];
  offsets[0] = 0;
}

KERNEL k_combine(const int *bind, Dim rows, int cols, float *out, const float *y, const int *slots, const float *weights, int used) {
  EACH(i) {
    int t = i / cols, c = i % cols;
    float sum = 0;
    for (int j = 0; j < used; j++) sum += weights[t * used + j] * y[(u64)slots[t * used + j] * cols + c];
    out[i] = sum;
  }
}

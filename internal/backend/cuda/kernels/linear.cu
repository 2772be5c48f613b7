// Products.

// c[m,n] = sum over k of a(m,k) * b(k,n) + bias[n] in f32, with any strides of a
// and b: forward, dX and dW are the same kernel. 64 x 64 results per block of 256
// threads, 4 x 4 per thread. Sums run over k in order.
KERNEL k_gemm_f32(STAMP, const int *bind, Dim dm, Dim dn, Dim dk, float *c, const float *a, u64 sam, u64 sak, const float *b, u64 sbk, u64 sbn, const float *bias) {
  grid_wait();
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

// Values 8i to 8i+7 of a quantized row.
template <int TYPE> __device__ __forceinline__ void part8(float *v, const u8 *row, int i) {
  if (TYPE == Q8_0) {
    const u8 *b = row + i / 4 * 34;
    float d = half_at(b);
    for (int e = 0; e < 4; e++) {
      u16 c = *(const u16 *)(b + 2 + i % 4 * 8 + 2 * e);
      v[2 * e] = d * (signed char)c, v[2 * e + 1] = d * (signed char)(c >> 8);
    }
  } else if (TYPE == Q4_0 || TYPE == Q4_1) {
    const u8 *b = row + i / 4 * (TYPE == Q4_0 ? 18 : 20);
    float d = half_to_float(*(const u16 *)b), m = TYPE == Q4_0 ? -8 * d : half_to_float(*(const u16 *)(b + 2));
    b += (TYPE == Q4_0 ? 2 : 4) + i % 2 * 8;
    int high = i % 4 / 2 * 4;
    for (int e = 0; e < 4; e++) {
      u16 c = *(const u16 *)(b + 2 * e) >> high;
      v[2 * e] = d * (c & 15) + m, v[2 * e + 1] = d * (c >> 8 & 15) + m;
    }
  } else if (TYPE == Q4_K) {
    const u8 *b = row + i / 32 * 144;
    int part = i % 32 / 4, sd, sm;
    q4k_scale(b + 4, part, sd, sm);
    float d = half_at(b) * sd, m = half_at(b + 2) * sm;
    const u8 *q = b + 16 + part / 2 * 32 + i % 4 * 8;
    for (int e = 0; e < 8; e++) v[e] = d * (part % 2 ? q[e] >> 4 : q[e] & 15) - m;
  } else
    for (int e = 0; e < 8; e++) v[e] = value_at(TYPE, row, 8 * i + e);
}

// Few rows: one warp per two weight rows, whose codes are read once for up to 8
// rows of x. A lane reads 16 bytes of a row at a time where the row allows it.
template <int TYPE> __device__ __forceinline__ void few(STAMP, const int *bind, Dim dm, int n, int k, float *y, const float *x, const u8 *w, const float *bias) {
  grid_wait();
  int m = size(dm, bind), lane = threadIdx.x % 32, row = 2 * (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32), m0 = blockIdx.y * 8;
  if (row >= n || m0 >= m) return;
  m = min(m - m0, 8);
  x += (u64)m0 * k;
  u64 stride = row_bytes(TYPE, k);
  const u8 *wr[2] = {w + row * stride, w + min(row + 1, n - 1) * stride};
  float acc[8][2] = {};
  if ((TYPE == F16 || TYPE == BF16) && k % 8 == 0) {
    for (int i = lane; i < k / 8; i += 32) {
      uint4 u[2] = {((const uint4 *)wr[0])[i], ((const uint4 *)wr[1])[i]};
      float v[2][8];
      for (int r = 0; r < 2; r++) {
        u32 p[4] = {u[r].x, u[r].y, u[r].z, u[r].w};
        for (int e = 0; e < 4; e++) {
          v[r][2 * e] = TYPE == F16 ? half_to_float(p[e]) : bf16_to_float(p[e]);
          v[r][2 * e + 1] = TYPE == F16 ? half_to_float(p[e] >> 16) : bf16_to_float(p[e] >> 16);
        }
      }
#pragma unroll
      for (int a = 0; a < 8; a++) {
        if (a >= m) break;
        const float4 *xr = (const float4 *)(x + (u64)a * k) + 2 * i;
        float4 lo = xr[0], hi = xr[1];
        for (int r = 0; r < 2; r++)
          acc[a][r] += v[r][0] * lo.x + v[r][1] * lo.y + v[r][2] * lo.z + v[r][3] * lo.w + v[r][4] * hi.x + v[r][5] * hi.y + v[r][6] * hi.z + v[r][7] * hi.w;
      }
    }
  } else if (TYPE == F32 || TYPE == F16 || TYPE == BF16) {
    for (int i = lane; i < k; i += 32) {
      float v[2] = {value_at(TYPE, wr[0], i), value_at(TYPE, wr[1], i)};
#pragma unroll
      for (int a = 0; a < 8; a++) {
        if (a >= m) break;
        for (int r = 0; r < 2; r++) acc[a][r] += v[r] * x[(u64)a * k + i];
      }
    }
  } else {
    // Four lanes share a block of 32 values: 8 each.
    for (int i = lane; i < k / 8; i += 32) {
      float v[2][8];
      for (int r = 0; r < 2; r++) part8<TYPE>(v[r], wr[r], i);
#pragma unroll
      for (int a = 0; a < 8; a++) {
        if (a >= m) break;
        const float4 *xr = (const float4 *)(x + (u64)a * k) + 2 * i;
        float4 lo = xr[0], hi = xr[1];
        for (int r = 0; r < 2; r++)
          acc[a][r] += v[r][0] * lo.x + v[r][1] * lo.y + v[r][2] * lo.z + v[r][3] * lo.w + v[r][4] * hi.x + v[r][5] * hi.y + v[r][6] * hi.z + v[r][7] * hi.w;
      }
    }
  }
#pragma unroll
  for (int a = 0; a < 8; a++) {
    if (a >= m) break;
    for (int r = 0; r < 2; r++) {
      float s = warp_sum(acc[a][r]);
      if (lane == 0 && row + r < n) y[(u64)(m0 + a) * n + row + r] = s + (bias ? bias[row + r] : 0);
    }
  }
}

// Many rows on tensor cores: 128 x 64 results per block of 256 threads (8 warps,
// 4 x 2, 32 x 32 each). Both operands are rounded to bf16 on their way into shared
// memory, weights of any type; sums are f32. While 32 of k are multiplied, the
// next 32 are on their way into registers, and then into the other half of shared
// memory. Its rows are padded by 16 bytes, so that ldmatrix meets no bank twice.
template <int TYPE> struct TileLoad {
  float4 x[2][2]; // 128 rows of 32 values: 8 values per thread, twice
  uint4 w;        // 64 rows of 32 values: 8 per thread, as bf16

  __device__ __forceinline__ void get(const In &xs, const u8 *ws, u64 stride, int m, int n, int k, int m0, int n0, int k0) {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      int i = threadIdx.x + e * 256, r = m0 + i / 4, q = k0 + i % 4 * 8;
      u64 p = (u64)r * k + q;
      if (r < m && q + 8 <= k && k % 4 == 0) {
        x[e][0] = four_of(xs.p, xs.half, p);
        x[e][1] = four_of(xs.p, xs.half, p + 4);
      } else {
        float v[8];
        for (int c = 0; c < 8; c++) v[c] = r < m && q + c < k ? ::get(xs, p + c) : 0;
        x[e][0] = {v[0], v[1], v[2], v[3]};
        x[e][1] = {v[4], v[5], v[6], v[7]};
      }
    }
    int r = n0 + threadIdx.x / 4, q = k0 + threadIdx.x % 4 * 8;
    const u8 *row = ws + r * stride;
    w = {0, 0, 0, 0};
    if (r >= n || q >= k) return;
    if (TYPE == BF16 && k % 8 == 0) {
      w = *(const uint4 *)(row + q * 2);
      return;
    }
    float v[8];
    if (TYPE == F32 || TYPE == F16 || TYPE == BF16)
      for (int c = 0; c < 8; c++) v[c] = q + c < k ? value_at(TYPE, row, q + c) : 0;
    else part8<TYPE>(v, row, q / 8);
    w = {bf16_pair(v[0], v[1]), bf16_pair(v[2], v[3]), bf16_pair(v[4], v[5]), bf16_pair(v[6], v[7])};
  }

  __device__ __forceinline__ void put(u32 (*as)[20], u32 (*bs)[20]) {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      int i = threadIdx.x + e * 256;
      *(uint4 *)&as[i / 4][i % 4 * 4] = {bf16_pair(x[e][0].x, x[e][0].y), bf16_pair(x[e][0].z, x[e][0].w), bf16_pair(x[e][1].x, x[e][1].y), bf16_pair(x[e][1].z, x[e][1].w)};
    }
    *(uint4 *)&bs[threadIdx.x / 4][threadIdx.x % 4 * 4] = w;
  }
};

template <int TYPE>
__device__ __forceinline__ void tensor(STAMP, const int *bind, Dim dm, int n, int k, Out y, In x, const u8 *w, const float *bias, int kind) {
  grid_wait();
  __shared__ __align__(16) u32 as[2][128][20], bs[2][64][20]; // [row][k pair], 32 of k and padding
  int m = size(dm, bind), m0 = blockIdx.y * 128, n0 = blockIdx.x * 64;
  if (m0 >= m) return;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, wm = warp % 4 * 32, wn = warp / 4 * 32;
  u64 stride = row_bytes(TYPE, k);
  float acc[2][4][4] = {};
  TileLoad<TYPE> next;
  next.get(x, w, stride, m, n, k, m0, n0, 0);
  for (int k0 = 0, half = 0; k0 < k; k0 += 32, half ^= 1) {
    next.put(as[half], bs[half]);
    __syncthreads();
    if (k0 + 32 < k) next.get(x, w, stride, m, n, k, m0, n0, k0 + 32);
#pragma unroll
    for (int s = 0; s < 2; s++) { // 16 of k
      u32 fa[2][4], fb[4][2];
#pragma unroll
      for (int i = 0; i < 2; i++) {
        u32 p = __cvta_generic_to_shared(&as[half][wm + 16 * i + lane % 16][s * 8 + lane / 16 * 4]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3]) : "r"(p));
      }
#pragma unroll
      for (int j = 0; j < 4; j += 2) {
        u32 p = __cvta_generic_to_shared(&bs[half][wn + 8 * j + lane % 8 + lane / 16 * 8][s * 8 + lane / 8 % 2 * 4]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(fb[j][0]), "=r"(fb[j][1]), "=r"(fb[j + 1][0]), "=r"(fb[j + 1][1]) : "r"(p));
      }
#pragma unroll
      for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                       : "+f"(acc[i][j][0]), "+f"(acc[i][j][1]), "+f"(acc[i][j][2]), "+f"(acc[i][j][3])
                       : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j][0]), "r"(fb[j][1]));
    }
  }
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 4; j++)
      for (int e = 0; e < 4; e++) {
        int r = m0 + wm + 16 * i + lane / 4 + e / 2 * 8, q = n0 + wn + 8 * j + lane % 4 * 2 + e % 2;
        if (r >= m || q >= n) continue;
        float v = acc[i][j][e] + (bias ? bias[q] : 0);
        put(y, (u64)r * n + q, kind < 0 ? v : act(kind, v));
      }
}

// Rows of stored weights as f32: for products in f32 with many rows.
KERNEL k_decode(STAMP, float *out, const u8 *w, int type, u64 rows, int cols) {
  grid_wait();
  u64 stride = row_bytes(type, cols);
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < rows * cols; i += (u64)gridDim.x * blockDim.x) out[i] = value_at(type, w + i / cols * stride, i % cols);
}

#define LINEAR(name, TYPE)                                                                                                                             \
  KERNEL k_few_##name(STAMP, const int *bind, Dim dm, int n, int k, float *y, const float *x, const u8 *w, const float *bias) { few<TYPE>(stamp_, bind, dm, n, k, y, x, w, bias); } \
  KERNEL __launch_bounds__(256) k_tensor_##name(STAMP, const int *bind, Dim dm, int n, int k, Out y, In x, const u8 *w, const float *bias, int kind) { tensor<TYPE>(stamp_, bind, dm, n, k, y, x, w, bias, kind); }
LINEAR(f32, F32)
LINEAR(f16, F16)
LINEAR(bf16, BF16)
LINEAR(q8_0, Q8_0)
LINEAR(q4_0, Q4_0)
LINEAR(q4_1, Q4_1)
LINEAR(q4_k, Q4_K)
LINEAR(q6_k, Q6_K)

// Experts: one warp per row of x and column of y.
KERNEL k_grouped(STAMP, const int *bind, Dim dm, int n, int k, float *y, const float *x, const u8 *w, int type, const int *offsets, int experts) {
  grid_wait();
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
KERNEL k_route(STAMP, const int *bind, Dim dt, int experts, float *weights, int *slots, const float *logits, int used, int normalize) {
  grid_wait();
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
KERNEL k_sort_choices(STAMP, const int *bind, Dim dt, int experts, int *rows, int *slots, int *offsets, int used) {
  grid_wait();
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

KERNEL k_combine(STAMP, const int *bind, Dim rows, int cols, float *out, const float *y, const int *slots, const float *weights, int used) {
  EACH(i) {
    int t = i / cols, c = i % cols;
    float sum = 0;
    for (int j = 0; j < used; j++) sum += weights[t * used + j] * y[(u64)slots[t * used + j] * cols + c];
    out[i] = sum;
  }
}

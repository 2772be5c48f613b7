// Products with many rows: c[m,n] = sum over k of a(m,k) b(k,n), plus bias[n].
//
// A group computes TILE_M x TILE_N results, a work item EACH_M x EACH_N of them.
// TILE_K columns of both operands lie in local memory at a time, weights decoded.
// The file is compiled once per tile.

#define ITEMS (TILE_M / EACH_M * (TILE_N / EACH_N))
#define PAD 4 // keeps rows of vectors aligned

// Element i of the results of a work item lies in row ROW_OF(i), element j in column
// COL_OF(j): in vectors of 4, so that local memory is read in vectors, neighbours
// by neighbours.
#if EACH_M % 4 == 0 && EACH_N % 4 == 0
#define ROW_OF(i) ((i) / 4 * (4 * TILE_M / EACH_M) + ty * 4 + (i) % 4)
#define COL_OF(j) ((j) / 4 * (4 * TILE_N / EACH_N) + tx * 4 + (j) % 4)
#define TAKE(to, from, n, at)                                                                                 \
  for (int i = 0; i < n; i += 4) {                                                                            \
    float4 f = *(L float4 *)&from[at(i)];                                                                     \
    to[i] = f.s0, to[i + 1] = f.s1, to[i + 2] = f.s2, to[i + 3] = f.s3;                                       \
  }
#else
#define ROW_OF(i) (ty + (i) * (TILE_M / EACH_M))
#define COL_OF(j) (tx + (j) * (TILE_N / EACH_N))
#define TAKE(to, from, n, at)                                                                                 \
  for (int i = 0; i < n; i++) to[i] = from[at(i)];
#endif

#define GEMM_BODY(LOAD_A, LOAD_B)                                                                             \
  L float as[TILE_K][TILE_M + PAD] __attribute__((aligned(16)));                                              \
  L float bs[TILE_K][TILE_N + PAD] __attribute__((aligned(16)));                                              \
  int m0 = get_group_id(1) * TILE_M, n0 = get_group_id(0) * TILE_N, item = get_local_id(0);                   \
  if (m0 >= m || n0 >= n) return;                                                                             \
  int tx = item % (TILE_N / EACH_N), ty = item / (TILE_N / EACH_N);                                           \
  float acc[EACH_M][EACH_N];                                                                                  \
  for (int i = 0; i < EACH_M; i++)                                                                            \
    for (int j = 0; j < EACH_N; j++) acc[i][j] = 0;                                                           \
  for (int k0 = 0; k0 < k; k0 += TILE_K) {                                                                    \
    LOAD_A;                                                                                                   \
    LOAD_B;                                                                                                   \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                             \
    for (int q = 0; q < TILE_K; q++) {                                                                        \
      float u[EACH_M], v[EACH_N];                                                                             \
      TAKE(u, as[q], EACH_M, ROW_OF)                                                                          \
      TAKE(v, bs[q], EACH_N, COL_OF)                                                                          \
      for (int i = 0; i < EACH_M; i++)                                                                        \
        for (int j = 0; j < EACH_N; j++) acc[i][j] = fma(u[i], v[j], acc[i][j]);                              \
    }                                                                                                         \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                             \
  }                                                                                                           \
  for (int i = 0; i < EACH_M; i++)                                                                            \
    for (int j = 0; j < EACH_N; j++) {                                                                        \
      int r = m0 + ROW_OF(i), q = n0 + COL_OF(j);                                                             \
      if (r < m && q < n) c[(u64)r * n + q] = acc[i][j] + (bias ? bias[q] : 0);                               \
    }

// Rows of x, 4 values at a time where the length allows it.
#define LOAD_X                                                                                                \
  for (int i = item; i < TILE_M * TILE_K / 4; i += ITEMS) {                                                   \
    int r = i / (TILE_K / 4), q = i % (TILE_K / 4) * 4;                                                       \
    float4 f = (float4)(0);                                                                                   \
    if (m0 + r < m) {                                                                                         \
      G const float *p = a + (u64)(m0 + r) * k + k0 + q;                                                      \
      if (k0 + q + 4 <= k) f = vload4(0, p);                                                                  \
      else {                                                                                                  \
        if (k0 + q < k) f.s0 = p[0];                                                                          \
        if (k0 + q + 1 < k) f.s1 = p[1];                                                                      \
        if (k0 + q + 2 < k) f.s2 = p[2];                                                                      \
      }                                                                                                       \
    }                                                                                                         \
    as[q][r] = f.s0, as[q + 1][r] = f.s1, as[q + 2][r] = f.s2, as[q + 3][r] = f.s3;                           \
  }

// Rows of weights, 8 values at a time where the length allows it.
#define LOAD_W(TYPE)                                                                                          \
  for (int i = item; i < TILE_N * TILE_K / 8; i += ITEMS) {                                                   \
    int r = i / (TILE_K / 8), q = i % (TILE_K / 8) * 8;                                                       \
    float8 f = (float8)(0);                                                                                   \
    if (n0 + r < n && k0 + q < k) {                                                                           \
      G const u8 *row = w + (n0 + r) * row_bytes(TYPE, k);                                                    \
      if (k % 8 == 0) f = part8(TYPE, row, (k0 + q) / 8);                                                     \
      else {                                                                                                  \
        f.s0 = value_at(TYPE, row, k0 + q);                                                                   \
        if (k0 + q + 1 < k) f.s1 = value_at(TYPE, row, k0 + q + 1);                                           \
        if (k0 + q + 2 < k) f.s2 = value_at(TYPE, row, k0 + q + 2);                                           \
        if (k0 + q + 3 < k) f.s3 = value_at(TYPE, row, k0 + q + 3);                                           \
        if (k0 + q + 4 < k) f.s4 = value_at(TYPE, row, k0 + q + 4);                                           \
        if (k0 + q + 5 < k) f.s5 = value_at(TYPE, row, k0 + q + 5);                                           \
        if (k0 + q + 6 < k) f.s6 = value_at(TYPE, row, k0 + q + 6);                                           \
        if (k0 + q + 7 < k) f.s7 = value_at(TYPE, row, k0 + q + 7);                                           \
      }                                                                                                       \
    }                                                                                                         \
    bs[q][r] = f.s0, bs[q + 1][r] = f.s1, bs[q + 2][r] = f.s2, bs[q + 3][r] = f.s3;                           \
    bs[q + 4][r] = f.s4, bs[q + 5][r] = f.s5, bs[q + 6][r] = f.s6, bs[q + 7][r] = f.s7;                       \
  }

#define MANY(name, TYPE)                                                                                      \
  KERNEL N(name)(PTR(const int, bind), Dim dm, int n, int k, PTR(float, c), PTR(const float, a), PTR(const u8, w), PTR(const float, bias)) { \
    AT(const int, bind); AT(float, c); AT(const float, a); AT(const u8, w); AT(const float, bias);            \
    int m = size(dm, bind);                                                                                   \
    GEMM_BODY(LOAD_X, LOAD_W(TYPE))                                                                           \
  }
MANY(k_many_f32, F32)
MANY(k_many_f16, F16)
MANY(k_many_bf16, BF16)
MANY(k_many_q8_0, Q8_0)
MANY(k_many_q4_0, Q4_0)
MANY(k_many_q4_1, Q4_1)
MANY(k_many_q4_k, Q4_K)
MANY(k_many_q6_k, Q6_K)

// Strides of a and b are free: gradients are products of the same kind.
#define LOAD_STRIDED_A                                                                                        \
  for (int i = item; i < TILE_M * TILE_K; i += ITEMS) {                                                       \
    int r = sak == 1 ? i / TILE_K : i % TILE_M, q = sak == 1 ? i % TILE_K : i / TILE_M;                       \
    as[q][r] = m0 + r < m && k0 + q < k ? a[(m0 + r) * sam + (k0 + q) * sak] : 0;                             \
  }
#define LOAD_STRIDED_B(TYPE)                                                                                  \
  for (int i = item; i < TILE_N * TILE_K; i += ITEMS) {                                                       \
    int r = i % TILE_N, q = i / TILE_N;                                                                       \
    bs[q][r] = n0 + r < n && k0 + q < k ? value_at(TYPE, b + (k0 + q) * row_bytes(TYPE, n), n0 + r) : 0;      \
  }

// b has rows of n values, of type F32 where it holds activations.
KERNEL N(k_gemm)(PTR(const int, bind), Dim dm, Dim dk, int n, PTR(float, c), PTR(const float, a), u64 sam, u64 sak, PTR(const u8, b), int type) {
  AT(const int, bind); AT(float, c); AT(const float, a); AT(const u8, b);
  G const float *bias = 0;
  int m = size(dm, bind), k = size(dk, bind);
  GEMM_BODY(LOAD_STRIDED_A, LOAD_STRIDED_B(type))
}

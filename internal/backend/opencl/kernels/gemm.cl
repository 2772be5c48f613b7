// Products with many rows: c[m,n] = sum over k of a(m,k) b(k,n), plus bias[n], through
// an activation.
//
// A group computes TILE_M x TILE_N results, a work item EACH_M x EACH_N of them.
// TILE_K columns of both operands lie in local memory, weights of TYPE decoded, while
// the next columns are on their way into registers. The file is compiled once per
// tile, type and use: STRIDED products are those of gradients.

// With HALF, operands lie in local memory in 16 bits and are multiplied so; sums are f32.

#ifdef HALF
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
typedef HALF T;
typedef JOIN(HALF, 4) T4;
#define MULTIPLY(u, v, sum) ((sum) + (float)((u) * (v)))
#else
typedef float T;
typedef float4 T4;
#define MULTIPLY(u, v, sum) fma(u, v, sum)
#endif

#define ITEMS (TILE_M / EACH_M * (TILE_N / EACH_N))
#define PAD 4 // keeps rows of vectors aligned

// Element i of the results of a work item lies in row ROW_OF(i), element j in column
// COL_OF(j): in vectors of 4, so that local memory is read in vectors, neighbours
// by neighbours.
#if EACH_M % 4 == 0 && EACH_N % 4 == 0
#define ROW_OF(i) ((i) / 4 * (4 * TILE_M / EACH_M) + ty * 4 + (i) % 4)
#define COL_OF(j) ((j) / 4 * (4 * TILE_N / EACH_N) + tx * 4 + (j) % 4)
#define VECTORS
#else
#define ROW_OF(i) (ty + (i) * (TILE_M / EACH_M))
#define COL_OF(j) (tx + (j) * (TILE_N / EACH_N))
#endif

// Values q to q+3 of a row of k.
float4 four(G const float *row, int q, int k) {
  if (k % 4 == 0) return q < k ? *(G const float4 *)(row + q) : (float4)(0);
  return (float4)(q < k ? row[q] : 0, q + 1 < k ? row[q + 1] : 0, q + 2 < k ? row[q + 2] : 0, q + 3 < k ? row[q + 3] : 0);
}

#ifdef STRIDED // strides of a are free, b has rows of n values

#define A_WIDE 1
#define B_WIDE 1
#define A_ROW(i) (sak == 1 ? (i) / TILE_K : (i) % TILE_M)
#define A_COL(i) (sak == 1 ? (i) % TILE_K : (i) / TILE_M)
#define B_ROW(i) ((i) % TILE_N)
#define B_COL(i) ((i) / TILE_N)
#define GET_A(r, q) (m0 + (r) < m && k0 + (q) < k ? a[(m0 + (r)) * sam + (k0 + (q)) * sak] : 0)
#define GET_B(r, q) (n0 + (r) < n && k0 + (q) < k ? value_at(TYPE, b + (k0 + (q)) * row_bytes(TYPE, n), n0 + (r)) : 0)
typedef float A_PART;
typedef float B_PART;

#else // rows of k values; those that lie beyond the end are read and not used

#define A_WIDE 4
#if TYPE <= BF16
#define B_WIDE 4
typedef float4 B_PART;
B_PART weights(G const u8 *row, int q, int k) {
#if TYPE == F32
  return four((G const float *)row, q, k);
#else
  if (k % 4 == 0) {
    if (q >= k) return (float4)(0);
#if TYPE == F16
    return vloada_half4(q / 4, (G const half *)row);
#else
    return as_float4(convert_uint4(((G const ushort4 *)row)[q / 4]) << 16);
#endif
  }
  return (float4)(q < k ? value_at(TYPE, row, q) : 0, q + 1 < k ? value_at(TYPE, row, q + 1) : 0, q + 2 < k ? value_at(TYPE, row, q + 2) : 0, q + 3 < k ? value_at(TYPE, row, q + 3) : 0);
#endif
}
#else // in blocks
#define B_WIDE 8
typedef float8 B_PART;
B_PART weights(G const u8 *row, int q, int k) { return q < k ? part8(TYPE, row, q / 8) : (float8)(0); }
#endif
#define A_ROW(i) ((i) / (TILE_K / A_WIDE))
#define A_COL(i) ((i) % (TILE_K / A_WIDE) * A_WIDE)
#define B_ROW(i) ((i) / (TILE_K / B_WIDE))
#define B_COL(i) ((i) % (TILE_K / B_WIDE) * B_WIDE)
#define GET_A(r, q) four(a + (u64)min(m0 + (r), m - 1) * k, k0 + (q), k)
#define GET_B(r, q) weights(b + min(n0 + (r), n - 1) * row_bytes(TYPE, k), k0 + (q), k)
typedef float4 A_PART;

#endif

#define A_PARTS (TILE_M * TILE_K / A_WIDE)
#define B_PARTS (TILE_N * TILE_K / B_WIDE)
#define A_EACH ((A_PARTS + ITEMS - 1) / ITEMS)
#define B_EACH ((B_PARTS + ITEMS - 1) / ITEMS)

void put1(L T *to, int stride, float v) { to[0] = (T)v; }
void put4(L T *to, int stride, float4 v) { to[0] = (T)v.s0, to[stride] = (T)v.s1, to[2 * stride] = (T)v.s2, to[3 * stride] = (T)v.s3; }
void put8(L T *to, int stride, float8 v) {
  put4(to, stride, v.lo);
  put4(to + 4 * stride, stride, v.hi);
}
#define JOINED(a, b) a##b
#define PUT(wide) JOINED(put, wide)

#ifdef STRIDED
KERNEL_OF(ITEMS) k_gemm(SLABS, PTR(const int, bind), Dim dm, Dim dk, int n, PTR(float, c), PTR(const float, a), u64 sam, u64 sak, PTR(const u8, b)) {
  AT(const int, bind); AT(float, c); AT(const float, a); AT(const u8, b);
  G const float *bias = 0;
  int m = size(dm, bind), k = size(dk, bind), kind = -1;
#else
KERNEL_OF(ITEMS) k_many(SLABS, PTR(const int, bind), Dim dm, int n, int k, PTR(float, c), PTR(const float, a), PTR(const u8, b), PTR(const float, bias), int kind) {
  AT(const int, bind); AT(float, c); AT(const float, a); AT(const u8, b); AT(const float, bias);
  int m = size(dm, bind);
#endif
  L T as[2][TILE_K][TILE_M + PAD] __attribute__((aligned(16)));
  L T bs[2][TILE_K][TILE_N + PAD] __attribute__((aligned(16)));
  int m0 = get_group_id(1) * TILE_M, n0 = get_group_id(0) * TILE_N, item = get_local_id(0);
  if (m0 >= m || n0 >= n) return;
  int tx = item % (TILE_N / EACH_N), ty = item / (TILE_N / EACH_N);
  float acc[EACH_M][EACH_N];
  A_PART fa[A_EACH];
  B_PART fb[B_EACH];
#pragma unroll
  for (int i = 0; i < EACH_M; i++)
#pragma unroll
    for (int j = 0; j < EACH_N; j++) acc[i][j] = 0;
  for (int k0 = 0, buf = 0;; k0 += TILE_K, buf ^= 1) {
    if (k0 < k) {
#pragma unroll
      for (int u = 0; u < A_EACH; u++) {
        int i = item + u * ITEMS;
        if (A_PARTS % ITEMS == 0 || i < A_PARTS) fa[u] = GET_A(A_ROW(i), A_COL(i));
      }
#pragma unroll
      for (int u = 0; u < B_EACH; u++) {
        int i = item + u * ITEMS;
        if (B_PARTS % ITEMS == 0 || i < B_PARTS) fb[u] = GET_B(B_ROW(i), B_COL(i));
      }
    }
    if (k0 > 0) // what the round before brought
#pragma unroll
      for (int q = 0; q < TILE_K; q++) {
        T u[EACH_M], v[EACH_N];
#ifdef VECTORS
#pragma unroll
        for (int i = 0; i < EACH_M; i += 4) {
          T4 f = *(L T4 *)&as[buf ^ 1][q][ROW_OF(i)];
          u[i] = f.s0, u[i + 1] = f.s1, u[i + 2] = f.s2, u[i + 3] = f.s3;
        }
#pragma unroll
        for (int j = 0; j < EACH_N; j += 4) {
          T4 f = *(L T4 *)&bs[buf ^ 1][q][COL_OF(j)];
          v[j] = f.s0, v[j + 1] = f.s1, v[j + 2] = f.s2, v[j + 3] = f.s3;
        }
#else
        for (int i = 0; i < EACH_M; i++) u[i] = as[buf ^ 1][q][ROW_OF(i)];
        for (int j = 0; j < EACH_N; j++) v[j] = bs[buf ^ 1][q][COL_OF(j)];
#endif
#pragma unroll
        for (int i = 0; i < EACH_M; i++)
#pragma unroll
          for (int j = 0; j < EACH_N; j++) acc[i][j] = MULTIPLY(u[i], v[j], acc[i][j]);
      }
    if (k0 >= k) break;
#pragma unroll
    for (int u = 0; u < A_EACH; u++) {
      int i = item + u * ITEMS;
      if (A_PARTS % ITEMS == 0 || i < A_PARTS) PUT(A_WIDE)(&as[buf][A_COL(i)][A_ROW(i)], TILE_M + PAD, fa[u]);
    }
#pragma unroll
    for (int u = 0; u < B_EACH; u++) {
      int i = item + u * ITEMS;
      if (B_PARTS % ITEMS == 0 || i < B_PARTS) PUT(B_WIDE)(&bs[buf][B_COL(i)][B_ROW(i)], TILE_N + PAD, fb[u]);
    }
    // Nobody reads the other buffer any more: all have read it before the barrier of
    // the round before.
    barrier(CLK_LOCAL_MEM_FENCE);
  }
#pragma unroll
  for (int i = 0; i < EACH_M; i++) {
    int r = m0 + ROW_OF(i);
#pragma unroll
    for (int j = 0; j < EACH_N; j++) {
      int q = n0 + COL_OF(j);
      float v = acc[i][j] + (bias && q < n ? bias[q] : 0);
      acc[i][j] = kind < 0 ? v : act(kind, v);
#ifndef VECTORS
      if (r < m && q < n) c[(u64)r * n + q] = acc[i][j];
#endif
    }
#ifdef VECTORS
#pragma unroll
    for (int j = 0; j < EACH_N; j += 4) {
      int q = n0 + COL_OF(j);
      G float *to = c + (u64)r * n + q;
      if (r < m) {
        if (n % 4 == 0 && q < n) *(G float4 *)to = (float4)(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
        else
          for (int e = 0; e < 4; e++)
            if (q + e < n) to[e] = acc[i][j + e];
      }
    }
#endif
  }
}

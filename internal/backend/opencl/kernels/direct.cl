// Products with many rows without local memory: a work item computes EACH_M x
// EACH_N results from rows that it reads itself, 8 values at a time. Devices whose
// caches hold the rows of a group anyway, CPUs among them, are faster so.

KERNEL k_many(SLABS, PTR(const int, bind), Dim dm, int n, int k, PTR(float, c), PTR(const float, a), PTR(const u8, w), PTR(const float, bias), int kind) {
  AT(const int, bind); AT(float, c); AT(const float, a); AT(const u8, w); AT(const float, bias);
  int m = size(dm, bind), item = get_local_id(0);
  int r0 = get_group_id(1) * TILE_M + item / (TILE_N / EACH_N) * EACH_M, q0 = get_group_id(0) * TILE_N + item % (TILE_N / EACH_N) * EACH_N;
  if (r0 >= m || q0 >= n) return;
  u64 stride = row_bytes(TYPE, k);
  float acc[EACH_M][EACH_N];
  for (int i = 0; i < EACH_M; i++)
    for (int j = 0; j < EACH_N; j++) acc[i][j] = 0;
  int whole = k % 8 ? 0 : k / 8;
  for (int e = 0; e < whole; e++) {
    float8 v[EACH_N];
    for (int j = 0; j < EACH_N; j++) v[j] = part8(TYPE, w + min(q0 + j, n - 1) * stride, e);
    for (int i = 0; i < EACH_M; i++) {
      float8 u = part8(F32, (G const u8 *)(a + (u64)min(r0 + i, m - 1) * k), e);
      for (int j = 0; j < EACH_N; j++) acc[i][j] += dot8(u, v[j]);
    }
  }
  for (int e = whole * 8; e < k; e++)
    for (int j = 0; j < EACH_N; j++) {
      float v = value_at(TYPE, w + min(q0 + j, n - 1) * stride, e);
      for (int i = 0; i < EACH_M; i++) acc[i][j] += v * a[(u64)min(r0 + i, m - 1) * k + e];
    }
  for (int i = 0; i < EACH_M; i++)
    for (int j = 0; j < EACH_N; j++)
      if (r0 + i < m && q0 + j < n) {
        float v = acc[i][j] + (bias ? bias[q0 + j] : 0);
        c[(u64)(r0 + i) * n + q0 + j] = kind < 0 ? v : act(kind, v);
      }
}

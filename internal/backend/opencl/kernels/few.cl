// Products with up to 8 rows: a group of FEW lanes per row of the weights of TYPE,
// which is read once. Compiled once per type.
#define FEW 32
#define ROWS 8

KERNEL_OF(FEW) k_few(SLABS, PTR(const int, bind), Dim dm, int n, int k, PTR(float, y), PTR(const float, x), PTR(const u8, w), PTR(const float, bias), int kind) {
  AT(const int, bind); AT(float, y); AT(const float, x); AT(const u8, w); AT(const float, bias);
  L float part[ROWS * FEW];
  int m = size(dm, bind), row = GROUP, m0 = get_group_id(1) * ROWS;
  if (row >= n || m0 >= m) return;
  m = min(m - m0, ROWS);
  x += (u64)m0 * k;
  w += row * row_bytes(TYPE, k);
  float acc[ROWS];
#pragma unroll
  for (int a = 0; a < ROWS; a++) acc[a] = 0;
  if (k % 8 == 0) {
    for (int i = LANE; i < k / 8; i += FEW) {
      float8 v = part8(TYPE, w, i);
#pragma unroll
      for (int a = 0; a < ROWS; a++)
        if (a < m) acc[a] += dot8(v, part8(F32, (G const u8 *)(x + (u64)a * k), i));
    }
  } else {
    for (int i = LANE; i < k; i += FEW) {
      float v = value_at(TYPE, w, i);
#pragma unroll
      for (int a = 0; a < ROWS; a++)
        if (a < m) acc[a] += v * x[(u64)a * k + i];
    }
  }
#pragma unroll
  for (int a = 0; a < ROWS; a++) part[a * FEW + LANE] = acc[a];
  // 4 lanes per row of x add 8 parts each, then one adds those.
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum = 0;
  for (int e = 0; e < FEW; e += 4) sum += part[LANE / 4 * FEW + LANE % 4 + e];
  barrier(CLK_LOCAL_MEM_FENCE);
  part[LANE] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (LANE < m) {
    sum = part[4 * LANE] + part[4 * LANE + 1] + (part[4 * LANE + 2] + part[4 * LANE + 3]) + (bias ? bias[row] : 0);
    y[(u64)(m0 + LANE) * n + row] = kind < 0 ? sum : act(kind, sum);
  }
}

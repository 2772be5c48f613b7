// What the device does at most: products and sums from registers, reads of memory.

KERNEL k_fma(SLABS, PTR(float, y), int rounds) {
  AT(float, y);
  float a = get_local_id(0) * 1e-3f, b = 0.999f;
  float8 s = (float8)(a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, a + 7), t = s + 8;
  for (int i = 0; i < rounds; i++) {
    s = fma(s, (float8)(b), (float8)(a));
    t = fma(t, (float8)(b), (float8)(a));
  }
  s += t;
  y[get_global_id(0)] = s.s0 + s.s1 + s.s2 + s.s3 + s.s4 + s.s5 + s.s6 + s.s7;
}

KERNEL k_read(SLABS, PTR(float, y), PTR(const float4, x), u64 n) {
  AT(float, y); AT(const float4, x);
  float4 s = 0;
  for (u64 i = get_global_id(0); i < n; i += get_global_size(0)) s += x[i];
  y[get_global_id(0)] = s.s0 + s.s1 + s.s2 + s.s3;
}

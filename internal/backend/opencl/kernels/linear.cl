// What experts need.

#define FEW 32 // lanes of a group

// Experts: a group of FEW lanes per row of x and column of y.
KERNEL_OF(FEW) k_grouped(SLABS, PTR(const int, bind), Dim dm, int n, int k, PTR(float, y), PTR(const float, x), PTR(const u8, w), int type, PTR(const int, offsets), int experts) {
  AT(const int, bind); AT(float, y); AT(const float, x); AT(const u8, w); AT(const int, offsets);
  L float part[FEW];
  int c = GROUP, r = get_group_id(1), e = 0;
  if (r >= size(dm, bind)) return;
  while (e + 1 < experts && offsets[e + 1] <= r) e++;
  G const u8 *row = w + ((u64)e * n + c) * row_bytes(type, k);
  float acc = 0;
  for (int q = LANE; q < k; q += FEW) acc += value_at(type, row, q) * x[(u64)r * k + q];
  acc = group_sum(acc, part);
  if (LANE == 0) y[(u64)r * n + c] = acc;
}

// One work item per token chooses its experts.
KERNEL k_route(SLABS, PTR(const int, bind), Dim dt, int experts, PTR(float, weights), PTR(int, slots), PTR(const float, logits), int used, int normalize) {
  AT(const int, bind); AT(float, weights); AT(int, slots); AT(const float, logits);
  int t = get_global_id(0);
  if (t >= size(dt, bind)) return;
  G const float *x = logits + (u64)t * experts;
  float top = -INFINITY, sum = 0, chosen = 0;
  for (int e = 0; e < experts; e++) top = fmax(top, x[e]);
  for (int e = 0; e < experts; e++) sum += exp(x[e] - top);
  G int *ids = slots + t * used;
  G float *w = weights + t * used;
  for (int j = 0; j < used; j++) {
    int best = -1;
    for (int e = 0; e < experts; e++) {
      int taken = 0;
      for (int i = 0; i < j; i++) taken |= ids[i] == e;
      if (!taken && (best < 0 || x[e] > x[best])) best = e;
    }
    ids[j] = best;
    w[j] = exp(x[best] - top) / sum;
    chosen += w[j];
  }
  if (normalize)
    for (int j = 0; j < used; j++) w[j] /= chosen;
}

// One work item sorts the choices by expert, then by token.
KERNEL k_sort_choices(SLABS, PTR(const int, bind), Dim dt, int experts, PTR(int, rows), PTR(int, slots), PTR(int, offsets), int used) {
  AT(const int, bind); AT(int, rows); AT(int, slots); AT(int, offsets);
  if (get_global_id(0)) return;
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

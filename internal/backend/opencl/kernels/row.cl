// A single row as the left operand of products, in local memory.

// Puts the norm of x + add, or x itself, into xs[k]. add has adds rows, whose sum counts.
// The first group writes x + add to sum, where somebody reads it. nw and nb are the
// norm's weight and bias. norm is 0: none, 1: RMS, 2: layer. part has a place per lane.
void norm_row(L float *xs, L float *part, int lanes, G const float *x, G const float *add, int adds, G float *sum, G const float *nw, G const float *nb, int k, int norm, float eps, float offset) {
  int lane = LANE;
  if (norm) {
    float4 nws = 4 * lane < k ? *(G const float4 *)(nw + 4 * lane) : (float4)(0);
    float mean = 0, sq = 0;
    for (int i = 4 * lane; i < k; i += 4 * lanes) {
      float4 v = *(G const float4 *)(x + i);
      if (add) {
        float4 more = *(G const float4 *)(add + i);
#pragma unroll 4
        for (int r = 1; r < adds; r++) more += *(G const float4 *)(add + r * k + i);
        v += more;
      }
      if (sum && GROUP == 0) *(G float4 *)(sum + i) = v;
      *(L float4 *)(xs + i) = v;
      mean += v.x + v.y + (v.z + v.w);
      sq += dot(v, v);
    }
    if (norm == 2) {
      mean = group_sum(mean, part) / k, sq = 0;
      for (int i = 4 * lane; i < k; i += 4 * lanes) {
        float4 v = *(L float4 *)(xs + i) - mean;
        sq += dot(v, v);
      }
    } else mean = 0;
    float scale = 1 / sqrt(group_sum(sq, part) / k + eps);
    for (int i = 4 * lane; i < k; i += 4 * lanes) {
      float4 v = (*(L float4 *)(xs + i) - mean) * scale * ((i == 4 * lane ? nws : *(G const float4 *)(nw + i)) + offset);
      *(L float4 *)(xs + i) = nb ? v + *(G const float4 *)(nb + i) : v;
    }
  } else
    for (int i = lane; i < k; i += lanes) xs[i] = x[i];
  barrier(CLK_LOCAL_MEM_FENCE);
}

// Drawing tokens from logits, as package sample does. Weights are integers in units
// of 2^-44 of the best token's: sums do not depend on the order of additions, so a
// row of logits and a random number always give the same token.

// Tokens compare by key, then by id: the larger logit is the larger key (-0 is 0),
// and among equal keys the lower id is the better token.
__device__ __forceinline__ u32 key_of(float logit) {
  u32 b = __float_as_uint(logit + 0.0f);
  return b ^ ((u32)((int)b >> 31) | 0x80000000u);
}
__device__ __forceinline__ float logit_of(u32 key) { return __uint_as_float(key >> 31 ? key ^ 0x80000000u : ~key); }

// Best is the best token of a part of a row; bad: a logit is NaN or +Inf.
struct Best {
  u64 key; // key, then the complement of the id; 0: all logits are -Inf
  u64 bad;
};

// Parts of a row: a block each.
KERNEL k_sample_best(STAMP, const int *bind, Dim rows, int n, Best *best, const float *logits) {
  __shared__ u64 keys[32];
  __shared__ int bads[32];
  int r = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32, step = gridDim.x * blockDim.x;
  bool there = r < size(rows, bind);
  grid_wait();
  if (!there) return;
  const float *x = logits + (u64)r * n;
  u64 top = 0;
  int bad = 0;
  constexpr int AHEAD = 8; // values under way; the host has as many blocks as need one turn
  for (int i0 = blockIdx.x * blockDim.x + threadIdx.x; i0 < n; i0 += AHEAD * step) {
    float v[AHEAD];
#pragma unroll
    for (int e = 0; e < AHEAD; e++) v[e] = i0 + e * step < n ? x[i0 + e * step] : -INF;
#pragma unroll
    for (int e = 0; e < AHEAD; e++) {
      if (v[e] != v[e] || v[e] == INF) bad = 1;
      else if (v[e] != -INF) top = max(top, (u64)key_of(v[e]) << 32 | ~(u32)(i0 + e * step));
    }
  }
  for (int o = 16; o; o >>= 1) {
    top = max(top, __shfl_xor_sync(~0u, top, o));
    bad |= __shfl_xor_sync(~0u, bad, o);
  }
  if (lane == 0) keys[warp] = top, bads[warp] = bad;
  __syncthreads();
  if (threadIdx.x) return;
  for (int w = 1; w < blockDim.x / 32; w++) top = max(top, keys[w]), bad |= bads[w];
  best[r * gridDim.x + blockIdx.x] = {top, (u64)bad};
}

// Draw is one row on its way. Tokens that are left have a key above low, or low
// itself and an id of at most cut.
struct Draw {
  const float *x;
  int n;
  double top;
  u32 low;
  int cut;
};

__device__ __forceinline__ bool left(const Draw &d, u32 key, int id) { return key > d.low || key == d.low && id <= d.cut; }

// The weight of a logit at a temperature, whose inverse is given.
__device__ __forceinline__ u64 weight_of(const Draw &d, float logit, double inverse) {
  double t = ((double)logit - d.top) * inverse * 1.4426950408889634;
  if (!(t > -46)) return 0;
  int whole = (int)floor(t);
  return (u64)((double)exp2f((float)(t - whole)) * __longlong_as_double((long long)(whole + 44 + 1023) << 52) + 0.5);
}

// Sum over a block; every thread gets it.
__device__ __forceinline__ u64 block_sum64(u64 v) {
  __shared__ u64 part[32];
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int w = 0; w < blockDim.x / 32; w++) v += part[w];
  return v;
}

// What the tokens that are left weigh; inverse 0: how many they are.
__device__ __forceinline__ u64 weigh(const Draw &d, double inverse) {
  u64 sum = 0;
  for (int i = threadIdx.x; i < d.n; i += blockDim.x) {
    float v = d.x[i];
    if (left(d, key_of(v), i)) sum += inverse > 0 ? weight_of(d, v, inverse) : 1;
  }
  return block_sum64(sum);
}

// The key at which the weights of the tokens that are left, added up from the best
// (or from the worst, where up), reach target; rest is what is still missing when
// that key's tokens begin. Target is at least 1 and at most the sum. Eight bits of
// the key at a time.
__device__ __forceinline__ u32 descend(const Draw &d, double inverse, bool up, u64 target, u64 &rest) {
  __shared__ u64 sums[256], missing;
  __shared__ u32 found;
  u32 prefix = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < 256; i += blockDim.x) sums[i] = 0;
    __syncthreads();
    u64 run = 0;
    u32 of = 0; // the slot that run belongs to
    for (int i = threadIdx.x; i < d.n; i += blockDim.x) {
      float v = d.x[i];
      u32 key = key_of(v), slot = key >> shift & 255;
      if (shift < 24 && key >> shift >> 8 != prefix || !left(d, key, i)) continue;
      u64 w = inverse > 0 ? weight_of(d, v, inverse) : 1;
      if (slot != of) {
        if (run) atomicAdd(&sums[of], run);
        run = 0, of = slot;
      }
      run += w;
    }
    if (run) atomicAdd(&sums[of], run);
    __syncthreads();
    if (threadIdx.x == 0) {
      int i = up ? 0 : 255, step = up ? 1 : -1;
      while (sums[i] < target && i + step >= 0 && i + step < 256) target -= sums[i], i += step;
      found = i, missing = target;
    }
    __syncthreads();
    prefix = prefix << 8 | found;
    target = missing;
    __syncthreads();
  }
  rest = target;
  return prefix;
}

// The id of token number rank, from 1 on by id, among those that are left and have
// a key.
__device__ __forceinline__ int nth(const Draw &d, u32 key, u64 rank) {
  __shared__ int counts[32], at;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (threadIdx.x == 0) at = d.n - 1;
  u64 before = 0;
  for (int i0 = 0; i0 < d.n && before < rank; i0 += blockDim.x) {
    int i = i0 + threadIdx.x, mine = 0;
    if (i < d.n) {
      u32 k = key_of(d.x[i]);
      mine = k == key && left(d, k, i);
    }
    u32 votes = __ballot_sync(~0u, mine);
    __syncthreads();
    if (lane == 0) counts[warp] = __popc(votes);
    __syncthreads();
    u64 here = before;
    for (int w = 0; w < blockDim.x / 32; w++) {
      if (w == warp && mine && here + __popc(votes & ((1u << lane) - 1)) + 1 == rank) at = i;
      here += counts[w];
    }
    before = here;
  }
  __syncthreads();
  return at;
}

// The token where u falls among those that are left, by id.
__device__ __forceinline__ int by_id(const Draw &d, double inverse, u64 u) {
  __shared__ u64 parts[32], under;
  __shared__ int mine, chosen;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, per = (d.n + 32 * warps - 1) / (32 * warps) * 32, from = warp * per, to = min(d.n, from + per);
  u64 sum = 0;
  auto weight = [&](int i) {
    float v = i < to ? d.x[i] : -INF;
    return i < to && left(d, key_of(v), i) ? weight_of(d, v, inverse) : 0;
  };
  for (int i = from + lane; i < to; i += 32) sum += weight(i);
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
  if (lane == 0) parts[warp] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    int w = 0;
    for (; w + 1 < warps && u >= parts[w]; w++) u -= parts[w];
    mine = w, under = u, chosen = -1;
  }
  __syncthreads();
  if (warp == mine) {
    u64 rest = under;
    for (int i0 = from; i0 < to; i0 += 32) {
      u64 w = weight(i0 + lane), upto = w;
      for (int o = 1; o < 32; o *= 2) {
        u64 other = __shfl_up_sync(~0u, upto, o);
        if (lane >= o) upto += other;
      }
      u32 beyond = __ballot_sync(~0u, upto > rest);
      if (beyond) {
        if (lane == 0) chosen = i0 + __ffs(beyond) - 1;
        break;
      }
      rest -= __shfl_sync(~0u, upto, 31);
    }
  }
  __syncthreads();
  return chosen;
}

// Columns of how, as package graph numbers them.
enum { TEMPERATURE, TOP_K, TOP_P, MIN_P, HOW };

// A block per row.
KERNEL __launch_bounds__(1024) k_sample(STAMP, const int *bind, Dim rows, int n, int *ids, const Best *best, int parts, const float *logits, const float *how, const u32 *random) {
  int r = blockIdx.x;
  grid_wait();
  if (r >= size(rows, bind)) return;
  u64 top = 0;
  int bad = 0;
  for (int i = threadIdx.x % 32; i < parts; i += 32) {
    Best b = best[r * parts + i];
    top = max(top, b.key), bad |= b.bad != 0;
  }
  for (int o = 16; o; o >>= 1) {
    top = max(top, __shfl_xor_sync(~0u, top, o));
    bad |= __shfl_xor_sync(~0u, bad, o);
  }
  const float *h = how + r * HOW;
  float temperature = h[TEMPERATURE], share = h[TOP_P], least = h[MIN_P];
  int k = (int)h[TOP_K], id = bad || !top ? -1 : (int)~(u32)top;
  if (id < 0 || temperature == 0 || k == 1) {
    if (threadIdx.x == 0) ids[r] = id;
    return;
  }
  u64 rest;
  Draw d = {logits + (u64)r * n, n, (double)logit_of(top >> 32), key_of(-INF) + 1, n};
  bool by_k = k > 0 && k < n, by_p = share > 0 && share < 1;
  if (by_k && weigh(d, 0) > k) {
    u32 low = descend(d, 0, false, k, rest);
    d.cut = nth(d, low, rest), d.low = low;
  }
  if (by_p) {
    u64 mass = weigh(d, 1), target = (u64)ceil((double)share * (double)mass);
    u32 low = descend(d, 1, false, max(min(target, mass), (u64)1), rest);
    u64 each = max(weight_of(d, logit_of(low), 1), (u64)1);
    d.cut = nth(d, low, (rest + each - 1) / each), d.low = low;
  }
  if (least > 0) { // the first key that is not below
    double floor_ = d.top + log((double)least);
    float v = (float)fmax(floor_, -3.4028234663852886e38);
    u32 low = key_of(v) + ((double)v < floor_);
    if (low > d.low) d.low = low, d.cut = n;
  }
  double inverse = 1 / (double)temperature;
  u64 bits = (u64)random[2 * r] << 32 | random[2 * r + 1], sum = weigh(d, inverse), u = __umul64hi(bits << 11, sum);
  if (k > 0 || by_p) { // the worst first, and among equals the highest id
    u32 key = descend(d, inverse, true, u + 1, rest);
    u64 each = max(weight_of(d, logit_of(key), inverse), (u64)1), behind = (rest - 1) / each, same = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
      u32 other = key_of(d.x[i]);
      same += other == key && left(d, other, i);
    }
    same = block_sum64(same);
    id = nth(d, key, same - min(behind, same - 1));
  } else id = by_id(d, inverse, u);
  if (threadIdx.x == 0) ids[r] = id;
}

// Tokens below 0 are ids that the run before drew and that never left the card: -1-i
// is its row i. Where it could draw none the token is 0; the host ends that text.
KERNEL k_resume(STAMP, const int *bind, Dim rows, int *y, const int *tokens, const int *last) {
  grid_wait();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x, n = size(rows, bind); i < n; i += gridDim.x * blockDim.x) y[i] = tokens[i] < 0 ? max(last[-1 - tokens[i]], 0) : tokens[i];
}

// Keeps the ids of a run for the next.
KERNEL k_keep(STAMP, const int *bind, Dim rows, int *last, const int *ids) {
  grid_wait();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x, n = size(rows, bind); i < n; i += gridDim.x * blockDim.x) last[i] = ids[i];
}

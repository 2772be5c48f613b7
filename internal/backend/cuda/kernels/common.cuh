// What all kernels share. NVRTC compiles it in front of each file: there are no
// other headers.
//
// Sizes that a run binds (T, S, R) lie in device memory, so that the arguments of
// a launch never change and a list of launches can be replayed. Grids are for
// the largest run of a plan: blocks beyond the bound sizes leave at once.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define KERNEL extern "C" __global__ void
#define INF __int_as_float(0x7f800000)

// Dim is a size: mul * bind[sym-1] + add, or add where sym is 0.
struct Dim {
  int sym, mul, add;
};

__device__ __forceinline__ int size(Dim d, const int *bind) { return d.sym ? d.mul * bind[d.sym - 1] + d.add : d.add; }

__device__ __forceinline__ float half_to_float(u16 h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
__device__ __forceinline__ u16 float_to_half(float f) {
  u16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
__device__ __forceinline__ float bf16_to_float(u16 h) { return __uint_as_float((u32)h << 16); }
__device__ __forceinline__ u16 float_to_bf16(float f) {
  u32 u = __float_as_uint(f);
  if ((u & 0x7fffffff) > 0x7f800000) return (u >> 16) | 0x40; // NaN stays one
  return (u + 0x7fff + ((u >> 16) & 1)) >> 16;
}
// Two values as a pair of bf16, lo in the lower half.
__device__ __forceinline__ u32 bf16_pair(float lo, float hi) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}

// Stamp is the first parameter of every kernel, by this name. In a profiled run the first
// kernel of a step writes the lower half of the card's clock to a place of its own; all
// others have 0.
struct Stamp {
  u32 *to;
};
#define STAMP const Stamp stamp_

// The card's clock in nanoseconds; it moves in steps of 32.
__device__ __forceinline__ u64 card_clock() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
  return t;
}

// Waits until what was launched before has ended; what is launched next may then
// begin. Every thread that reads or writes what others do calls it once, before it does.
// Weights, sizes and inputs may be read before. The end of the wait is the end of the kernels
// before and the begin of this one: the first thread writes the stamp then, so a second
// call would move the begin. A run without a profile reads nothing for it but a parameter.
//
// A clock takes long to come. Kernels that take little longer than that use
// grid_wait_clock, and write what it gives by grid_stamp behind their first requests.
#define grid_wait() write_stamp(stamp_, wait_clock(stamp_))
#define grid_wait_clock() wait_clock(stamp_)
#define grid_stamp(clock) write_stamp(stamp_, clock)
__device__ __forceinline__ u32 wait_clock(const Stamp &s) {
  // Which thread writes is found out before the wait ends: from then on instructions count.
  u32 writes = 0, clock = 0;
  if (s.to) {
    u32 index;
    asm volatile("{\n.reg .u32 x, y, z;\nmov.u32 %0, %%tid.x;\nmov.u32 x, %%ctaid.x;\nmov.u32 y, %%ctaid.y;\nmov.u32 z, %%ctaid.z;\n"
                 "or.b32 %0, %0, x;\nor.b32 %0, %0, y;\nor.b32 %0, %0, z;\n}" : "=r"(index));
    writes = index == 0;
  }
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\ngriddepcontrol.launch_dependents;" ::: "memory");
#endif
  // Without a branch, and half of the clock: all of it takes twice as long.
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %1, 0;\n@p mov.u32 %0, %%globaltimer_lo;\n}" : "+r"(clock) : "r"(writes) : "memory");
  return clock | writes; // 0: not the thread that writes; the clock is even
}
__device__ __forceinline__ void write_stamp(const Stamp &s, u32 clock) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %1, 0;\n@p st.global.u32 [%0], %1;\n}" ::"l"(s.to), "r"(clock) : "memory");
}

// What is launched next may begin at once, and read weights, sizes, inputs and keys of
// earlier runs: those are complete, because the first kernel behind the inputs begins when
// they are. It does not begin to wait before all blocks of this kernel have begun, and ends
// its wait when they have ended: so each of them must have waited itself.
__device__ __forceinline__ void grid_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ u32 smem_at(const void *p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ float warp_sum(float v) {
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}
__device__ __forceinline__ float warp_max(float v) {
  for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
  return v;
}
__device__ __forceinline__ double warp_sum(double v) {
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  return v;
}

// Sums over a block of up to 1024 threads; every thread gets the result.
template <class T> __device__ __forceinline__ T block_sum(T v) {
  __shared__ T part[32];
  v = warp_sum(v);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < (blockDim.x + 31) / 32 ? part[threadIdx.x % 32] : T(0);
  return warp_sum(v);
}
__device__ __forceinline__ float block_max(float v) {
  __shared__ float part[32];
  v = warp_max(v);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < (blockDim.x + 31) / 32 ? part[threadIdx.x % 32] : -INF;
  return warp_max(v);
}

// Storage types of weights, as package tensor numbers them.
enum { F32 = 0, F16 = 1, BF16 = 2, Q8_0 = 3, Q4_0 = 4, Q4_1 = 5, Q4_K = 10, Q6_K = 12 };

__device__ __forceinline__ u16 load16(const u8 *p) { return p[0] | p[1] << 8; }
__device__ __forceinline__ float half_at(const u8 *p) { return half_to_float(load16(p)); }

// Bytes of a row of n values.
__device__ __forceinline__ u64 row_bytes(int type, int n) {
  switch (type) {
  case F32: return (u64)n * 4;
  case F16:
  case BF16: return (u64)n * 2;
  case Q8_0: return (u64)n / 32 * 34;
  case Q4_0: return (u64)n / 32 * 18;
  case Q4_1: return (u64)n / 32 * 20;
  case Q4_K: return (u64)n / 256 * 144;
  }
  return (u64)n / 256 * 210;
}

// The six-bit scale and minimum of part j of a Q4_K block.
__device__ __forceinline__ void q4k_scale(const u8 *s, int j, int &d, int &m) {
  if (j < 4) {
    d = s[j] & 63;
    m = s[j + 4] & 63;
  } else {
    d = (s[j + 4] & 15) | (s[j - 4] >> 6 << 4);
    m = (s[j + 4] >> 4) | (s[j] >> 6 << 4);
  }
}

// Value i of a row.
__device__ __forceinline__ float value_at(int type, const u8 *row, int i) {
  switch (type) {
  case F32: return ((const float *)row)[i];
  case F16: return half_to_float(((const u16 *)row)[i]);
  case BF16: return bf16_to_float(((const u16 *)row)[i]);
  case Q8_0: {
    const u8 *b = row + i / 32 * 34;
    return half_at(b) * (signed char)b[2 + i % 32];
  }
  case Q4_0: {
    const u8 *b = row + i / 32 * 18;
    int c = b[2 + i % 16];
    return half_at(b) * ((i % 32 < 16 ? c & 15 : c >> 4) - 8);
  }
  case Q4_1: {
    const u8 *b = row + i / 32 * 20;
    int c = b[4 + i % 16];
    return half_at(b) * (i % 32 < 16 ? c & 15 : c >> 4) + half_at(b + 2);
  }
  case Q4_K: {
    const u8 *b = row + i / 256 * 144;
    int k = i % 256, d, m;
    q4k_scale(b + 4, k / 32, d, m);
    int c = b[16 + k / 64 * 32 + k % 32];
    return half_at(b) * d * (k / 32 % 2 ? c >> 4 : c & 15) - half_at(b + 2) * m;
  }
  case Q6_K: {
    const u8 *b = row + i / 256 * 210;
    int k = i % 256, h = k / 128, r = k % 128, l = r % 32;
    int low = b[h * 64 + (r / 32 % 2) * 32 + l], high = b[128 + h * 32 + l] >> (r / 32 * 2) & 3;
    int c = (r < 64 ? low & 15 : low >> 4) | high << 4;
    return half_at(b + 208) * (signed char)b[192 + h * 8 + r / 16] * (c - 32);
  }
  }
  return 0;
}

// Eight values of 16 bits.
template <int TYPE> __device__ __forceinline__ void unpack8(float *v, uint4 u) {
  u32 p[4] = {u.x, u.y, u.z, u.w};
  for (int e = 0; e < 4; e++) {
    v[2 * e] = TYPE == F16 ? half_to_float(p[e]) : bf16_to_float(p[e]);
    v[2 * e + 1] = TYPE == F16 ? half_to_float(p[e] >> 16) : bf16_to_float(p[e] >> 16);
  }
}

// Value i of rows that are f32, or bf16 where half is not 0.
__device__ __forceinline__ float value_of(const void *x, int half, u64 i) { return half ? bf16_to_float(((const u16 *)x)[i]) : ((const float *)x)[i]; }

// Four neighbours of such rows.
__device__ __forceinline__ float4 four_of(const void *x, int half, u64 i) {
  if (!half) return *(const float4 *)((const float *)x + i);
  uint2 u = *(const uint2 *)((const u16 *)x + i);
  return {bf16_to_float(u.x), bf16_to_float(u.x >> 16), bf16_to_float(u.y), bf16_to_float(u.y >> 16)};
}

// In is an operand: f32, or bf16 where half is not 0.
struct In {
  const void *p;
  int half;
};
// Out is where results go: f32, bf16, or both. 0: not there.
struct Out {
  float *f;
  u16 *h;
};
__device__ __forceinline__ float get(const In &x, u64 i) { return value_of(x.p, x.half, i); }
__device__ __forceinline__ void put(const Out &o, u64 i, float v) {
  if (o.h) o.h[i] = float_to_bf16(v);
  if (o.f) o.f[i] = v;
}

// What all kernels share. It is compiled in front of each file.
//
// Memory is a few large buffers, the slabs: those of a kernel are its first arguments. A
// pointer is a number, that of a slab, from 1, above 48 bits of an offset in bytes. So
// a kernel has few buffers among its arguments: each costs the host time per launch.
// Sizes that a run binds (T, S, R) lie in device memory, so that arguments never change.

typedef uchar u8;
typedef ushort u16;
typedef uint u32;
typedef ulong u64;

// real is a double where the device has it.
#ifdef DOUBLES
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double real;
#else
typedef float real;
#endif

#define KERNEL __kernel void
// A kernel whose groups have n work items: compilers keep its registers within that.
#define KERNEL_OF(n) __kernel __attribute__((reqd_work_group_size(n, 1, 1))) void
#define G __global
#define L __local

// SLABS declares the slabs, PTR an argument; AT makes a pointer of it; absent ones are
// null. Most kernels are compiled for a single slab (SLAB_COUNT).
#define PTR(type, name) u64 name##_place
#define SLAB_OFFSET(at) ((at) & 0xffffffffffffUL)
#if SLAB_COUNT == 1
#define SLABS G u8 *slab1
#define AT(type, name) G type *name = name##_place ? (G type *)(slab1 + SLAB_OFFSET(name##_place)) : (G type *)0
#else
#define SLABS G u8 *slab1, G u8 *slab2, G u8 *slab3, G u8 *slab4, G u8 *slab5, G u8 *slab6, G u8 *slab7, G u8 *slab8
#define AT(type, name) G type *name = (G type *)place(name##_place, slab1, slab2, slab3, slab4, slab5, slab6, slab7, slab8)
G u8 *place(u64 at, SLABS) {
  G u8 *slab = slab1;
  switch (at >> 48) {
  case 0: return 0;
  case 2: slab = slab2; break;
  case 3: slab = slab3; break;
  case 4: slab = slab4; break;
  case 5: slab = slab5; break;
  case 6: slab = slab6; break;
  case 7: slab = slab7; break;
  case 8: slab = slab8; break;
  }
  return slab + SLAB_OFFSET(at);
}
#endif

#define GROUP ((u64)get_group_id(0))
#define GROUPS ((u64)get_num_groups(0))
#define LANE ((int)get_local_id(0))
#define LANES ((int)get_local_size(0))

// Dim is a size: mul * bind[sym-1] + add, or add where sym is 0.
typedef struct {
  int sym, mul, add;
} Dim;

int size(Dim d, G const int *bind) { return d.sym ? d.mul * bind[d.sym - 1] + d.add : d.add; }

// Every element of rows x cols, in a stride of the grid.
#define BIND PTR(const int, bind), Dim rows, int cols
#define EACH(i) for (u64 i = get_global_id(0), n_ = (u64)size(rows, bind) * cols; i < n_; i += get_global_size(0))

#define MOST 256 // lanes of a group that computes rows

// The sequence that row t belongs to.
int sequence_of(G const int *start, int seqs, int t) {
  int lo = 0, hi = seqs;
  while (hi - lo > 1) {
    int mid = (lo + hi) / 2;
    if (start[mid] <= t) lo = mid;
    else hi = mid;
  }
  return lo;
}

// Sums and maxima over a group, whose size is a power of two from 32 on; everybody
// gets the result. part has a place per lane.
#ifdef WARPS // NVIDIA's subgroups, of 32 lanes, which have no extension
float warp_other(float v, int distance) {
  float w;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(w) : "f"(v), "r"(distance));
  return w;
}
float sub_group_reduce_add(float v) {
  for (int d = 16; d > 0; d /= 2) v += warp_other(v, d);
  return v;
}
float sub_group_reduce_max(float v) {
  for (int d = 16; d > 0; d /= 2) v = fmax(v, warp_other(v, d));
  return v;
}
#define get_sub_group_local_id() (LANE % 32)
#define get_sub_group_id() (LANE / 32)
#define get_num_sub_groups() (LANES / 32)
#define SUBGROUPS
#elif defined(SUBGROUPS)
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#endif
#ifdef SUBGROUPS
#define OVER_GROUP(name, none, JOIN, REDUCE)                                                                  \
  float name(float v, L float *part) {                                                                        \
    v = REDUCE(v);                                                                                            \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                             \
    if (get_sub_group_local_id() == 0) part[get_sub_group_id()] = v;                                          \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                             \
    v = none;                                                                                                 \
    for (int e = 0; e < (int)get_num_sub_groups(); e++) v = JOIN(v, part[e]);                                 \
    return v;                                                                                                 \
  }
#else
#define OVER_GROUP(name, none, JOIN, REDUCE)                                                                  \
  float name(float v, L float *part) {                                                                        \
    int i = LANE;                                                                                             \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                             \
    part[i] = v;                                                                                              \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                             \
    v = none;                                                                                                 \
    if (i < 16)                                                                                               \
      for (int e = i; e < LANES; e += 16) v = JOIN(v, part[e]);                                               \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                             \
    if (i < 16) part[i] = v;                                                                                  \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                             \
    v = none;                                                                                                 \
    for (int e = 0; e < 16; e++) v = JOIN(v, part[e]);                                                        \
    return v;                                                                                                 \
  }
#endif
#define PLUS(a, b) ((a) + (b))
OVER_GROUP(group_sum, 0, PLUS, sub_group_reduce_add)
OVER_GROUP(group_max, -INFINITY, fmax, sub_group_reduce_max)

float half_to_float(G const u8 *p) { return vload_half(0, (G const half *)p); }

float bf16_to_float(u16 h) { return as_float((u32)h << 16); }
float round_bf16(float f) {
  u32 u = as_uint(f);
  if ((u & 0x7fffffff) > 0x7f800000) return f;
  return as_float((u + 0x7fff + (u >> 16 & 1)) & 0xffff0000);
}

// Storage types of weights, as package tensor numbers them.
#define F32 0
#define F16 1
#define BF16 2
#define Q8_0 3
#define Q4_0 4
#define Q4_1 5
#define Q4_K 10
#define Q6_K 12

// Bytes of a row of n values.
u64 row_bytes(int type, int n) {
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
int2 q4k_scale(G const u8 *s, int j) {
  if (j < 4) return (int2)(s[j] & 63, s[j + 4] & 63);
  return (int2)((s[j + 4] & 15) | (s[j - 4] >> 6 << 4), (s[j + 4] >> 4) | (s[j] >> 6 << 4));
}

// Value i of a row.
float value_at(int type, G const u8 *row, int i) {
  switch (type) {
  case F32: return ((G const float *)row)[i];
  case F16: return vload_half(i, (G const half *)row);
  case BF16: return bf16_to_float(((G const u16 *)row)[i]);
  case Q8_0: {
    G const u8 *b = row + i / 32 * 34;
    return half_to_float(b) * (char)b[2 + i % 32];
  }
  case Q4_0: {
    G const u8 *b = row + i / 32 * 18;
    int c = b[2 + i % 16];
    return half_to_float(b) * ((i % 32 < 16 ? c & 15 : c >> 4) - 8);
  }
  case Q4_1: {
    G const u8 *b = row + i / 32 * 20;
    int c = b[4 + i % 16];
    return half_to_float(b) * (i % 32 < 16 ? c & 15 : c >> 4) + half_to_float(b + 2);
  }
  case Q4_K: {
    G const u8 *b = row + i / 256 * 144;
    int k = i % 256;
    int2 s = q4k_scale(b + 4, k / 32);
    int c = b[16 + k / 64 * 32 + k % 32];
    return half_to_float(b) * s.x * (k / 32 % 2 ? c >> 4 : c & 15) - half_to_float(b + 2) * s.y;
  }
  case Q6_K: {
    G const u8 *b = row + i / 256 * 210;
    int k = i % 256, h = k / 128, r = k % 128, l = r % 32;
    int low = b[h * 64 + (r / 32 % 2) * 32 + l], high = b[128 + h * 32 + l] >> (r / 32 * 2) & 3;
    int c = (r < 64 ? low & 15 : low >> 4) | high << 4;
    return half_to_float(b + 208) * (char)b[192 + h * 8 + r / 16] * (c - 32);
  }
  }
  return 0;
}

// 8 bytes of a block that begins at an even address.
uint2 bytes8(G const u8 *p) {
  G const u16 *h = (G const u16 *)p;
  return (uint2)(h[0] | (u32)h[1] << 16, h[2] | (u32)h[3] << 16);
}

// Bytes as numbers. A float of 2^23 plus a byte has the byte in its last bits, which
// is faster than a conversion on most devices.
float8 floats(uint2 bytes) { return as_float8(convert_uint8(as_uchar8(bytes)) | (uint8)0x4b000000) - 8388608.0f; }

// Values 8i to 8i+7 of a row whose length is a multiple of 8; such rows begin at
// multiples of 16 bytes where values are not in blocks.
float8 part8(int type, G const u8 *row, int i) {
  switch (type) {
  case F32: return (float8)(((G const float4 *)row)[2 * i], ((G const float4 *)row)[2 * i + 1]);
  case F16: return vloada_half8(i, (G const half *)row);
  case BF16: return as_float8(convert_uint8(((G const ushort8 *)row)[i]) << 16);
  case Q8_0: {
    G const u8 *b = row + i / 4 * 34;
    return half_to_float(b) * (floats(bytes8(b + 2 + i % 4 * 8) ^ (uint2)0x80808080) - 128.0f);
  }
  case Q4_0: {
    G const u8 *b = row + i / 4 * 18;
    return half_to_float(b) * (floats(bytes8(b + 2 + i % 2 * 8) >> (uint2)(i % 4 < 2 ? 0 : 4) & (uint2)0x0f0f0f0f) - 8.0f);
  }
  case Q4_1: {
    G const u8 *b = row + i / 4 * 20;
    G const u32 *c = (G const u32 *)(b + 4 + i % 2 * 8);
    return half_to_float(b) * floats((uint2)(c[0], c[1]) >> (uint2)(i % 4 < 2 ? 0 : 4) & (uint2)0x0f0f0f0f) + half_to_float(b + 2);
  }
  case Q4_K: {
    G const u8 *b = row + i / 32 * 144;
    int part = i % 32 / 4;
    int2 s = q4k_scale(b + 4, part);
    uint2 c = *(G const uint2 *)(b + 16 + part / 2 * 32 + i % 4 * 8);
    return half_to_float(b) * s.x * floats(c >> (uint2)(part % 2 ? 4 : 0) & (uint2)0x0f0f0f0f) - half_to_float(b + 2) * s.y;
  }
  }
  G const u8 *b = row + i / 32 * 210; // Q6_K
  int k = i % 32 * 8, h = k / 128, r = k % 128, l = r % 32;
  uint2 low = bytes8(b + h * 64 + r / 32 % 2 * 32 + l) >> (uint2)(r < 64 ? 0 : 4) & (uint2)0x0f0f0f0f;
  uint2 high = bytes8(b + 128 + h * 32 + l) >> (uint2)(r / 32 * 2) & (uint2)0x03030303;
  return half_to_float(b + 208) * (char)b[192 + h * 8 + r / 16] * (floats(low | high << (uint2)4) - 32.0f);
}

float sum8(float8 a) {
  float4 b = a.lo + a.hi;
  return b.x + b.y + (b.z + b.w);
}

float dot8(float8 a, float8 b) { return sum8(a * b); }

// A row against weights in blocks of 32 codes (Q8_0, Q4_0, Q4_1), on integers. The row is
// rounded to 15 bits per block of 32, as the sum of two planes of 8 bits; four codes
// are multiplied with four values of one plane at a time.

// The products of four signed bytes, added to c.
#if defined(DOT_KHR)
#pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable
int dot4(u32 a, u32 b, int c) { return c + dot_4x8packed_ss_int(a, b); }
#elif defined(DOT_PTX)
int dot4(u32 a, u32 b, int c) {
  int d;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
#else
int dot4(u32 a, u32 b, int c) {
  int4 p = convert_int4(as_char4(a)) * convert_int4(as_char4(b));
  return c + p.x + p.y + (p.z + p.w);
}
#endif

// Row is a row in local memory: high and low bytes of its values, four per word; per
// block its unit; per half of a block the sum of its values in units. Half i has values
// 8i to 8i+7 and 16+8i to 16+8i+7 of a block: those of 8 bytes of 4-bit codes.
typedef struct {
  L u32 *high, *low;
  L float *unit;
  L int *sums;
} Row;

// Rounds values i to i+3 of a row of floats. The lane of the first values of a half adds
// that half up.
void put_codes(Row x, L const float *xs, int i) {
  L const float *block = xs + i / 32 * 32;
  float most = 0;
  for (int e = 0; e < 32; e += 4) {
    float4 v = fabs(*(L const float4 *)(block + e));
    most = fmax(most, fmax(fmax(v.x, v.y), fmax(v.z, v.w)));
  }
  const float range = 127 * 256;
  float inverse = most > 0 ? range / most : 0;
  int4 q = convert_int4_rte(*(L const float4 *)(xs + i) * inverse), h = (q + 128) >> 8 & 255, l = q & 255;
  x.high[i / 4] = (u32)(h.x | h.y << 8 | h.z << 16 | h.w << 24);
  x.low[i / 4] = (u32)(l.x | l.y << 8 | l.z << 16 | l.w << 24);
  if (i % 32 == 0) x.unit[i / 32] = most / range;
  if (i % 8 == 0 && i % 32 < 16) {
    int sum = 0;
    for (int e = 0; e < 8; e += 4) {
      int4 a = convert_int4_rte(*(L const float4 *)(xs + i + e) * inverse), b = convert_int4_rte(*(L const float4 *)(xs + i + 16 + e) * inverse);
      a += b;
      sum += a.x + a.y + (a.z + a.w);
    }
    x.sums[i / 32 * 2 + i % 32 / 8] = sum;
  }
}

// Codes are half a block: its scale, its minimum and its codes, of 4 bits in two words.
typedef struct {
  float scale, least;
  uint4 words;
} Codes;

// Half i of a row of weights.
Codes codes_at(G const u8 *row, int i) {
  Codes c;
  c.least = 0;
#if TYPE == Q8_0
  G const u8 *b = row + i / 2 * 34, *at = b + 2 + i % 2 * 16;
  c.words = (uint4)(bytes8(at), bytes8(at + 8));
#elif TYPE == Q4_0
  G const u8 *b = row + i / 2 * 18;
  c.words = (uint4)(bytes8(b + 2 + i % 2 * 8), 0, 0);
#else
  G const u8 *b = row + i / 2 * 20;
  G const u32 *at = (G const u32 *)(b + 4 + i % 2 * 8);
  c.words = (uint4)(at[0], at[1], 0, 0);
  c.least = half_to_float(b + 2);
#endif
  c.scale = half_to_float(b);
  return c;
}

// The product of half i of a row of weights with that of x.
float dot_codes(Codes c, Row x, int i) {
  int high = 0, low = 0, at = i / 2 * 8;
  float unit = x.unit[i / 2];
#if TYPE == Q8_0
  at += i % 2 * 4;
  high = dot4(c.words.x, x.high[at], dot4(c.words.y, x.high[at + 1], dot4(c.words.z, x.high[at + 2], dot4(c.words.w, x.high[at + 3], 0))));
  low = dot4(c.words.x, x.low[at], dot4(c.words.y, x.low[at + 1], dot4(c.words.z, x.low[at + 2], dot4(c.words.w, x.low[at + 3], 0))));
  return c.scale * (unit * (high * 256 + low));
#else
  at += i % 2 * 2;
  uint2 first = c.words.lo & (uint2)0x0f0f0f0f, second = c.words.lo >> (uint2)4 & (uint2)0x0f0f0f0f;
  high = dot4(first.x, x.high[at], dot4(first.y, x.high[at + 1], dot4(second.x, x.high[at + 4], dot4(second.y, x.high[at + 5], 0))));
  low = dot4(first.x, x.low[at], dot4(first.y, x.low[at + 1], dot4(second.x, x.low[at + 4], dot4(second.y, x.low[at + 5], 0))));
  int sum = x.sums[i];
#if TYPE == Q4_0
  return c.scale * (unit * (high * 256 + low - 8 * sum));
#else
  return c.scale * (unit * (high * 256 + low)) + c.least * (unit * sum);
#endif
#endif
}

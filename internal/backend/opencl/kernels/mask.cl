// Mask is who sees whom, and what softmax sees of a score.
typedef struct {
  int heads, kv_heads, head, causal, window;
  float scale, cap;
  int alibi;
} Mask;

int2 visible(Mask a, int pos, int keys) {
  int lo = 0, hi = keys;
  if (a.causal) hi = min(hi, pos + 1);
  if (a.window > 0) lo = max(lo, pos - a.window + 1), hi = min(hi, pos + a.window);
  return (int2)(lo, max(lo, hi));
}

float final_score(Mask a, float dot_, float slope, int j) {
  float s = a.scale * dot_;
  if (a.alibi) s += round_bf16(slope * round_bf16((float)j)) * a.scale;
  return a.cap > 0 ? a.cap * tanh(s / a.cap) : s;
}

// The column of the bias by distance of a pair; relcols is odd.
int rel_at(int relcols, int i, int j) {
  int reach = (relcols - 1) / 2;
  return min(max(j - i, -reach), reach) + reach;
}

// What kernels of attention take: keys of a sequence lie one after the other, or in
// a cache of TYPE, by blocks of a table. lse and rel, the bias by distance, may be
// absent.
#define ATTENTION                                                                                             \
  PTR(const int, bind), Dim drows, Dim dseqs, Mask a, PTR(const float, slopes), PTR(float, out), PTR(float, lse), PTR(const float, q), PTR(const u8, k), PTR(const u8, v), \
      PTR(const int, start), PTR(const int, kv_len), PTR(const int, table), int blocks, int block, PTR(const float, rel), int relcols
#define ATTENTION_AT                                                                                          \
  AT(const int, bind); AT(const float, slopes); AT(float, out); AT(float, lse); AT(const float, q); AT(const u8, k); AT(const u8, v);                                     \
  AT(const int, start); AT(const int, kv_len); AT(const int, table); AT(const float, rel)

// The row of key j of sequence s, which begins at row q0.
#define KEY_ROW(s, q0, j) (table ? (u64)table[(u64)(s)*blocks + (j) / block] * block + (j) % block : (u64)((q0) + (j)))

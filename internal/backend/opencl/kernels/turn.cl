// Rotation of pairs of a head.

// Turn is how heads rotate, as graph.RopeAttr says. stretch is not 0 for the dynamic
// rope, which computes its frequencies.
typedef struct {
  int head, rot, interleaved, inverse;
  float magnitude;
  int context;
  float stretch;
} Turn;

// Sine and cosine of pair p of token t. freqs has a row of rot/2 frequencies for
// short texts and one for long ones, in turns per position as fractions of 64 bits:
// their product with the position is exact where it counts, without doubles.
float2 angle(Turn a, G const u64 *freqs, G const int *pos, G const int *length, int t, int p) {
  int half_ = a.rot / 2, len = length ? length[t] : 0, far = a.context > 0 && len > a.context;
  u64 f = freqs[far ? half_ + p : p];
  if (a.stretch > 0 && far && a.rot > 2) {
    real grown = (real)a.stretch * len / a.context - (a.stretch - 1);
    f = (u64)((real)f * pow(grown, (real)a.rot / (a.rot - 2) * (-2 * (real)p / a.rot)));
  }
  // The fraction of a turn, from -1/2 to 1/2.
  float turn = (float)((long)((u64)(long)pos[t] * f)) * 5.421010862427522e-20f;
  float sn = sinpi(2 * turn) * a.magnitude;
  return (float2)(a.inverse ? -sn : sn, cospi(2 * turn) * a.magnitude);
}

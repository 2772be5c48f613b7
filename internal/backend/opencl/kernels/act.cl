// Activations, as package graph numbers them.
enum { GELU, GELU_TANH, QUICK_GELU, SILU, RELU, TANH, SIGMOID };

float logistic(float x) { return 1 / (1 + exp(-x)); }
float normal_cdf(float x) { return 0.5f * erfc(-0.7071067811865476f * x); }

float act(int kind, float x) {
  switch (kind) {
  case GELU: return x * normal_cdf(x);
  case GELU_TANH: return x / 2 * (1 + tanh(0.7978845608028654f * (x + 0.044715f * x * x * x)));
  case QUICK_GELU: return x * logistic(1.702f * x);
  case SILU: return x * logistic(x);
  case RELU: return fmax(x, 0.0f);
  case TANH: return tanh(x);
  }
  return logistic(x);
}

float act_slope(int kind, float x) {
  switch (kind) {
  case GELU: return normal_cdf(x) + x * exp(-x * x / 2) * 0.3989422804014327f;
  case GELU_TANH: {
    float t = tanh(0.7978845608028654f * (x + 0.044715f * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * 0.7978845608028654f * (1 + 3 * 0.044715f * x * x);
  }
  case QUICK_GELU: {
    float s = logistic(1.702f * x);
    return s + 1.702f * x * s * (1 - s);
  }
  case SILU: {
    float s = logistic(x);
    return s + x * s * (1 - s);
  }
  case RELU: return x > 0 ? 1 : 0;
  case TANH: {
    float t = tanh(x);
    return 1 - t * t;
  }
  }
  float s = logistic(x);
  return s * (1 - s);
}

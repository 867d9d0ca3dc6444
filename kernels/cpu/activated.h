// Activations and their slopes over F and Wide. Included by the kernels that need them, within
// FORGE_ISA: no include guard.
namespace forge::FORGE_ISA {

FORGE_INLINE Wide exp(Wide x) { return {exp(x.a), exp(x.b)}; }
FORGE_INLINE Wide reciprocal(Wide x) { return {reciprocal(x.a), reciprocal(x.b)}; }
FORGE_INLINE Wide min(F x, Wide y) { return {min(x, y.a), min(x, y.b)}; }

// f(x) and f'(x).
template <class V>
struct Activated {
  V value, slope;
};

// x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))
template <class V>
FORGE_INLINE Activated<V> gelu_by_tanh(V x) {
  constexpr float kRoot = 0.7978845608028654f, kCubic = 0.044715f;
  F one = set(1.0f);
  V square = x * x;
  V t = tanh(set(kRoot) * fma(square * x, set(kCubic), x));
  V half = set(0.5f) * (one + t);
  V inner = set(kRoot) * fma(square, set(3 * kCubic), one);
  // Past |x| = 12, 1 ∓ t is zero in fp32 and its product with the cube's slope is not, so the
  // product is set to zero there.
  V tail = less(abs(x), set(12.0f), set(0.5f) * x * (one - t * t) * inner, set(0.0f));
  V value = less(x, set(-12.0f), set(0.0f), x * half);
  return {value, half + tail};
}

// x Φ(x). 1 − Φ(|x|) is Abramowitz & Stegun's 7.1.26, a polynomial of 1 / (1 + p |x|) times the
// density, to an absolute 7.5e-8.
template <class V>
FORGE_INLINE Activated<V> gelu(V x) {
  constexpr float kP = 0.3275911f * 0.70710678f, kDensity = 0.3989422804f;
  F one = set(1.0f);
  V size = abs(x);
  V e = exp(set(-0.5f) * (x * x));
  V t = reciprocal(fma(min(set(30.0f), size), set(kP), one));
  V p = fma(t, set(1.061405429f), set(-1.453152027f));
  p = fma(p, t, set(1.421413741f));
  p = fma(p, t, set(-0.284496736f));
  p = fma(p, t, set(0.254829592f));
  V tail = set(0.5f) * p * t * e;
  V phi = less(x, set(0.0f), tail, one - tail);
  // Past |x| = 13 the density is zero in fp32, and its product with an infinity is not.
  V slope = less(size, set(13.0f), x * e * set(kDensity), set(0.0f));
  return {less(x, set(-13.0f), set(0.0f), x * phi), phi + slope};
}

// max(x, 0)²
template <class V>
FORGE_INLINE Activated<V> squared_relu(V x) {
  V positive = max(set(0.0f), x);
  return {positive * positive, positive + positive};
}

// x between −limit and limit. NaN stays.
template <class V>
FORGE_INLINE Activated<V> bounded(V x, float limit) {
  return {max(set(-limit), min(set(limit), x)), less(set(limit), abs(x), set(0.0f), set(1.0f))};
}

}  // namespace forge::FORGE_ISA

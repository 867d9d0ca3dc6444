// Functions over F, the vector of the instruction set at hand. Included by each_isa.h after
// simd_<set>.h.
namespace forge::FORGE_ISA {

// to[j, i] = from[i, j] of 4 × 4.
FORGE_INLINE void transpose4(const float* from, int64_t ld, float* to, int64_t to_ld) {
#if defined(__x86_64__)
  __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + ld), c = _mm_loadu_ps(from + 2 * ld),
         d = _mm_loadu_ps(from + 3 * ld);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(to, a), _mm_storeu_ps(to + to_ld, b);
  _mm_storeu_ps(to + 2 * to_ld, c), _mm_storeu_ps(to + 3 * to_ld, d);
#else
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) to[j * to_ld + i] = from[i * ld + j];
#endif
}
// body(i, n) for i = 0, kStep, …; n is kStep but for the last. In the main loop n is a constant, so
// load_n and store_n lose their branch.
template <int kStep, class Body>
FORGE_INLINE void for_steps(int64_t count, Body body) {
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) body(i, kStep);
  if (i < count) body(i, static_cast<int>(count - i));
}
template <class Body>
FORGE_INLINE void for_lanes(int64_t count, Body body) {
  for_steps<kLanes>(count, body);
}
// sums[i] = sum of all lanes of v[i].
template <int N>
FORGE_INLINE void sums_of(const F (&v)[N], float* sums) {
  for (int i = 0; i < N; ++i) sums[i] = sum(v[i]);
}
template <class T>
FORGE_INLINE F load_n(const T* p, int n) {
  return n == kLanes ? load(p) : load_part(p, n);
}
template <class T>
FORGE_INLINE void store_n(T* p, F x, int n) {
  if (n == kLanes)
    store(p, x);
  else
    store_part(p, x, n);
}
FORGE_INLINE void transpose_square(std::integral_constant<int, 4>, const float* from, int64_t ld, float* to, int64_t to_ld) {
  transpose4(from, ld, to, to_ld);
}
// to[j, i] = from[i, j], [rows, columns], in fp32. Rows and columns of `to` up to whole squares
// become zero.
template <class T>
FORGE_INLINE void transpose(const T* from, int64_t ld, int64_t rows, int64_t columns, float* to, int64_t to_ld) {
  constexpr std::integral_constant<int, kSquare> kSide{};
  for (int64_t i = 0; i < rows; i += kSquare)
    for (int64_t j = 0; j < columns; j += kSquare) {
      const T* square = from + i * ld + j;
      float* turned = to + j * to_ld + i;
      const int64_t high = std::min<int64_t>(kSquare, rows - i), wide = std::min<int64_t>(kSquare, columns - j);
      if constexpr (requires { transpose_square(kSide, square, ld, turned, to_ld); })
        if (high == kSquare && wide == kSquare) {
          transpose_square(kSide, square, ld, turned, to_ld);
          continue;
        }
      alignas(64) float part[kSquare * kSquare] = {};
      for (int64_t r = 0; r < high; ++r)
        if constexpr (kSquare == kLanes)
          store(part + r * kSquare, load_n(square + r * ld, static_cast<int>(wide)));
        else
          for (int64_t c = 0; c < wide; ++c) part[r * kSquare + c] = to_float(square[r * ld + c]);
      transpose_square(kSide, part, kSquare, turned, to_ld);
    }
}

// eˣ to 2 units of the last place: x = n ln 2 + r with |r| ≤ ln 2 / 2, a Taylor-like polynomial of
// degree 6 in r (Cephes expf). Infinite above 88.72, NaN stays; 0 below −87.3, where the result
// would be subnormal: processors take a hundred cycles and more to make one.
FORGE_INLINE F exp(F x) {
  const F lowest = set(-87.3f), given = x;
  x = max(lowest, min(set(89.0f), x));
  F n = round(x * set(1.44269504088896341f));
  F r = fma(n, set(-0.693359375f), x);
  r = fma(n, set(2.12194440e-4f), r);
  F p = set(1.9875691500e-4f);
  p = fma(p, r, set(1.3981999507e-3f));
  p = fma(p, r, set(8.3334519073e-3f));
  p = fma(p, r, set(4.1665795894e-2f));
  p = fma(p, r, set(1.6666665459e-1f));
  p = fma(p, r, set(5.0000001201e-1f));
  return less(given, lowest, set(0.0f), scale2(fma(p, r * r, r) + set(1.0f), n));
}
// eˣ of a softmax: to 2 units of the last place for x < 87, e⁻⁸⁶·⁶ for all below it, NaN stays. x /
// ln 2 = n + r as in one_plus_exp_near; 2^r is a minimax polynomial of degree 5.
FORGE_INLINE F exp_of_weight(F x) {
  const F factor = set(1.44269504088896341f), whole = set(12582912.0f + 127);
  x = max(set(-86.6f), x);
  F n = fma(x, factor, whole), r = fma(x, factor, whole - n);
  F p = set(1.326472718e-3f);
  p = fma(p, r, set(9.671512641e-3f));
  p = fma(p, r, set(5.550733743e-2f));
  p = fma(p, r, set(2.402224209e-1f));
  p = fma(p, r, set(6.931469776e-1f));
  return fma(p, r, set(1.0f)) * power_of_low_bits(n);
}
// e⁸⁷ is the largest whose reciprocal is still normal.
FORGE_INLINE F sigmoid(F x) { return reciprocal(set(1.0f) + exp(min(set(87.0f), set(0.0f) - x))); }
// 1 + e⁻ˣ to 3e-6, enough where the result is rounded to 16 bits; 1 + e^±87 past ±87, and for a NaN
// some number. −x / ln 2 is rounded to a whole n by adding a number whose last bit counts ones and
// whose low bits are 127, so that the sum's low bits are the exponent of 2ⁿ; 2^r for |r| ≤ 1/2 is
// the minimax polynomial of degree 4.
FORGE_INLINE F one_plus_exp_near(F x) {
  const F bounded = clamp_to(x, 87.0f), factor = set(-1.44269504088896341f), whole = set(12582912.0f + 127);
  F n = fma(bounded, factor, whole);
  F r = fma(bounded, factor, whole - n);
  F p = set(9.57010191e-3f);
  p = fma(p, r, set(5.59178603e-2f));
  p = fma(p, r, set(2.40247448e-1f));
  p = fma(p, r, set(6.93121815e-1f));
  p = fma(p, r, set(9.99999261e-1f));
  return fma(p, power_of_low_bits(n), set(1.0f));
}
// Accurate to 3e-6; 1 / (1 + e⁸⁷) and the reverse past ±87, some number for a NaN.
FORGE_INLINE F sigmoid_near(F x) { return reciprocal(one_plus_exp_near(x)); }
// Accurate to 3 units of the last place: 1 − 2 / (e²ˣ + 1), or Cephes' odd polynomial where that
// subtraction would cancel.
FORGE_INLINE F tanh(F x) {
  const F large = set(1.0f) - set(2.0f) * reciprocal(exp(min(set(87.0f), x + x)) + set(1.0f)), square = x * x;
  F p = set(-5.70498872745e-3f);
  p = fma(p, square, set(2.06390887954e-2f));
  p = fma(p, square, set(-5.37397155531e-2f));
  p = fma(p, square, set(1.33314422036e-1f));
  p = fma(p, square, set(-3.33332819422e-1f));
  return less(abs(x), set(0.625f), fma(p * square, x, x), large);
}

}  // namespace forge::FORGE_ISA

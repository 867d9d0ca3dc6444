// Eight fp32 lanes. The same names as simd_avx512.h, which has the comments.
namespace forge::FORGE_ISA {

constexpr int kLanes = 8;
constexpr int kTileRows = 6, kTileVectors = 2;

struct F {
  __m256 v;
};

FORGE_INLINE F set(float x) { return {_mm256_set1_ps(x)}; }
FORGE_INLINE F load(const float* p) { return {_mm256_loadu_ps(p)}; }
FORGE_INLINE F load(const Bf16* p) {
  __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
}
FORGE_INLINE F load(const F16* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}

FORGE_INLINE void store(float* p, F x) { _mm256_storeu_ps(p, x.v); }
FORGE_INLINE void store(Bf16* p, F x) {
  __m256i bits = _mm256_castps_si256(x.v);
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x.v, x.v, _CMP_UNORD_Q));
  __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
  __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(high, high), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
}
FORGE_INLINE void store(F16* p, F x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT));
}

template <class T>
FORGE_INLINE F load_part(const T* p, int n) {
  T buffer[kLanes] = {};
  std::memcpy(buffer, p, static_cast<size_t>(n) * sizeof(T));
  return load(buffer);
}
template <class T>
FORGE_INLINE void store_part(T* p, F x, int n) {
  T buffer[kLanes];
  store(buffer, x);
  std::memcpy(p, buffer, static_cast<size_t>(n) * sizeof(T));
}

FORGE_INLINE F operator+(F a, F b) { return {_mm256_add_ps(a.v, b.v)}; }
FORGE_INLINE F operator-(F a, F b) { return {_mm256_sub_ps(a.v, b.v)}; }
FORGE_INLINE F operator*(F a, F b) { return {_mm256_mul_ps(a.v, b.v)}; }
FORGE_INLINE F operator/(F a, F b) { return {_mm256_div_ps(a.v, b.v)}; }
FORGE_INLINE F fma(F a, F b, F c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
// The estimate has 12 bits here; one step of Newton would leave four units.
FORGE_INLINE F reciprocal(F a) { return {_mm256_div_ps(_mm256_set1_ps(1.0f), a.v)}; }
FORGE_INLINE F sqrt(F a) { return {_mm256_sqrt_ps(a.v)}; }
FORGE_INLINE F max(F a, F b) { return {_mm256_max_ps(a.v, b.v)}; }
FORGE_INLINE F min(F a, F b) { return {_mm256_min_ps(a.v, b.v)}; }
FORGE_INLINE F round(F a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
FORGE_INLINE F abs(F a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
FORGE_INLINE F less(F a, F b, F x, F y) {
  return {_mm256_blendv_ps(y.v, x.v, _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ))};
}
FORGE_INLINE F power2(F n) {
  return {_mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127)), 23))};
}
// In two factors: neither leaves the normal range for |n| ≤ 250.
FORGE_INLINE F scale2(F x, F n) {
  F half = round(n * set(0.5f));
  return x * power2(half) * power2(n - half);
}
FORGE_INLINE float sum(F a) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
FORGE_INLINE float max_of(F a) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

}  // namespace forge::FORGE_ISA

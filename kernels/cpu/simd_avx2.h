// Eight fp32 lanes, with the names of simd_avx512.h, which has the comments.
namespace forge::FORGE_ISA {

constexpr int kLanes = 8;
constexpr int kTileRows = 6, kTileVectors = 2;
constexpr int kNarrowTileRows = 12;
constexpr int kSquare = 4;

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
FORGE_INLINE __m256i rounded_up(F x) {
  __m256i bits = _mm256_castps_si256(x.v);
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  return _mm256_blendv_epi8(rounded, bits, _mm256_castps_si256(_mm256_cmp_ps(x.v, x.v, _CMP_UNORD_Q)));
}
FORGE_INLINE void store(Bf16* p, F x) {
  __m256i high = _mm256_srli_epi32(rounded_up(x), 16);
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
FORGE_INLINE F keep_first(F x, int64_t n, F other) {
  const __m256i lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  __m256i kept = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane);
  return {_mm256_blendv_ps(other.v, x.v, _mm256_castsi256_ps(kept))};
}
FORGE_INLINE F power2(F n) {
  return {_mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127)), 23))};
}
// Scales in two factors: neither leaves the normal range for |n| ≤ 250.
FORGE_INLINE F scale2(F x, F n) {
  F half = round(n * set(0.5f));
  return x * power2(half) * power2(n - half);
}
FORGE_INLINE F power_of_low_bits(F n) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(n.v), 23))};
}
FORGE_INLINE F clamp_to(F x, float limit) { return max(set(-limit), min(set(limit), x)); }
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

FORGE_INLINE F look_up(const float* table, const uint8_t* codes) {
  __m256i index = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
  return {_mm256_i32gather_ps(table, index, 4)};
}
FORGE_INLINE SixteenCodes two_halves(__m256i low, __m256i high) {
  const __m256i halves[] = {low, high};
  SixteenCodes codes;
  std::memcpy(&codes, halves, sizeof codes);
  return codes;
}
FORGE_INLINE __m128i eight_bytes(const uint8_t* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }
FORGE_INLINE SixteenCodes codes_at(const uint8_t* p) {
  return two_halves(_mm256_cvtepu8_epi32(eight_bytes(p)), _mm256_cvtepu8_epi32(eight_bytes(p + 8)));
}
FORGE_INLINE SixteenCodes signed_at(const uint8_t* p) {
  return two_halves(_mm256_cvtepi8_epi32(eight_bytes(p)), _mm256_cvtepi8_epi32(eight_bytes(p + 8)));
}
// A permutation looks at three bits of a lane, and bit 3 chooses between both halves of the table.
FORGE_INLINE Sixteen pick(const Sixteen& table, const SixteenCodes& codes) {
  __m256 half[2], picked[2];
  __m256i index[2];
  std::memcpy(half, &table, sizeof half), std::memcpy(index, &codes, sizeof index);
  for (int i = 0; i < 2; ++i)
    picked[i] = _mm256_blendv_ps(_mm256_permutevar8x32_ps(half[0], index[i]), _mm256_permutevar8x32_ps(half[1], index[i]),
                                 _mm256_castsi256_ps(_mm256_slli_epi32(index[i], 28)));
  Sixteen result;
  std::memcpy(&result, picked, sizeof result);
  return result;
}
FORGE_INLINE float half(F16 x) { return _cvtsh_ss(x.bits); }
FORGE_INLINE Sixteen sixteen_times(float x) { return Sixteen{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
FORGE_INLINE Sixteen sixteen_times(F16 x) { return sixteen_times(half(x)); }
FORGE_INLINE Sixteen sixteen_halves(const uint8_t* p) {
  const __m256 halves[] = {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
                           _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16)))};
  Sixteen result;
  std::memcpy(&result, halves, sizeof result);
  return result;
}
FORGE_INLINE Words words_at(const uint8_t* p) {
  return (Words)two_halves(_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
                           _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16))));
}
FORGE_INLINE SixteenCodes dots_of_pairs(const Words& a, const Words& b) {
  __m256i of_a[2], of_b[2];
  std::memcpy(of_a, &a, sizeof of_a), std::memcpy(of_b, &b, sizeof of_b);
  return two_halves(_mm256_madd_epi16(of_a[0], of_b[0]), _mm256_madd_epi16(of_a[1], of_b[1]));
}
FORGE_INLINE void four_halves(uint64_t bits, float (&to)[4]) {
  _mm_storeu_ps(to, _mm_cvtph_ps(_mm_cvtsi64_si128(static_cast<int64_t>(bits))));
}
FORGE_INLINE void look_up_cells(const int32_t* code, const float* border, int32_t first, int32_t negative,
                                F x, uint8_t* codes) {
  __m256i bits = _mm256_castps_si256(x.v);
  __m256i half = _mm256_srli_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff)), 16);
  __m256i cell = _mm256_max_epi32(_mm256_sub_epi32(half, _mm256_set1_epi32(first)), _mm256_setzero_si256());
  cell = _mm256_add_epi32(cell, _mm256_and_si256(_mm256_srai_epi32(bits, 31), _mm256_set1_epi32(negative)));
  __m256 above = _mm256_cmp_ps(x.v, _mm256_i32gather_ps(border, cell, 4), _CMP_GT_OQ);  // −1 where it is
  __m256i found = _mm256_sub_epi32(_mm256_i32gather_epi32(code, cell, 4), _mm256_castps_si256(above));
  __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(found), _mm256_extracti128_si256(found, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(codes), _mm_packus_epi16(words, words));
}

FORGE_INLINE void load_two(const Bf16* p, F& even, F& odd) {
  __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  even = {_mm256_castsi256_ps(_mm256_slli_epi32(raw, 16))};
  odd = {_mm256_castsi256_ps(_mm256_and_si256(raw, _mm256_set1_epi32(static_cast<int>(0xffff0000))))};
}
FORGE_INLINE void load_two_like(const Bf16*, const float* p, F& even, F& odd) {
  F low = load(p), high = load(p + kLanes);
  auto in_order = [](__m256 x) FORGE_LAMBDA {  // the shuffles stay inside halves of 128 bits
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xD8));
  };
  even = {in_order(_mm256_shuffle_ps(low.v, high.v, 0x88))};
  odd = {in_order(_mm256_shuffle_ps(low.v, high.v, 0xDD))};
}
FORGE_INLINE __m256i packed(F even, F odd) {
  return _mm256_blend_epi16(_mm256_srli_epi32(rounded_up(even), 16), rounded_up(odd), 0xAA);
}
FORGE_INLINE void store_two(Bf16* p, F even, F odd) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), packed(even, odd));
}
FORGE_INLINE void stream_two(float* p, F a, F b) {
  _mm256_stream_ps(p, a.v), _mm256_stream_ps(p + kLanes, b.v);
}
FORGE_INLINE void stream_two(Bf16* p, F even, F odd) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), packed(even, odd));
}
FORGE_INLINE void stream_two(F16* p, F a, F b) {
  _mm_stream_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
  _mm_stream_si128(reinterpret_cast<__m128i*>(p + kLanes), _mm256_cvtps_ph(b.v, _MM_FROUND_TO_NEAREST_INT));
}
FORGE_INLINE void stream_fence() { _mm_sfence(); }

}  // namespace forge::FORGE_ISA

// Sixteen fp32 lanes. Included by each_isa.h; the other two files have the same names.
namespace forge::FORGE_ISA {

constexpr int kLanes = 16;
constexpr int kTileRows = 6, kTileVectors = 4;  // a GEMM tile: 24 sums, 4 of B and 1 of A in 32 registers
constexpr int kNarrowTileRows = 16;             // of a tile one vector wide
constexpr int kSquare = 16;                     // of a transpose in registers, in rows and columns

struct F {
  __m512 v;
};

FORGE_INLINE F set(float x) { return {_mm512_set1_ps(x)}; }
FORGE_INLINE F load(const float* p) { return {_mm512_loadu_ps(p)}; }
FORGE_INLINE F widen(__m256i bits) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}
FORGE_INLINE F load(const Bf16* p) { return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
FORGE_INLINE F load(const F16* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}

// bf16 in the upper half of each lane, rounded to nearest even. A NaN of arithmetic is quiet: it
// survives the cut.
FORGE_INLINE __m512i rounded_up(F x) {
  __m512i bits = _mm512_castps_si512(x.v);
  __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __mmask16 number = _mm512_cmp_ps_mask(x.v, x.v, _CMP_ORD_Q);
  return _mm512_mask_add_epi32(bits, number, bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
}
FORGE_INLINE __m256i narrow(F x) { return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded_up(x), 16)); }
FORGE_INLINE __m256i narrow_half(F x) { return _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT); }
FORGE_INLINE void store(float* p, F x) { _mm512_storeu_ps(p, x.v); }
FORGE_INLINE void store(Bf16* p, F x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow(x)); }
FORGE_INLINE void store(F16* p, F x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_half(x)); }

FORGE_INLINE __mmask16 first(int n) { return static_cast<__mmask16>((1u << n) - 1); }
FORGE_INLINE F load_part(const float* p, int n) { return {_mm512_maskz_loadu_ps(first(n), p)}; }
FORGE_INLINE F load_part(const Bf16* p, int n) { return widen(_mm256_maskz_loadu_epi16(first(n), p)); }
FORGE_INLINE F load_part(const F16* p, int n) {
  return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p))};
}
FORGE_INLINE void store_part(float* p, F x, int n) { _mm512_mask_storeu_ps(p, first(n), x.v); }
FORGE_INLINE void store_part(Bf16* p, F x, int n) { _mm256_mask_storeu_epi16(p, first(n), narrow(x)); }
FORGE_INLINE void store_part(F16* p, F x, int n) { _mm256_mask_storeu_epi16(p, first(n), narrow_half(x)); }

FORGE_INLINE F operator+(F a, F b) { return {_mm512_add_ps(a.v, b.v)}; }
FORGE_INLINE F operator-(F a, F b) { return {_mm512_sub_ps(a.v, b.v)}; }
FORGE_INLINE F operator*(F a, F b) { return {_mm512_mul_ps(a.v, b.v)}; }
FORGE_INLINE F operator/(F a, F b) { return {_mm512_div_ps(a.v, b.v)}; }
FORGE_INLINE F fma(F a, F b, F c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
// 1 / a to a unit of the last place for normal a and 1 / a, without the division's 16 cycles: an
// estimate of 14 bits and one step of Newton.
FORGE_INLINE F reciprocal(F a) {
  __m512 r = _mm512_rcp14_ps(a.v);
  return {_mm512_fmadd_ps(_mm512_fnmadd_ps(a.v, r, _mm512_set1_ps(1.0f)), r, r)};
}
FORGE_INLINE F sqrt(F a) { return {_mm512_sqrt_ps(a.v)}; }
// A NaN in b is kept, one in a is not.
FORGE_INLINE F max(F a, F b) { return {_mm512_max_ps(a.v, b.v)}; }
FORGE_INLINE F min(F a, F b) { return {_mm512_min_ps(a.v, b.v)}; }
FORGE_INLINE F round(F a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
FORGE_INLINE F abs(F a) { return {_mm512_abs_ps(a.v)}; }
// a < b ? x : y, lane by lane.
FORGE_INLINE F less(F a, F b, F x, F y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
}
// The first n lanes of x, 0 ≤ n ≤ kLanes, and of `other` the rest.
FORGE_INLINE F keep_first(F x, int64_t n, F other) {
  return {_mm512_mask_blend_ps(first(static_cast<int>(n)), other.v, x.v)};
}
// x · 2ⁿ for a whole n.
FORGE_INLINE F scale2(F x, F n) { return {_mm512_scalef_ps(x.v, n.v)}; }
// The lowest eight bits of a lane as an exponent: 2ⁿ where they hold n + 127.
FORGE_INLINE F power_of_low_bits(F n) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(n.v), 23))};
}
// x, or ± limit where it is larger; a NaN becomes a number.
FORGE_INLINE F clamp_to(F x, float limit) { return {_mm512_range_ps(x.v, _mm512_set1_ps(limit), 2)}; }
FORGE_INLINE float sum(F a) { return _mm512_reduce_add_ps(a.v); }
// Like sums_of() in simd_math.h, in the same order of additions: 45 instructions for sixteen sums,
// where one sum alone takes seven.
FORGE_INLINE void sums_of(const F (&v)[16], float* sums) {
  __m512 two[8], four[4], eight[2];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i)
    two[i] = _mm512_add_ps(_mm512_unpacklo_ps(v[2 * i].v, v[2 * i + 1].v),
                           _mm512_unpackhi_ps(v[2 * i].v, v[2 * i + 1].v));
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512d a = _mm512_castps_pd(two[2 * i]), b = _mm512_castps_pd(two[2 * i + 1]);
    four[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i)
    eight[i] = _mm512_add_ps(_mm512_shuffle_f32x4(four[2 * i], four[2 * i + 1], 0x88),
                             _mm512_shuffle_f32x4(four[2 * i], four[2 * i + 1], 0xdd));
  _mm512_storeu_ps(sums, _mm512_add_ps(_mm512_shuffle_f32x4(eight[0], eight[1], 0x88),
                                       _mm512_shuffle_f32x4(eight[0], eight[1], 0xdd)));
}
// to[j, i] = from[i, j] of 16 × 16: pairs of lanes, then pairs of pairs, then quarters change
// places.
template <class T>
FORGE_INLINE void transpose_square(std::integral_constant<int, 16>, const T* from, int64_t ld, float* to, int64_t to_ld) {
  __m512 a[16], b[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) a[i] = load(from + i * ld).v;
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]), b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const __m512d low = _mm512_castps_pd(b[i + j]), high = _mm512_castps_pd(b[i + j + 2]);
      a[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
      a[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
    }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    b[i] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0x88), b[i + 4] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd);
    b[i + 8] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0x88), b[i + 12] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0xdd);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    _mm512_storeu_ps(to + i * to_ld, _mm512_shuffle_f32x4(b[i], b[i + 8], 0x88));
    _mm512_storeu_ps(to + (i + 8) * to_ld, _mm512_shuffle_f32x4(b[i], b[i + 8], 0xdd));
  }
}
FORGE_INLINE float max_of(F a) { return _mm512_reduce_max_ps(a.v); }

// table[codes[lane]].
FORGE_INLINE F look_up(const float* table, const uint8_t* codes) {
  __m512i index = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
  return {_mm512_i32gather_ps(index, table, 4)};
}
// Sixteen bytes as numbers, and as numbers with a sign.
FORGE_INLINE SixteenCodes codes_at(const uint8_t* p) {
  return (SixteenCodes)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
FORGE_INLINE SixteenCodes signed_at(const uint8_t* p) {
  return (SixteenCodes)_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
// table[codes[lane] & 15].
FORGE_INLINE Sixteen pick(Sixteen table, SixteenCodes codes) {
  return (Sixteen)_mm512_permutexvar_ps((__m512i)codes, (__m512)table);
}
FORGE_INLINE float half(F16 x) { return _cvtsh_ss(x.bits); }
FORGE_INLINE Sixteen sixteen_times(float x) { return (Sixteen)_mm512_set1_ps(x); }
FORGE_INLINE Sixteen sixteen_times(F16 x) { return (Sixteen)_mm512_cvtph_ps(_mm256_set1_epi16(static_cast<short>(x.bits))); }
FORGE_INLINE Sixteen sixteen_halves(const uint8_t* p) {
  return (Sixteen)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
// Thirty-two bytes with a sign.
FORGE_INLINE Words words_at(const uint8_t* p) {
  return (Words)_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
// Returns the sum of the products of each two neighbours.
FORGE_INLINE SixteenCodes dots_of_pairs(const Words& a, const Words& b) { return (SixteenCodes)_mm512_madd_epi16((__m512i)a, (__m512i)b); }
// Four halves, the first in the lowest bits. In memory, from where a load spreads one over a
// vector: a shuffle fewer than from a register.
FORGE_INLINE void four_halves(uint64_t bits, float (&to)[4]) {
  _mm_storeu_ps(to, _mm_cvtph_ps(_mm_cvtsi64_si128(static_cast<int64_t>(bits))));
  asm("" : "+m"(to));
}
// Looks up code[cell] + (x > border[cell]), where cell = max(0, upper half of |x|'s bits − first),
// plus `negative` if x is below zero.
FORGE_INLINE void look_up_cells(const int32_t* code, const float* border, int32_t first, int32_t negative,
                                F x, uint8_t* codes) {
  __m512i bits = _mm512_castps_si512(x.v);
  __m512i half = _mm512_srli_epi32(_mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff)), 16);
  __m512i cell = _mm512_max_epi32(_mm512_sub_epi32(half, _mm512_set1_epi32(first)), _mm512_setzero_si512());
  cell = _mm512_add_epi32(cell, _mm512_and_si512(_mm512_srai_epi32(bits, 31), _mm512_set1_epi32(negative)));
  __m512i found = _mm512_i32gather_epi32(cell, code, 4);
  __mmask16 above = _mm512_cmp_ps_mask(x.v, _mm512_i32gather_ps(cell, border, 4), _CMP_GT_OQ);
  found = _mm512_mask_add_epi32(found, above, found, _mm512_set1_epi32(1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(codes), _mm512_cvtepi32_epi8(found));
}

// load_two, store_two and stream_two are for wide.h: 32 elements, split into even and odd ones for
// bf16.
FORGE_INLINE void load_two(const Bf16* p, F& even, F& odd) {
  __m512i raw = _mm512_loadu_si512(p);
  even = {_mm512_castsi512_ps(_mm512_slli_epi32(raw, 16))};
  odd = {_mm512_castsi512_ps(_mm512_and_si512(raw, _mm512_set1_epi32(static_cast<int>(0xffff0000))))};
}
FORGE_INLINE void load_two_like(const Bf16*, const float* p, F& even, F& odd) {
  const __m512i pick = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  F low = load(p), high = load(p + kLanes);
  even = {_mm512_permutex2var_ps(low.v, pick, high.v)};
  odd = {_mm512_permutex2var_ps(low.v, _mm512_add_epi32(pick, _mm512_set1_epi32(1)), high.v)};
}
// Rounds all 32 at once: up where the lower half, with the upper half's last bit, is past the
// middle. A NaN made of bf16 numbers has an empty lower half and stays.
FORGE_INLINE __m512i packed(F even, F odd) {
  __m512i a = _mm512_castps_si512(even.v), b = _mm512_castps_si512(odd.v);
  __m512i high = _mm512_mask_blend_epi16(0xAAAAAAAA, _mm512_srli_epi32(a, 16), b);
  __m512i low = _mm512_mask_blend_epi16(0xAAAAAAAA, a, _mm512_slli_epi32(b, 16));
  __m512i sticky = _mm512_ternarylogic_epi32(low, high, _mm512_set1_epi16(1), 0xF8);
  __mmask32 up = _mm512_cmpgt_epu16_mask(sticky, _mm512_set1_epi16(static_cast<short>(0x8000)));
  return _mm512_mask_add_epi16(high, up, high, _mm512_set1_epi16(1));
}
FORGE_INLINE void store_two(Bf16* p, F even, F odd) { _mm512_storeu_si512(p, packed(even, odd)); }
FORGE_INLINE void stream_two(float* p, F a, F b) {
  _mm512_stream_ps(p, a.v), _mm512_stream_ps(p + kLanes, b.v);
}
FORGE_INLINE void stream_two(Bf16* p, F even, F odd) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), packed(even, odd));
}
FORGE_INLINE void stream_two(F16* p, F a, F b) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), narrow_half(a));
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p + kLanes), narrow_half(b));
}
FORGE_INLINE void stream_fence() { _mm_sfence(); }

}  // namespace forge::FORGE_ISA

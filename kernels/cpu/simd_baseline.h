// Four fp32 lanes in plain C++, for any machine, with the names of simd_avx512.h, which has the
// comments.
namespace forge::FORGE_ISA {

constexpr int kLanes = 4;
constexpr int kTileRows = 4, kTileVectors = 2;
constexpr int kNarrowTileRows = 8;
constexpr int kSquare = 4;

struct F {
  float v[kLanes];
};

template <class Function>
FORGE_INLINE F each_lane(Function function) {
  F result;
  for (int i = 0; i < kLanes; ++i) result.v[i] = function(i);
  return result;
}

FORGE_INLINE F set(float x) {
  return each_lane([&](int) { return x; });
}
template <class T>
FORGE_INLINE F load(const T* p) {
  return each_lane([&](int i) { return to_float(p[i]); });
}
template <class T>
FORGE_INLINE F load_part(const T* p, int n) {
  return each_lane([&](int i) { return i < n ? to_float(p[i]) : 0.0f; });
}
template <class T>
FORGE_INLINE void store_part(T* p, F x, int n) {
  for (int i = 0; i < n; ++i) from_float(x.v[i], p[i]);
}
template <class T>
FORGE_INLINE void store(T* p, F x) {
  store_part(p, x, kLanes);
}

FORGE_INLINE F operator+(F a, F b) {
  return each_lane([&](int i) { return a.v[i] + b.v[i]; });
}
FORGE_INLINE F operator-(F a, F b) {
  return each_lane([&](int i) { return a.v[i] - b.v[i]; });
}
FORGE_INLINE F operator*(F a, F b) {
  return each_lane([&](int i) { return a.v[i] * b.v[i]; });
}
FORGE_INLINE F operator/(F a, F b) {
  return each_lane([&](int i) { return a.v[i] / b.v[i]; });
}
FORGE_INLINE F fma(F a, F b, F c) { return a * b + c; }
FORGE_INLINE F reciprocal(F a) { return set(1.0f) / a; }
FORGE_INLINE F sqrt(F a) {
  return each_lane([&](int i) { return std::sqrt(a.v[i]); });
}
FORGE_INLINE F max(F a, F b) {
  return each_lane([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
FORGE_INLINE F min(F a, F b) {
  return each_lane([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
FORGE_INLINE F round(F a) {
  return each_lane([&](int i) { return std::nearbyint(a.v[i]); });
}
FORGE_INLINE F abs(F a) {
  return each_lane([&](int i) { return std::fabs(a.v[i]); });
}
FORGE_INLINE F less(F a, F b, F x, F y) {
  return each_lane([&](int i) { return a.v[i] < b.v[i] ? x.v[i] : y.v[i]; });
}
FORGE_INLINE F keep_first(F x, int64_t n, F other) {
  return each_lane([&](int i) { return i < n ? x.v[i] : other.v[i]; });
}
FORGE_INLINE F scale2(F x, F n) {
  return each_lane(
      [&](int i) { return std::ldexp(x.v[i], std::isnan(n.v[i]) ? 0 : static_cast<int>(n.v[i])); });
}
FORGE_INLINE F power_of_low_bits(F n) {
  return each_lane([&](int i) { return std::bit_cast<float>(std::bit_cast<uint32_t>(n.v[i]) << 23); });
}
FORGE_INLINE F clamp_to(F x, float limit) { return max(set(-limit), min(set(limit), x)); }
FORGE_INLINE float sum(F a) { return (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]); }
FORGE_INLINE float max_of(F a) { return std::max(std::max(a.v[0], a.v[2]), std::max(a.v[1], a.v[3])); }
FORGE_INLINE F look_up(const float* table, const uint8_t* codes) {
  return each_lane([&](int i) { return table[codes[i]]; });
}
FORGE_INLINE SixteenCodes codes_at(const uint8_t* p) {
  SixteenCodes codes;
  for (int i = 0; i < 16; ++i) codes[i] = p[i];
  return codes;
}
FORGE_INLINE SixteenCodes signed_at(const uint8_t* p) { return codes_at(p) << 24 >> 24; }
FORGE_INLINE Sixteen pick(const Sixteen& table, const SixteenCodes& codes) {
  Sixteen picked;
  for (int i = 0; i < 16; ++i) picked[i] = table[codes[i] & 15];
  return picked;
}
FORGE_INLINE float half(F16 x) { return to_float(x); }
FORGE_INLINE Sixteen sixteen_times(float x) { return Sixteen{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
FORGE_INLINE Sixteen sixteen_times(F16 x) { return sixteen_times(half(x)); }
FORGE_INLINE Sixteen sixteen_halves(const uint8_t* p) {
  Sixteen halves;
  for (int i = 0; i < 16; ++i) halves[i] = to_float(F16{static_cast<uint16_t>(p[2 * i] | p[2 * i + 1] << 8)});
  return halves;
}
FORGE_INLINE Words words_at(const uint8_t* p) {
  Words words;
  for (int i = 0; i < 32; ++i) words[i] = static_cast<int8_t>(p[i]);
  return words;
}
FORGE_INLINE SixteenCodes dots_of_pairs(const Words& a, const Words& b) {
  SixteenCodes sums;
  for (int i = 0; i < 16; ++i) sums[i] = a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
  return sums;
}
FORGE_INLINE void four_halves(uint64_t bits, float (&to)[4]) {
  for (int i = 0; i < 4; ++i) to[i] = to_float(F16{static_cast<uint16_t>(bits >> 16 * i)});
}
FORGE_INLINE void look_up_cells(const int32_t* code, const float* border, int32_t first, int32_t negative,
                                F x, uint8_t* codes) {
  for (int i = 0; i < kLanes; ++i) {
    const auto bits = std::bit_cast<int32_t>(x.v[i]);
    int32_t cell = std::max(0, ((bits & 0x7fffffff) >> 16) - first) + (bits < 0 ? negative : 0);
    codes[i] = static_cast<uint8_t>(code[cell] + (x.v[i] > border[cell]));
  }
}

FORGE_INLINE void stream_fence() {}

}  // namespace forge::FORGE_ISA

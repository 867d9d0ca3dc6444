// Products of pairs, of bf16 and of whole numbers of 16 bits: an instruction multiplies 32 elements and adds each two neighbours into one of sixteen sums.
// Defines FORGE_PAIRS for the rest of the file that includes it.
#define FORGE_PAIRS
namespace forge::FORGE_ISA {

constexpr int kPairLanes = 32;

struct Pairs {
  __m512bh v;
};

FORGE_INLINE Pairs load_pairs(const Bf16* p, int n) {
  if (n == kPairLanes) return {(__m512bh)_mm512_loadu_si512(p)};
  return {(__m512bh)_mm512_maskz_loadu_epi16((uint32_t{1} << n) - 1, p)};
}
FORGE_INLINE F fma(Pairs a, Pairs b, F c) { return {_mm512_dpbf16_ps(c.v, a.v, b.v)}; }
// sum + dots_of_pairs(a, b).
FORGE_INLINE SixteenCodes add_dots_of_pairs(const SixteenCodes& sum, const Words& a, const Words& b) {
  return (SixteenCodes)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
}

}  // namespace forge::FORGE_ISA

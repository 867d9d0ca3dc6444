// Products of pairs, of bf16 and of whole numbers of 16 bits: an instruction multiplies 32 elements
// and adds each two neighbours into one of sixteen sums. Defines FORGE_PAIRS for the rest of the
// file that includes it.
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
// The halves of each pair, in the order in which the instruction adds their products: the second
// one first.
FORGE_INLINE F second_of(Pairs p) { return {_mm512_castsi512_ps(_mm512_and_si512((__m512i)p.v, _mm512_set1_epi32(static_cast<int>(0xffff0000u))))}; }
FORGE_INLINE F first_of(Pairs p) { return {_mm512_castsi512_ps(_mm512_slli_epi32((__m512i)p.v, 16))}; }
// sum + dots_of_pairs(a, b).
FORGE_INLINE SixteenCodes add_dots_of_pairs(const SixteenCodes& sum, const Words& a, const Words& b) {
  return (SixteenCodes)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
}

}  // namespace forge::FORGE_ISA

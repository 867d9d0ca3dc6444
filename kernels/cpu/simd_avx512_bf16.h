// Products of bf16 pairs: an instruction multiplies 32 elements and adds each two neighbours into one of sixteen fp32 sums.
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

}  // namespace forge::FORGE_ISA

#ifdef FORGE_ISA

namespace forge::FORGE_ISA {

void row_statistics(const float* logp, int64_t begin, int64_t end, int64_t vocab, float* entropy, float* largest) {
  for (int64_t row = begin; row < end; ++row) {
    const float* x = logp + row * vocab;
    const F lowest = set(-3e38f);
    double total = 0;
    F most = lowest;
    // Sums of a few thousand terms are fp32's, their sum is not.
    constexpr int64_t kPiece = 4096;
    for (int64_t piece = 0; piece < vocab; piece += kPiece) {
      const int64_t stop = std::min(vocab, piece + kPiece);
      F sums = set(0.0f);
      int64_t i = piece;
      for (; i + kLanes <= stop; i += kLanes) {
        const F l = load(x + i);
        // −∞ is a probability of nothing, and adds nothing.
        sums = fma(exp(l), max(l, lowest), sums);
        most = max(most, l);
      }
      if (i < stop) {
        const F l = keep_first(load_n(x + i, static_cast<int>(stop - i)), stop - i, lowest);
        sums = fma(exp(l), l, sums);
        most = max(most, l);
      }
      total += static_cast<double>(sum(sums));
    }
    float lanes[kLanes];
    store(lanes, most);
    entropy[row] = static_cast<float>(-total);
    largest[row] = *std::max_element(lanes, lanes + kLanes);
  }
}

}  // namespace forge::FORGE_ISA

#else

#include "kernels/lm_head/row_statistics.h"

#include "kernels/cpu/parallel.h"
#define FORGE_KERNEL_FILE "kernels/lm_head/row_statistics_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {

void row_statistics_cpu(const float* logp, int64_t rows, int64_t vocab, float* entropy, float* largest, CpuLevel level) {
  auto some = FORGE_PICK(level, row_statistics);
  parallel_ranges(rows, 1, [&](int64_t begin, int64_t end) { some(logp, begin, end, vocab, entropy, largest); });
}

}  // namespace forge

#endif

#pragma once
// What metrics ask of log-probabilities over a vocabulary, in one pass and without memory.
#include <cstdint>

#include "kernels/cpu/level.h"

namespace forge {

// logp fp32 [rows, vocab], contiguous, each row a log-softmax → entropy[row] = −Σ e^logp logp in nats, largest[row] = max logp.
void row_statistics_cpu(const float* logp, int64_t rows, int64_t vocab, float* entropy, float* largest,
                        CpuLevel level = cpu_level());

}  // namespace forge

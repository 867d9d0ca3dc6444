#pragma once
// Softmax and cross-entropy over a chunk of logits on plain memory: the logits come from one GEMM,
// their gradient goes into the next. Formulas and names as in lm_head_args.h:
//
//   z          = cap · tanh(x / cap) / temperature
//   logp       = z_y − lse
//   entropy    = lse − Σ p z
//   mean_logit = Σ z / V
//   loss       = −(1 − ε) logp − ε (mean_logit − lse) + ζ lse²
//
//   d z        = A [v = y] + (B + E (z − Σ p z)) p + C     A, B, C, E: sums of the cotangents; then the chain to x
//
// With cotangents known beforehand (sft, pretrain) one launch gives the outputs and the gradient;
// otherwise a second launch with `gradient` reduces again, which costs one read of the chunk. A
// negative target: zeros in the outputs and the gradient. Bytes a logit of s bytes: s without the
// gradient; 3 s with it, of which the second read mostly hits L2.
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"
#include "kernels/device/launch.h"

namespace forge {

struct LogitsChunk {
  Element type = Element::f32;
  int64_t positions = 0, vocab = 0;
  void* logits =
      nullptr;  // [positions, vocab], rows `stride` elements apart; becomes d logits when `gradient`
  int64_t stride = 0;
  const int64_t* targets = nullptr;  // [positions], below vocab
  float temperature = 1, softcap = 0;
  float label_smoothing = 0, z_loss = 0;
  bool gradient = false;

  // Wanted numbers, fp32 [positions]; null: not wanted.
  float *logp = nullptr, *logsumexp = nullptr, *mean_logit = nullptr, *entropy = nullptr, *loss = nullptr;
  // Cotangents, fp32 [positions]; null: zero.
  const float *loss_weight = nullptr, *g_logp = nullptr, *g_logsumexp = nullptr, *g_mean_logit = nullptr,
              *g_entropy = nullptr;
};

void logits_cpu(const LogitsChunk& args, CpuLevel level = cpu_level());

// ---- on a GPU

void logits_cuda(const LogitsChunk& args, CudaStream stream);

}  // namespace forge

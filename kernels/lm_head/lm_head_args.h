#pragma once
// The output head and all numbers that an objective takes from it, on plain memory: full logits
// never exist.
//
// For a position with hidden state h and target y, over the vocabulary v:
//
//   z_v        = cap · tanh(h · W_v / cap) / temperature         cap 0: no cap
//   lse        = log Σ exp z_v
//   p          = softmax(z)
//   logp       = z_y − lse
//   mean_logit = Σ z_v / V
//   entropy    = lse − Σ p_v z_v
//   loss       = −(1 − ε) logp − ε (mean_logit − lse) + ζ lse²   ε: label smoothing, ζ: z-loss
//
// and, summed over the positions, the gradient of
//
//   loss_weight · loss + g_logp · logp + g_lse · lse + g_mean · mean_logit + g_entropy · entropy
//
// A position whose target is negative is left out: no work, zeros in its outputs and in d_hidden.
//
// Arithmetic in fp32, results rounded once. The gradient of everything but entropy, of a frozen
// head, needs one visit: Σ p_v W_v is gathered beside the running sum, as attention gathers values
// (keys and values are both W): 4 V · width operations a position. Entropy's gradient, a mean's
// under a cap, and a trained weight take a second visit (+ 4, + 4), and so does, on a CPU, a
// gradient over the hidden states of a trained head.
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"

namespace forge {

struct LmHead {
  Element type = Element::f32;  // of hidden, weight, d_hidden
  int64_t positions = 0, width = 0, vocab = 0;
  const void* hidden = nullptr;
  int64_t hidden_stride = 0;
  const void* weight = nullptr;  // [vocab, width]
  int64_t weight_stride = 0;
  const int64_t* targets = nullptr;  // [positions], below vocab
  float temperature = 1, softcap = 0;

  // Wanted numbers, fp32 [positions]; null: not wanted.
  float *logp = nullptr, *logsumexp = nullptr, *mean_logit = nullptr, *entropy = nullptr, *loss = nullptr;

  // Cotangents, fp32 [positions]; null: zero.
  const float *loss_weight = nullptr, *g_logp = nullptr, *g_logsumexp = nullptr, *g_mean_logit = nullptr,
              *g_entropy = nullptr;
  float label_smoothing = 0, z_loss = 0;

  void* d_hidden = nullptr;  // or null: no gradient; may be hidden
  int64_t d_hidden_stride = 0;
  float* d_weight = nullptr;  // [vocab, width], added to; or null: the head is frozen

  void* workspace = nullptr;  // lm_head_cpu_workspace bytes

  bool operator==(const LmHead&) const = default;
};

int64_t lm_head_cpu_workspace(const LmHead& args);
void lm_head_cpu(const LmHead& args, CpuLevel level = cpu_level());

}  // namespace forge

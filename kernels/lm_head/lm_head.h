#pragma once
// The output head: logits over the vocabulary, reduced to a few numbers per position. Full logits
// never exist: positions are taken in chunks, and only those that an objective asked for.
//
// With z = h Wᵀ (+ b, where the head has a bias) for one position, under a cap c (Gemma 2) z = c
// tanh(h Wᵀ / c), p = softmax(z) and target y:
//
//   logp       = z_y − logsumexp(z)
//   mean_logit = mean(z)
//   entropy    = logsumexp(z) − Σ p z
//   top1       = 1 where no token is likelier than the target, else 0
//   d z        = g_logp (onehot_y − p) + g_lse p + g_mean / V − g_entropy p (z − Σ p z)
//   d h Wᵀ     = d z, under a cap d z (1 − (z / c)²)
//   d b        = Σ d h Wᵀ of the positions
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "kernels/lm_head/lm_head_scratch.h"

namespace forge {

// The numbers that an objective needs per position.
struct TokenNeeds {
  bool logp = true;
  bool logsumexp = false;
  bool mean_logit = false;
  bool entropy = false;
  bool top1 = false;
  double temperature = 1;
};

// Numbers per position, fp32 [positions]; undefined where not asked for.
struct TokenOutputs {
  at::Tensor logp, logsumexp, mean_logit, entropy, top1;
};

// Cotangents of TokenOutputs, fp32 [positions]; undefined means zero.
struct TokenGrads {
  at::Tensor logp, logsumexp, mean_logit, entropy;
};

// Memory and settings of the head.
struct HeadMemory {
  int64_t chunk = 0;    // positions at once; 0: kHeadChunk
  at::Tensor scratch;   // head_scratch_bytes(); or undefined
  at::Tensor d_hidden;  // memory of the gradient, like hidden; or undefined
  double softcap = 0;   // of the logits; 0: none
  at::Tensor bias;      // added to the logits before the cap, [vocab] in hidden's type; or undefined
  at::Tensor bias_grad;  // fp32 [vocab], to which its gradient is added; or undefined
};

// hidden [positions, hidden_size] (after the final norm), weight [vocab, hidden_size], targets
// int64 [positions].
TokenOutputs head_forward(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
                          const TokenNeeds& needs, const HeadMemory& memory);

// Visits the head once: computes the outputs of a chunk, asks `cotangents(begin, outputs of the
// chunk)` for its grads and turns the logits into their gradient in place. → d hidden, in hidden's
// type. When `weight_grad` is defined (fp32, like weight), the head's gradient is added to it.
using Cotangents = std::function<TokenGrads(int64_t begin, const TokenOutputs& chunk)>;
at::Tensor head_forward_backward(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
                                 const TokenNeeds& needs, const Cotangents& cotangents, const HeadMemory& memory,
                                 const at::Tensor& weight_grad);

// Computes c tanh(z / c) in place. Does nothing without a cap.
void cap_logits(at::Tensor& logits, double softcap);

}  // namespace forge

#include "kernels/lm_head/lm_head.h"

#include <ATen/ATen.h>

namespace forge {
namespace {

// fp32 logits of one chunk, written into `scratch` when the GEMM can write there. [positions, vocab]
at::Tensor chunk_logits(const at::Tensor& hidden, const at::Tensor& weight, double temperature, const at::Tensor& scratch) {
  at::Tensor logits;
  if (hidden.scalar_type() == at::kFloat) {
    logits = scratch.narrow(0, 0, hidden.size(0));
    at::mm_out(logits, hidden, weight.t());
  } else {
    logits = at::mm(hidden, weight.t()).to(at::kFloat);
  }
  if (temperature != 1) logits.div_(temperature);
  return logits;
}

at::Tensor new_scratch(const at::Tensor& hidden, const at::Tensor& weight, int64_t chunk) {
  if (hidden.scalar_type() != at::kFloat) return {};
  return at::empty({std::min(chunk, hidden.size(0)), weight.size(0)}, hidden.options());
}

TokenOutputs reduce(const at::Tensor& logits, const at::Tensor& targets, const TokenNeeds& needs) {
  TokenOutputs out;
  at::Tensor lse = at::logsumexp(logits, {1});
  if (needs.logp) out.logp = logits.gather(1, targets.unsqueeze(1)).squeeze(1) - lse;
  if (needs.mean_logit) out.mean_logit = logits.mean(1);
  if (needs.entropy) out.entropy = lse - ((logits - lse.unsqueeze(1)).exp_().mul_(logits)).sum(1);
  out.logsumexp = lse;
  return out;
}

// Turns logits into their gradient, in place.
void logits_to_grad(at::Tensor& z, const at::Tensor& targets, const TokenOutputs& out, const TokenGrads& grads) {
  at::Tensor entropy_term;
  at::Tensor lse = out.logsumexp.unsqueeze(1);
  if (grads.entropy.defined()) {
    // −g p (z − Σ p z) with Σ p z = lse − entropy; needs z beside p, so it is the one case with a temporary.
    at::Tensor mean = (out.logsumexp - out.entropy).unsqueeze(1);
    entropy_term = (z - lse).exp_().mul_(z - mean).mul_(grads.entropy.neg().unsqueeze(1));
  }
  z.sub_(lse).exp_();  // p
  at::Tensor coefficient;  // of p
  if (grads.logp.defined()) coefficient = -grads.logp;
  if (grads.logsumexp.defined())
    coefficient = coefficient.defined() ? coefficient + grads.logsumexp : grads.logsumexp;
  if (coefficient.defined()) z.mul_(coefficient.unsqueeze(1));
  else z.zero_();
  if (grads.logp.defined()) z.scatter_add_(1, targets.unsqueeze(1), grads.logp.unsqueeze(1));
  if (grads.mean_logit.defined()) z.add_((grads.mean_logit / z.size(1)).unsqueeze(1));
  if (entropy_term.defined()) z.add_(entropy_term);
}

void append(at::Tensor& whole, int64_t begin, int64_t total, const at::Tensor& part) {
  if (!part.defined()) return;
  if (!whole.defined()) whole = at::empty({total}, part.options());
  whole.narrow(0, begin, part.size(0)).copy_(part);
}

}  // namespace

TokenOutputs head_forward(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
                          const TokenNeeds& needs, int64_t chunk) {
  at::NoGradGuard no_grad;
  int64_t total = hidden.size(0);
  TokenOutputs whole;
  at::Tensor scratch = new_scratch(hidden, weight, chunk);
  for (int64_t begin = 0; begin < total; begin += chunk) {
    int64_t count = std::min(chunk, total - begin);
    at::Tensor logits = chunk_logits(hidden.narrow(0, begin, count), weight, needs.temperature, scratch);
    TokenOutputs part = reduce(logits, targets.narrow(0, begin, count), needs);
    append(whole.logp, begin, total, part.logp);
    append(whole.logsumexp, begin, total, part.logsumexp);
    append(whole.mean_logit, begin, total, part.mean_logit);
    append(whole.entropy, begin, total, part.entropy);
  }
  return whole;
}

at::Tensor head_forward_backward(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
                                 const TokenNeeds& needs, const Cotangents& cotangents, int64_t chunk,
                                 const at::Tensor& weight_grad) {
  at::NoGradGuard no_grad;
  int64_t total = hidden.size(0);
  at::Tensor d_hidden = at::empty_like(hidden);
  at::Tensor scratch = new_scratch(hidden, weight, chunk);
  for (int64_t begin = 0; begin < total; begin += chunk) {
    int64_t count = std::min(chunk, total - begin);
    at::Tensor rows = hidden.narrow(0, begin, count), y = targets.narrow(0, begin, count);
    at::Tensor logits = chunk_logits(rows, weight, needs.temperature, scratch);
    TokenOutputs outputs = reduce(logits, y, needs);
    TokenGrads grads = cotangents(begin, outputs);
    logits_to_grad(logits, y, outputs, grads);
    if (needs.temperature != 1) logits.div_(needs.temperature);
    at::Tensor dz = logits.to(hidden.scalar_type());
    at::Tensor slice = d_hidden.narrow(0, begin, count);
    at::mm_out(slice, dz, weight);
    if (!weight_grad.defined()) continue;
    if (hidden.scalar_type() == at::kFloat) weight_grad.addmm_(dz.t(), rows);
    else weight_grad.add_(at::mm(dz.t(), rows));
  }
  return d_hidden;
}

}  // namespace forge

#include "kernels/lm_head/lm_head.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

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

// One chunk after its reduction: `exponents` are exp(z - max) in the memory of the logits, `sums` their row sums.
struct Reduced {
  TokenOutputs outputs;
  at::Tensor exponents;  // [positions, vocab]
  at::Tensor sums;       // [positions]
  at::Tensor logits;     // a copy, kept only when the entropy is wanted
};

// Consumes the logits. LibTorch's own logsumexp would hold a second full matrix.
Reduced reduce(at::Tensor logits, const at::Tensor& targets, const TokenNeeds& needs) {
  Reduced result;
  at::Tensor target_logit = logits.gather(1, targets.unsqueeze(1)).squeeze(1);
  if (needs.mean_logit) result.outputs.mean_logit = logits.mean(1);
  if (needs.entropy) result.logits = logits.clone();
  at::Tensor highest = logits.amax(1, /*keepdim=*/true);
  logits.sub_(highest).exp_();
  result.sums = logits.sum(1);
  at::Tensor logsumexp = highest.squeeze(1) + result.sums.log();
  if (needs.logp) result.outputs.logp = target_logit - logsumexp;
  if (needs.entropy)
    result.outputs.entropy = logsumexp - (result.logits * logits).sum(1) / result.sums;
  result.outputs.logsumexp = logsumexp;
  result.exponents = std::move(logits);
  return result;
}

// Turns the exponents into dz, in place.
at::Tensor logits_grad(const Reduced& chunk, const at::Tensor& targets, const TokenGrads& grads) {
  at::Tensor dz = chunk.exponents;
  at::Tensor coefficient = at::zeros_like(chunk.sums);  // of p
  if (grads.logp.defined()) coefficient.sub_(grads.logp);
  if (grads.logsumexp.defined()) coefficient.add_(grads.logsumexp);
  if (grads.entropy.defined()) {
    // p (coefficient - g_entropy (z - sum p z)), with sum p z = logsumexp - entropy.
    at::Tensor mean = (chunk.outputs.logsumexp - chunk.outputs.entropy).unsqueeze(1);
    at::Tensor factor = (chunk.logits - mean).mul_(grads.entropy.neg().unsqueeze(1)).add_(coefficient.unsqueeze(1));
    dz.mul_(factor).div_(chunk.sums.unsqueeze(1));
  } else {
    dz.mul_((coefficient / chunk.sums).unsqueeze(1));
  }
  if (grads.logp.defined()) dz.scatter_add_(1, targets.unsqueeze(1), grads.logp.unsqueeze(1));
  if (grads.mean_logit.defined()) dz.add_((grads.mean_logit / dz.size(1)).unsqueeze(1));
  return dz;
}

void append(at::Tensor& whole, int64_t begin, int64_t total, const at::Tensor& part) {
  if (!part.defined()) return;
  if (!whole.defined()) whole = at::empty({total}, part.options());
  whole.narrow(0, begin, part.size(0)).copy_(part);
}

}  // namespace

TokenOutputs head_forward(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
                          const TokenNeeds& needs, int64_t chunk) {
  c10::NoGradGuard no_grad;
  int64_t total = hidden.size(0);
  TokenOutputs whole;
  at::Tensor scratch = new_scratch(hidden, weight, chunk);
  for (int64_t begin = 0; begin < total; begin += chunk) {
    int64_t count = std::min(chunk, total - begin);
    at::Tensor logits = chunk_logits(hidden.narrow(0, begin, count), weight, needs.temperature, scratch);
    TokenOutputs part = reduce(std::move(logits), targets.narrow(0, begin, count), needs).outputs;
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
  c10::NoGradGuard no_grad;
  int64_t total = hidden.size(0);
  at::Tensor d_hidden = at::empty_like(hidden);
  at::Tensor scratch = new_scratch(hidden, weight, chunk);
  for (int64_t begin = 0; begin < total; begin += chunk) {
    int64_t count = std::min(chunk, total - begin);
    at::Tensor rows = hidden.narrow(0, begin, count), y = targets.narrow(0, begin, count);
    at::Tensor logits = chunk_logits(rows, weight, needs.temperature, scratch);
    Reduced reduced = reduce(std::move(logits), y, needs);
    at::Tensor dz = logits_grad(reduced, y, cotangents(begin, reduced.outputs));
    if (needs.temperature != 1) dz.div_(needs.temperature);
    dz = dz.to(hidden.scalar_type());
    at::Tensor slice = d_hidden.narrow(0, begin, count);
    at::mm_out(slice, dz, weight);
    if (!weight_grad.defined()) continue;
    if (hidden.scalar_type() == at::kFloat) weight_grad.addmm_(dz.t(), rows);
    else weight_grad.add_(at::mm(dz.t(), rows));
  }
  return d_hidden;
}

}  // namespace forge

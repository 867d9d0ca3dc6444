#include "kernels/lm_head/lm_head.h"

#include "kernels/common/add_narrow.h"
#include "kernels/lm_head/logits_args.h"
#include "kernels/product/multiply.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

namespace forge {
namespace {

// The memory of a chunk's logits (head_rows).
struct ChunkMemory {
  at::Tensor product, wide;  // [chunk, vocab]; wide: undefined if fp32 logits need no copy
  at::Tensor capped;         // fp32 [kCapRows or fewer, vocab]; undefined without a cap
  at::Tensor bias;           // HeadMemory::bias
};

int64_t chunk_of(const HeadMemory& memory) { return memory.chunk > 0 ? memory.chunk : kHeadChunk; }

ChunkMemory chunk_memory(const at::Tensor& hidden, const at::Tensor& weight, const HeadMemory& memory) {
  const int64_t chunk_rows = std::min(chunk_of(memory), hidden.size(0)), vocab = weight.size(0);
  const bool narrow = hidden.scalar_type() != at::kFloat;
  const HeadRowCounts rows = head_rows(chunk_rows, narrow, memory.softcap != 0, hidden.is_cuda());
  const auto wide = hidden.options().dtype(at::kFloat).requires_grad(false), own = hidden.options().requires_grad(false);
  char* next = memory.scratch.defined() ? static_cast<char*>(memory.scratch.data_ptr()) : nullptr;
  const auto take = [&](int64_t count, const at::TensorOptions& options) {
    if (count == 0) return at::Tensor();
    if (!next) return at::empty({count, vocab}, options);
    at::Tensor part = at::from_blob(next, {count, vocab}, options);
    next += part.nbytes();
    return part;
  };
  ChunkMemory chunk{.bias = memory.bias};
  chunk.wide = take(rows.wide, wide);
  chunk.capped = take(rows.capped, wide);
  chunk.product = take(rows.product, own);
  return chunk;
}

// Computes the raw logits of one chunk. [positions, vocab]
at::Tensor chunk_product(const at::Tensor& hidden, const at::Tensor& weight, const ChunkMemory& memory) {
  at::Tensor product = memory.product.narrow(0, 0, hidden.size(0));
  multiply(product, hidden, weight.t());
  if (memory.bias.defined()) product.add_(memory.bias);
  return product;
}

// Returns the fp32 logits of one chunk.
at::Tensor chunk_logits(const at::Tensor& product, double temperature, double softcap, const ChunkMemory& memory) {
  at::Tensor logits = product;
  if (memory.wide.defined()) logits = memory.wide.narrow(0, 0, product.size(0)).copy_(product);
  cap_logits(logits, softcap);
  if (temperature != 1) logits.div_(temperature);
  return logits;
}

// One chunk after its reduction, in the memory of the logits.
struct Reduced {
  TokenOutputs outputs;
  at::Tensor log_probabilities;  // [positions, vocab]
};

// Adds the entropy and top1 of log-probabilities [positions, vocab]; `logp` are the targets'.
void add_statistics(const at::Tensor& log_probabilities, const at::Tensor& logp, const TokenNeeds& needs, TokenOutputs& outputs) {
  if (needs.entropy) outputs.entropy = (log_probabilities.exp() * log_probabilities).sum(1).neg();
  if (needs.top1) outputs.top1 = logp.ge(log_probabilities.amax(1)).to(at::kFloat);
}

// Returns the arguments of forge's kernel for a CPU, which reduces the logits in place and turns
// them into their gradient there.
LogitsChunk kernel_args(const at::Tensor& logits, const at::Tensor& targets, const TokenNeeds& needs, double softcap) {
  LogitsChunk args{element_of(logits), logits.size(0), logits.size(1), logits.data_ptr(), logits.stride(0), targets.const_data_ptr<int64_t>()};
  args.temperature = static_cast<float>(needs.temperature), args.softcap = static_cast<float>(softcap);
  return args;
}

TokenOutputs reduce_in_place(const at::Tensor& logits, const at::Tensor& targets, const TokenNeeds& needs, double softcap) {
  LogitsChunk args = kernel_args(logits, targets, needs, softcap);
  TokenOutputs outputs;
  const auto wanted = [&](bool want, at::Tensor& number, float*& to) {
    if (!want) return;
    number = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
    to = number.data_ptr<float>();
  };
  wanted(needs.logp, outputs.logp, args.logp);
  wanted(true, outputs.logsumexp, args.logsumexp);
  wanted(needs.mean_logit, outputs.mean_logit, args.mean_logit);
  wanted(needs.entropy, outputs.entropy, args.entropy);
  logits_cpu(args);
  // A cap and a temperature keep the order of logits.
  if (needs.top1) outputs.top1 = logits.gather(1, targets.unsqueeze(1)).squeeze(1).ge(logits.amax(1)).to(at::kFloat);
  return outputs;
}

void turn_in_place(const at::Tensor& logits, const at::Tensor& targets, const TokenNeeds& needs, double softcap, const TokenGrads& grads) {
  LogitsChunk args = kernel_args(logits, targets, needs, softcap);
  args.gradient = true;
  const auto given = [](const at::Tensor& grad) { return grad.defined() ? grad.contiguous() : grad; };
  const TokenGrads g{given(grads.logp), given(grads.logsumexp), given(grads.mean_logit), given(grads.entropy)};
  const auto numbers = [](const at::Tensor& grad) { return grad.defined() ? grad.const_data_ptr<float>() : nullptr; };
  args.g_logp = numbers(g.logp), args.g_logsumexp = numbers(g.logsumexp);
  args.g_mean_logit = numbers(g.mean_logit), args.g_entropy = numbers(g.entropy);
  logits_cpu(args);
}

// Reduces logits on a GPU. It consumes the logits: LibTorch's fused log-softmax runs in place, so
// there is no second buffer of their size.
Reduced reduce(at::Tensor logits, const at::Tensor& targets, const TokenNeeds& needs) {
  Reduced result;
  at::Tensor index = targets.unsqueeze(1);
  at::Tensor target_logit = logits.gather(1, index).squeeze(1);
  if (needs.mean_logit) result.outputs.mean_logit = logits.mean(1);
  at::_log_softmax_out(logits, logits, 1, /*half_to_float=*/false);
  at::Tensor logp = logits.gather(1, index).squeeze(1);
  result.outputs.logsumexp = target_logit - logp;
  if (needs.logp) result.outputs.logp = logp;
  if (needs.entropy || needs.top1) add_statistics(logits, logp, needs, result.outputs);
  result.log_probabilities = std::move(logits);
  return result;
}

at::Tensor rows_of(const at::Tensor& numbers, int64_t begin, int64_t count) {
  return numbers.defined() ? numbers.narrow(0, begin, count) : numbers;
}
// Returns some rows of a chunk.
Reduced rows_of(const Reduced& chunk, int64_t begin, int64_t count) {
  const TokenOutputs& all = chunk.outputs;
  return {{rows_of(all.logp, begin, count), rows_of(all.logsumexp, begin, count), rows_of(all.mean_logit, begin, count),
           rows_of(all.entropy, begin, count), {}},
          rows_of(chunk.log_probabilities, begin, count)};
}
TokenGrads rows_of(const TokenGrads& grads, int64_t begin, int64_t count) {
  return {rows_of(grads.logp, begin, count), rows_of(grads.logsumexp, begin, count), rows_of(grads.mean_logit, begin, count),
          rows_of(grads.entropy, begin, count)};
}

// Turns the log-probabilities into dz, in place; the entropy's gradient alone needs them beside the
// probabilities.
at::Tensor logits_grad(const Reduced& chunk, const at::Tensor& targets, const TokenGrads& grads) {
  at::Tensor dz = chunk.log_probabilities;
  at::Tensor coefficient = at::zeros_like(chunk.outputs.logsumexp);  // of p
  if (grads.logp.defined()) coefficient.sub_(grads.logp);
  if (grads.logsumexp.defined()) coefficient.add_(grads.logsumexp);
  if (grads.entropy.defined()) {
    // p (coefficient - g_entropy (z - sum p z)); z - sum p z = log p + entropy.
    at::Tensor factor = (dz + chunk.outputs.entropy.unsqueeze(1)).mul_(grads.entropy.neg().unsqueeze(1));
    dz.exp_().mul_(factor.add_(coefficient.unsqueeze(1)));
  } else {
    dz.exp_().mul_(coefficient.unsqueeze(1));
  }
  if (grads.logp.defined()) dz.scatter_add_(1, targets.unsqueeze(1), grads.logp.unsqueeze(1));
  if (grads.mean_logit.defined()) dz.add_((grads.mean_logit / dz.size(1)).unsqueeze(1));
  return dz;
}

// Like logits_grad(), for logits under a cap, some rows at a time: z = log p + lse, and the cap's
// slope needs tanh = z / cap.
at::Tensor capped_logits_grad(const Reduced& chunk, const at::Tensor& targets, const TokenGrads& grads, double softcap,
                              double temperature, const at::Tensor& space) {
  for (int64_t begin = 0; begin < targets.size(0); begin += kCapRows) {
    const int64_t count = std::min(kCapRows, targets.size(0) - begin);
    const Reduced some = rows_of(chunk, begin, count);
    at::Tensor bent = space.narrow(0, 0, count);
    at::add_out(bent, some.log_probabilities, some.outputs.logsumexp.unsqueeze(1));
    bent.mul_(temperature / softcap);
    at::Tensor dz = logits_grad(some, targets.narrow(0, begin, count), rows_of(grads, begin, count));
    at::tanh_backward_out(dz, dz, bent);
  }
  return chunk.log_probabilities;
}

void append(at::Tensor& whole, int64_t begin, int64_t total, const at::Tensor& part) {
  if (!part.defined()) return;
  if (!whole.defined()) whole = at::empty({total}, part.options());
  whole.narrow(0, begin, part.size(0)).copy_(part);
}

}  // namespace

void cap_logits(at::Tensor& logits, double softcap) {
  if (softcap != 0) logits.div_(softcap).tanh_().mul_(softcap);
}

TokenOutputs head_forward(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
                          const TokenNeeds& needs, const HeadMemory& memory) {
  c10::NoGradGuard no_grad;
  int64_t total = hidden.size(0);
  TokenOutputs whole;
  if (total == 0) return {};
  const ChunkMemory scratch = chunk_memory(hidden, weight, memory);
  const int64_t chunk = chunk_of(memory);
  for (int64_t begin = 0; begin < total; begin += chunk) {
    const int64_t count = std::min(chunk, total - begin);
    const at::Tensor y = targets.narrow(0, begin, count), product = chunk_product(hidden.narrow(0, begin, count), weight, scratch);
    const TokenOutputs part = hidden.is_cuda()
                                  ? reduce(chunk_logits(product, needs.temperature, memory.softcap, scratch), y, needs).outputs
                                  : reduce_in_place(product, y, needs, memory.softcap);
    using Numbers = TokenOutputs;
    for (at::Tensor Numbers::*of : {&Numbers::logp, &Numbers::logsumexp, &Numbers::mean_logit, &Numbers::entropy, &Numbers::top1})
      append(whole.*of, begin, total, part.*of);
  }
  return whole;
}

at::Tensor head_forward_backward(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
                                 const TokenNeeds& needs, const Cotangents& cotangents, const HeadMemory& memory,
                                 const at::Tensor& weight_grad) {
  c10::NoGradGuard no_grad;
  int64_t total = hidden.size(0);
  at::Tensor d_hidden = memory.d_hidden.defined() ? memory.d_hidden : at::empty_like(hidden);
  if (total == 0) return d_hidden;
  const ChunkMemory scratch = chunk_memory(hidden, weight, memory);
  const int64_t chunk = chunk_of(memory);
  for (int64_t begin = 0; begin < total; begin += chunk) {
    int64_t count = std::min(chunk, total - begin);
    at::Tensor rows = hidden.narrow(0, begin, count), y = targets.narrow(0, begin, count);
    at::Tensor dz = chunk_product(rows, weight, scratch);
    if (hidden.is_cuda()) {
      Reduced reduced = reduce(chunk_logits(dz, needs.temperature, memory.softcap, scratch), y, needs);
      const TokenGrads grads = cotangents(begin, reduced.outputs);
      dz = memory.softcap == 0 ? logits_grad(reduced, y, grads)
                               : capped_logits_grad(reduced, y, grads, memory.softcap, needs.temperature, scratch.capped);
      if (needs.temperature != 1) dz.div_(needs.temperature);
      if (scratch.wide.defined()) dz = scratch.product.narrow(0, 0, count).copy_(dz);
    } else {
      turn_in_place(dz, y, needs, memory.softcap, cotangents(begin, reduce_in_place(dz, y, needs, memory.softcap)));
    }
    at::Tensor slice = d_hidden.narrow(0, begin, count);
    multiply(slice, dz, weight);
    if (memory.bias_grad.defined()) memory.bias_grad.add_(dz.sum(at::IntArrayRef{0}, false, at::kFloat));
    if (!weight_grad.defined()) continue;
    at::Tensor grad = weight_grad;
    if (sums_in_fp32(hidden))
      multiply(grad, dz.t(), rows, /*add=*/true);
    else
      add_narrow(grad, at::mm(dz.t(), rows));
  }
  return d_hidden;
}

}  // namespace forge

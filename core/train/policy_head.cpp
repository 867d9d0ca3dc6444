#include "core/train/policy_head.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "core/base/error.h"
#include "core/plan/memory/memory.h"
#include "kernels/lm_head/lm_head.h"

namespace forge {
namespace {

// Results of the passes through the head, chunk by chunk.
struct Kept {
  explicit Kept(const at::Tensor& rows)
      : logp(at::empty({rows.size(0)}, rows.options().dtype(at::kFloat))), entropy(at::empty_like(logp)) {}
  void take(int64_t begin, const TokenOutputs& outputs) {
    logp.narrow(0, begin, outputs.logp.size(0)).copy_(outputs.logp);
    entropy.narrow(0, begin, outputs.logp.size(0)).copy_(outputs.entropy);
  }
  at::Tensor logp, entropy;
};

at::Tensor scaled(const std::vector<float>& values, double scale, c10::Device device) {
  at::Tensor result = at::tensor(values, at::kFloat);
  if (scale != 1) result.mul_(scale);
  return result.to(device);
}

}  // namespace

std::vector<double> host_doubles(const at::Tensor& values) {
  const at::Tensor copy = values.to(at::kCPU, at::kDouble).contiguous();
  return {copy.const_data_ptr<double>(), copy.const_data_ptr<double>() + copy.numel()};
}

at::Tensor policy_head_backward(const SequenceHead& head, const BatchTensors& batch, const PolicyTask& task,
                                PolicyRows& rows) {
  c10::NoGradGuard no_grad;
  const at::Tensor& hidden = head.rows.rows;
  const HeadMemory memory{.scratch = head.rows.scratch, .d_hidden = head.rows.d_rows, .softcap = head.softcap};
  const TokenNeeds needs{.logp = true, .entropy = true, .temperature = task.temperature};
  Kept kept(hidden);
  const auto fill = [&] {
    rows = {host_doubles(kept.logp), host_doubles(kept.entropy)};
  };
  const auto visit = [&](const at::Tensor& logp, const at::Tensor& entropy) {
    const auto known = [&](int64_t begin, const TokenOutputs& outputs) {
      kept.take(begin, outputs);
      const int64_t count = outputs.logp.size(0);
      return TokenGrads{.logp = logp.narrow(0, begin, count),
                        .entropy = entropy.defined() ? entropy.narrow(0, begin, count) : at::Tensor()};
    };
    return head_forward_backward(hidden, head.weight, batch.loss_targets, needs, known, memory, head.weight_grad);
  };
  if (!task.known.empty()) {
    FORGE_CHECK(static_cast<int64_t>(task.known.size()) == hidden.size(0), "cotangents of other positions");
    const at::Tensor d_rows = visit(scaled(task.known, task.loss_scale, hidden.device()), {});
    fill();
    return d_rows;
  }
  const bool twice = head.weight_grad.defined() || task.entropy;
  at::Tensor d_rows;
  if (twice) {
    kept.take(0, head_forward(hidden, head.weight, batch.loss_targets, needs, memory));
  } else {
    const auto unit = [&](int64_t begin, const TokenOutputs& outputs) {
      kept.take(begin, outputs);
      return TokenGrads{.logp = at::ones_like(outputs.logp)};
    };
    d_rows = head_forward_backward(hidden, head.weight, batch.loss_targets, needs, unit, memory, {});
  }
  fill();
  const PolicyCotangents cotangents = task.ask(rows.logps);
  const at::Tensor logp = scaled(cotangents.logp, task.loss_scale, hidden.device());
  if (!twice) return multiply_rows(d_rows, logp);
  return visit(logp, cotangents.entropy.empty() ? at::Tensor() : scaled(cotangents.entropy, task.loss_scale, hidden.device()));
}

}  // namespace forge

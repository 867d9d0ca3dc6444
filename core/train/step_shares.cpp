#include "core/train/step_shares.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>

#include "core/graph/ops.h"
#include "core/plan/memory/memory.h"
#include "core/tensor/dtype.h"
#include "kernels/product/multiply.h"

namespace forge {
namespace {

// Products of matrices whose operations are the same for any lengths of texts. Attention's are not among them.
bool multiplies(OpKind kind) {
  using enum OpKind;
  switch (kind) {
    case linear:
    case head:
    case evaluate:
    case adapter_sums:
    case expert_linear:
    case linear_input_gradient:
    case linear_weight_gradient:
    case adapter_gradient:
    case adapter_sums_gradient:
    case adapter_input_gradient:
    case expert_input_gradient:
    case expert_weight_gradient:
    case expert_adapter_gradient:
      return true;
    default:
      return false;
  }
}

}  // namespace

void StepShares::add(const StepSpan& span) {
  Share& share = ops_[span.name];
  share.seconds += span.seconds();
  if (!span.op || !multiplies(span.op->kind)) return;
  const StepSizes sizes{.tokens = span.tokens, .targets = span.targets, .compute_bytes = bytes_of(precision_)};
  share.operations += cost_of(*span.graph, *span.op, sizes, /*mean_length=*/0).flops;
}

Json StepShares::event(double seconds, double best_rate) const {
  Json ops = Json::array();
  double rest = seconds;
  for (const auto& [name, share] : ops_) {
    ops.push_back({{"name", name}, {"seconds", share.seconds}, {"operations", share.operations}});
    rest -= share.seconds;
  }
  std::sort(ops.begin(), ops.end(), [](const Json& a, const Json& b) { return a.at("seconds") > b.at("seconds"); });
  ops.push_back({{"name", "between ops"}, {"seconds", std::max(rest, 0.0)}, {"operations", 0}});
  return {{"event", "ops"}, {"seconds", seconds}, {"ops", ops}, {"best_product_rate", best_rate}};
}

double best_product_rate(Precision precision) {
  c10::NoGradGuard no_grad;
  double best = 0;
  for (const int64_t size : {1024, 2048}) {
    const auto options = at::TensorOptions().dtype(scalar_type(precision));
    const at::Tensor a = at::randn({size, size}, at::kFloat).to(options), b = at::randn({size, size}, at::kFloat).to(options);
    at::Tensor out = at::empty({size, size}, options);
    const auto side = static_cast<double>(size);
    const auto time = [&](const auto& product) {
      const auto begin = std::chrono::steady_clock::now();
      product();
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      best = std::max(best, 2 * side * side * side / seconds);
    };
    for (int turn = 0; turn < 6; ++turn) {
      time([&] { multiply(out, a, b); });
      time([&] { at::mm_out(out, a, b); });
    }
  }
  return best;
}

}  // namespace forge

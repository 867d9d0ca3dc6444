#include "kernels/call/step_weights.h"

#include <algorithm>

#include "core/lib/base/error.h"
#include "kernels/dora/dora_op.h"
#include "kernels/fp8/fp8_args.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rows/rows_args.h"

namespace forge {

StepWeights::StepWeights(ComputeDevice& device, const std::vector<ModuleUse>& uses, Element type, std::vector<OpModule> modules,
                         int32_t first)
    : device_(device), modules_(std::move(modules)), uses_(uses), type_(type), first_(first) {}

void StepWeights::reserve(bool ahead) {
  int64_t largest = 0, widest = 0;
  for (size_t i = 0; i < modules_.size(); ++i) {
    const ModuleUse& u = use(first_ + static_cast<int32_t>(i));
    if ((u.kind == ModuleKind::linear || u.kind == ModuleKind::experts) && converts(modules_[i]))
      largest = std::max(largest, u.in * u.out * (u.fp8 ? 1 : bytes_of(type_)));
    if (u.fp8) widest = std::max(widest, u.in);
  }
  if (widest > 0) {
    const std::vector<float> ones(static_cast<size_t>(widest), 1.0f);
    ones_ = DeviceBlock(device_, 4 * widest, "weight conversion");
    device_.write(ones_.as(), ones.data(), ones_.bytes());
  }
  converted_ = std::make_unique<WeightsAhead>(device_, largest, ahead,
                                              [this](int32_t module, void* to, Stream stream) { convert(module, to, stream); });
}

const void* StepWeights::expert_in_compute_type(const OpModule& module, int64_t expert, int64_t in, int64_t out) {
  FORGE_CHECK(module.weight, "experts in one tensor that lies in blocks");
  const void* own = static_cast<const char*>(module.weight) + expert * in * out * bytes_of(module.held);
  if (!converts(module)) return own;
  return converted_->at_once(
      [&](void* to, Stream stream) { device_.run(ConvertElements{module.held, type_, in * out, own, to}, stream); });
}

namespace {

// Visits the modules whose weights an op reads, in its order.
template <class Visit>
void each_weight(const Graph& graph, const Op& op, Visit visit) {
  const bool products = op.kind == &ops::linear || op.kind == &ops::linear_input_gradient;
  if (!products && op.kind != &ops::dora_ratio) return;
  for (size_t i = 0; i < op.modules.size(); ++i) {
    // It is multiplied in E4M3.
    if (op.kind == &ops::linear && graph.module(op, i).fp8) continue;
    if (products || graph.module(op, i).rank > 0) visit(op.modules[i]);
  }
}

}  // namespace

void StepWeights::begin(const Graph& list, size_t begin, size_t end) {
  auto [found, is_new] = orders_.try_emplace({&list, begin});
  if (is_new)
    for (size_t i = begin; i < end; ++i)
      each_weight(list, list.ops[i], [&](int32_t module) {
        if (converts((*this)[module])) found->second.push_back(module);
      });
  converted_->begin(found->second);
}

const void* StepWeights::in_compute_type(int32_t module) {
  const OpModule& m = (*this)[module];
  return converts(m) ? converted_->next(module) : m.weight;
}

void StepWeights::convert(int32_t module, void* to, Stream stream) {
  const OpModule& m = (*this)[module];
  const int64_t in = use(module).in, out = use(module).out;
  if (use(module).fp8)
    return device_.run(TransposeBytes{.rows = out, .columns = in, .x = m.blocks.codes, .y = static_cast<uint8_t*>(to)}, stream);
  if (m.weight) {
    FORGE_CHECK(m.stride == in, "a weight with gaps between its rows is converted");
    return device_.run(ConvertElements{m.held, type_, in * out, m.weight, to}, stream);
  }
  DequantizeBlocks blocks = m.blocks;
  blocks.type = type_, blocks.out = to, blocks.out_stride = in;
  device_.run(blocks, stream);
}

}  // namespace forge

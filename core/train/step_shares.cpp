#include "core/train/step_shares.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/graph/op_record.h"
#include "core/model/dtype.h"
#include "core/plan/memory/memory.h"
#include "kernels/call/arena.h"
#include "kernels/device/device_of.h"
#include "kernels/experts/expert_linear_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/lm_head/head_op.h"
#include "kernels/lora/folded_op.h"
#include "kernels/lora/lora_op.h"
#include "kernels/product/multiply.h"
#include "providers/fused/gpu_launches.h"

namespace forge {
namespace {

// True for products of matrices whose operations are the same for any lengths of texts. Attention's
// are not among them.
bool multiplies(OpKind kind) {
  constexpr OpKind kProducts[] = {&ops::linear,
                                  &ops::head,
                                  &ops::evaluate,
                                  &ops::adapter_sums,
                                  &ops::expert_linear,
                                  &ops::linear_input_gradient,
                                  &ops::linear_weight_gradient,
                                  &ops::adapter_gradient,
                                  &ops::adapter_sums_gradient,
                                  &ops::adapter_input_gradient,
                                  &ops::expert_input_gradient,
                                  &ops::expert_weight_gradient,
                                  &ops::expert_adapter_gradient};
  return std::find(std::begin(kProducts), std::end(kProducts), kind) != std::end(kProducts);
}

}  // namespace

StepShares::StepShares(Precision precision, const ComputeDevice& device) : sizes_(sizes_on(device, bytes_of(precision))) {
  sizes_.deterministic = at::globalContext().deterministicAlgorithms();
}

void StepShares::add(const StepSpan& span, double seconds) {
  Share& share = ops_[span.name];
  share.seconds += seconds;
  if (!span.op) return;
  StepSizes sizes = sizes_;
  sizes.tokens = span.tokens, sizes.targets = span.targets;
  if (sizes.gpu)
    for (const GpuLaunch& launch : gpu_launches(*span.graph, *span.op, sizes)) share.bytes += launch.bytes;
  if (multiplies(span.op->kind)) share.operations += cost_of(*span.graph, *span.op, sizes, /*mean_length=*/0).flops;
}

Json StepShares::event(double seconds, double best_rate) const {
  Json ops = Json::array();
  double rest = seconds;
  for (const auto& [name, share] : ops_) {
    ops.push_back({{"name", name}, {"seconds", share.seconds}, {"operations", share.operations}, {"bytes", share.bytes}});
    rest -= share.seconds;
  }
  std::sort(ops.begin(), ops.end(), [](const Json& a, const Json& b) { return a.at("seconds") > b.at("seconds"); });
  ops.push_back({{"name", "between ops"}, {"seconds", std::max(rest, 0.0)}, {"operations", 0}, {"bytes", 0}});
  return {{"event", "ops"}, {"seconds", seconds}, {"ops", ops}, {"best_product_rate", best_rate}};
}

namespace {

// Square matrices of random numbers, and the products of two of them.
class TimedProducts {
 public:
  TimedProducts(c10::Device where, Precision precision, int64_t side) : device_(device_of(where)), side_(side) {
    const auto options = at::TensorOptions().dtype(scalar_type(precision)).device(where);
    a_ = at::randn({side, side}, options.dtype(at::kFloat)).to(options);
    b_ = at::randn({side, side}, options.dtype(at::kFloat)).to(options);
    out_ = at::empty({side, side}, options);
  }

  // Return the seconds of a product on the device.
  double by_torch() { return time([&] { at::mm_out(out_, a_, b_); }); }
  double by_forge() { return time([&] { multiply(out_, a_, b_); }); }
  double by_table(Element type) {
    Gemm g{.type = type, .m = side_, .n = side_, .k = side_, .a = {a_.const_data_ptr(), side_}, .b = {b_.const_data_ptr(), side_}};
    g.out_type = type, g.out = out_.data_ptr(), g.out_stride = side_;
    return time([&] { device_.run(g); });
  }
  double operations() const { return 2 * std::pow(static_cast<double>(side_), 3); }

 private:
  double time(const std::function<void()>& product) {
    const Moment begin = device_.mark();
    product();
    const Moment end = device_.mark();
    return device_.seconds(begin, end);
  }

  ComputeDevice& device_;
  int64_t side_;
  at::Tensor a_, b_, out_;
};

double best_on_cpu(Precision precision) {
  double best = 0;
  for (const int64_t side : {1024, 2048}) {
    TimedProducts products(at::kCPU, precision, side);
    for (int turn = 0; turn < 6; ++turn)
      best = std::max(best, products.operations() / std::min(products.by_forge(), products.by_torch()));
  }
  return best;
}

// Multiplies matrices of growing sides, until a product takes a millisecond: larger ones are no
// quicker.
double best_on_gpu(c10::Device where, Precision precision) {
  constexpr double kLong = 1e-3;
  double best = 0;
  for (int64_t side = 256; side <= 16384; side *= 2) {
    TimedProducts products(where, precision, side);
    double least = products.by_table(element_of(scalar_type(precision)));  // and the library warms up
    for (int turn = 0; turn < 6; ++turn) least = std::min(least, products.by_table(element_of(scalar_type(precision))));
    best = std::max(best, products.operations() / least);
    if (least >= kLong) break;
  }
  return best;
}

}  // namespace

double best_product_rate(c10::Device where, Precision precision) {
  c10::NoGradGuard no_grad;
  return device_of(where).separate() ? best_on_gpu(where, precision) : best_on_cpu(precision);
}

}  // namespace forge

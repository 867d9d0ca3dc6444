#include "providers/gpu_speed.h"

#include <algorithm>
#include <cmath>

#include "core/graph/op_record.h"
#include "core/lib/base/text.h"
#include "core/model/families/step.h"
#include "core/plan/fit/offload.h"
#include "core/plan/plan.h"
#include "core/plan/stages/inventory.h"
#include "core/plan/stages/provider.h"
#include "kernels/attention/attention_op.h"
#include "kernels/fp8/fp8_op.h"
#include "kernels/call/call.h"
#include "kernels/linear/linear_op.h"
#include "providers/aten/aten_plan.h"

namespace forge {
namespace {

// Shares of the vendor's dense rate and of the memory's rate, and the time of a launch.
struct Shares {
  double products, attention, own_attention, memory, launch_seconds;
};
// A good run: cuBLAS on large shapes without power limits, FlashAttention 2's own figures, copies;
// launches enqueued ahead.
constexpr Shares kGood{0.75, 0.55, 0.3, 0.88, 2e-6};
// A poor run: small or odd shapes, clocks limited by power; launches that the host enqueues late.
constexpr Shares kPoor{0.42, 0.28, 0.1, 0.6, 6e-6};
// Products in 8 bits have twice the dense rate by the vendors' tables. The largest share of it that
// was published with scales a row: 1,125 of 1,979 TFLOP/s (pytorch/FBGEMM#2546, 8192³ on an H100).
constexpr double kFp8Rate = 2, kFp8Good = 0.57;

bool in_fp8(const Graph& graph, const Op& op) {
  return (op.kind == &ops::linear || op.kind == &ops::linear_input_gradient) && bind::any_fp8(graph, op);
}

// Launches and bytes of an op. An op without a list (gpu_launches.h) has three launches and the
// bytes of its values.
struct Traffic {
  double bytes = 0, launches = 3;
};
Traffic traffic_of(const Graph& step, const Op& op, const StepSizes& sizes, const GpuStep& held, const Cost& cost) {
  const std::vector<GpuLaunch> list = gpu_launches(step, op, sizes, held);
  if (list.empty()) return {cost.bytes};
  Traffic sum{0, 0};
  for (const GpuLaunch& launch : list) sum.bytes += launch.bytes, sum.launches += static_cast<double>(launch.launches);
  return sum;
}

// Returns the "Graphs" line. A graph is replayed for a micro-batch of the same tokens, targets,
// sequences and longest text (fused.cpp: StepKey), which micro-batches of unequal texts seldom
// have.
std::string graphs_line(const Plan& plan, const Graph& step, const StepSizes& sizes, const GpuStep& held) {
  if (plan.train.longest * plan.train.examples == plan.train.tokens) return "";
  double launches = 0;
  for (const Op& op : step.ops) launches += traffic_of(step, op, sizes, held, {}).launches;
  const auto milliseconds = [&](const Shares& s) { return format_number(std::ceil(launches * s.launch_seconds * 1e4) / 10); };
  return "Graphs: seldom replayed, since texts of unequal lengths make no two micro-batches alike; the host queues some " +
         format_count(static_cast<int64_t>(launches)) + " launches for each, " + milliseconds(kGood) + " to " + milliseconds(kPoor) +
         " ms of its time.\n";
}

double seconds_of(const Graph& step, const StepSizes& sizes, double mean_length, const GpuCard& card,
                  const GpuStep& held, const Shares& s, double pcie) {
  const double tensor =
      sizes.compute_bytes == 4 ? card.fp32_tflops : std::max(card.bf16_tflops, card.fp16_tflops);
  double forward = 0, backward = 0;
  for (size_t i = 0; i < step.ops.size(); ++i) {
    const Op& op = step.ops[i];
    double& seconds = i < step.forward_ops ? forward : backward;
    const Cost cost = cost_of(step, op, sizes, mean_length);
    const auto [bytes, launches] = traffic_of(step, op, sizes, held, cost);
    double arithmetic = 0;
    const bool attention = op.kind == &ops::attention || op.kind == &ops::attention_backward;
    if (in_fp8(step, op))
      arithmetic = cost.flops / (kFp8Rate * tensor * 1e12 * std::min(s.products, kFp8Good));
    else if (is_product(op.kind))
      arithmetic = cost.flops / (tensor * 1e12 * s.products);
    if (attention && (op.attributes.softcap != 0 || op.attributes.window > 0))
      arithmetic = cost.flops / (card.fp32_tflops * 1e12 * s.own_attention);
    else if (attention)
      arithmetic = cost.flops / (tensor * 1e12 * s.attention);
    seconds +=
        std::max(arithmetic, bytes / (card.bandwidth_gbs * 1e9 * s.memory)) + launches * s.launch_seconds;
  }
  return std::max(forward, pcie) + std::max(backward, pcie);
}

// Rounds to three digits: an estimate has no more.
std::string rounded(double rate) {
  double unit = 1;
  while (rate / unit >= 100) unit *= 10;
  return format_count(static_cast<int64_t>(rate / unit + 0.5) * static_cast<int64_t>(unit));
}

}  // namespace

SpeedRange gpu_speed(const Graph& step, const StepSizes& sizes, double mean_length, const GpuCard& card,
                     const GpuStep& held, const PcieSeconds& beside) {
  const auto tokens = static_cast<double>(sizes.tokens);
  return {tokens / seconds_of(step, sizes, mean_length, card, held, kPoor, beside.poor),
          tokens / seconds_of(step, sizes, mean_length, card, held, kGood, beside.good)};
}

std::string speed_line(const Plan& plan, const Provider& provider) {
  if (!plan.device.cuda || plan.engine == kNoEngine || provider.aten || plan.training_batch.tokens == 0) return "";
  const GpuCard* card = gpu_card_of(plan.device.gpu);
  if (!card) return "";
  const StepSizes sizes{.tokens = plan.training_batch.tokens,
                        .targets = plan.training_batch.targets,
                        .compute_bytes = bytes_of(*plan.job.train.precision),
                        .gpu = true,
                        .multiprocessors = multiprocessors_of(plan.device),
                        .capability = plan.device.gpu.compute_capability,
                        .deterministic = plan.job.train.deterministic};
  const double length =
      static_cast<double>(plan.train.tokens) / static_cast<double>(std::max<int64_t>(1, plan.train.examples));
  const Quantization quantization = plan.job.model.quantization;
  const GpuStep held{quantization != Quantization::none && quantization != Quantization::fp8,
                     plan.storage != *plan.job.train.precision};
  const Inventory inventory = inventory_of(plan);
  const Graph& step = inventory.lists->training(plan.step);
  if (asks_aten(step, sizes)) return "";
  SpeedRange speed = gpu_speed(step, sizes, length, *card, held, activation_seconds(plan));
  // The copies run once for all micro-batches of a step.
  const TrainConfig& train = plan.job.train;
  const PcieSeconds pcie = state_seconds(plan);
  const double tokens = static_cast<double>(sizes.tokens) *
                        std::max(1.0, static_cast<double>(*train.global_batch_size) / static_cast<double>(*train.micro_batch_size));
  speed = {1 / (1 / speed.low + pcie.poor / tokens), 1 / (1 / speed.high + pcie.good / tokens)};
  return "Speed: " + rounded(speed.low) + " to " + rounded(speed.high) +
         " tokens/s, an estimate: nobody has measured forge on a " + card->name +
         ". From the step's arithmetic, bytes and launches and the vendor's rates" + (plan.host_memory.empty() ? "" : ", and PCIe at 10 to 24 GB/s each way") +
         " (docs/estimates.md).\n" + graphs_line(plan, step, sizes, held);
}

}  // namespace forge

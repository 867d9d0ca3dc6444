#include "core/train/fp8_gate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/data/batch/order.h"
#include "core/lib/base/format.h"
#include "core/lib/base/text.h"
#include "core/lib/tensor/device.h"
#include "core/model/dtype.h"
#include "core/plan/stages/fp8.h"
#include "core/train/other_networks.h"
#include "core/train/layer_by_layer.h"

namespace forge {
namespace {

// Returns the parts of the data's batches, as the run itself has them.
Parts parts_of(const Plan& plan, const DataSet& data, bool evaluates) {
  const std::vector<int64_t> lengths = data.atom_lengths();
  if (evaluates)
    return fill_in_order(numbers_below(std::ssize(lengths)), lengths, evaluation_tokens(plan));
  Parts parts;
  for (const std::vector<int64_t>& step : epoch_steps(lengths, plan.job, 0))
    for (std::vector<int64_t>& part : micro_batches(step, lengths, plan.job)) parts.push_back(std::move(part));
  return parts;
}

// Returns whole batches until they have kFp8GateTokens. Skips batches that are larger than memory
// was planned for: no step of the run will train on those.
std::vector<Batch> first_batches(const Plan& plan, const DataSet& data, bool evaluates) {
  const BatchRoom& room = evaluates ? plan.evaluation_batch : plan.training_batch;
  std::vector<Batch> batches;
  int64_t tokens = 0;
  for (const std::vector<int64_t>& part : parts_of(plan, data, evaluates)) {
    if (tokens >= kFp8GateTokens) break;
    Batch batch = make_batch(data, part);
    if (batch.tokens() > room.tokens || batch.supervised_tokens() > room.targets) continue;
    tokens += batch.tokens();
    batches.push_back(std::move(batch));
  }
  return batches;
}

// Appends logp of the supervised tokens of one batch.
void append(std::vector<float>& all, const at::Tensor& logps) {
  if (!logps.defined()) return;
  const at::Tensor host = logps.to(at::kCPU, at::kFloat).contiguous();
  all.insert(all.end(), host.const_data_ptr<float>(), host.const_data_ptr<float>() + host.numel());
}

std::string percent_text(double share) { return fmt::format("{:.2g} %", 100 * share); }

// Returns the least number of two digits that allows `difference`.
std::string allowance(double difference) {
  const double unit = std::pow(10, std::floor(std::log10(difference)) - 1);
  return fmt::format("{:.2g}", std::ceil(difference / unit) * unit);
}

}  // namespace

Fp8Gate::Fp8Gate(const Plan& plan, const DataSet& train, const DataSet& eval)
    : plan_(plan), evaluates_(plan.eval.examples > 0), batches_(first_batches(plan, evaluates_ ? eval : train, evaluates_)) {}

void Fp8Gate::read_file(const StopFlag& stop) {
  const c10::Device device = open_device(plan_.device_name());
  limit_device_memory(device, plan_.memory_limit());
  set_threads(*plan_.job.train.threads);
  const c10::ScalarType type = scalar_type(*plan_.job.train.precision);
  const auto file = open_base(plan_.job.model, plan_.job.seed, plan_.model);
  std::vector<BatchTensors> batches;
  for (const Batch& batch : batches_) batches.push_back(to_tensors(batch, plan_.model, type, device));
  for (const at::Tensor& logps : logps_layer_by_layer(*file, plan_.model, residual_of(plan_.job), type, device, batches, stop))
    append(file_logps_, logps);
  release_product_memory(device);  // the run has a stream of its own
}

Json Fp8Gate::compare(Session& session, const StopFlag& stop) const {
  std::vector<float> logps;
  int64_t tokens = 0;
  std::optional<BaseModel> base(std::in_place, session);
  for_each_part(session.world, batches_, stop, [&](const Batch& batch) {
    append(logps, base->network().rows(to_tensors(batch, session.plan.model, session.model.type, session.device)).logp);
    tokens += batch.tokens();
  });
  base.reset();
  session.arena->reset();  // memory of the evaluation; nothing before the first step needs it
  if (!reads_base(session.job)) session.base.reset();
  FORGE_CHECK(logps.size() == file_logps_.size(), "two passes over " << file_logps_.size() << " and " << logps.size() << " tokens");
  return fp8_gate_event(file_logps_, logps, {{"tolerance", plan_.job.model.fp8_tolerance}, {"split", evaluates_ ? "eval" : "train"}, {"tokens", tokens}});
}

Json fp8_gate_event(const std::vector<float>& file, const std::vector<float>& fp8, Json event) {
  const auto count = static_cast<double>(file.size());
  double loss = 0, fp8_loss = 0, squares = 0;
  for (size_t i = 0; i < file.size(); ++i) {
    const double more = static_cast<double>(file[i]) - static_cast<double>(fp8[i]);
    loss -= file[i];
    fp8_loss -= fp8[i];
    squares += more * more;
  }
  loss /= count, fp8_loss /= count;
  const double mean = fp8_loss - loss, variance = std::max(0.0, squares / count - mean * mean);
  event["event"] = "fp8_gate";
  event["loss"] = loss;
  event["fp8_loss"] = fp8_loss;
  event["difference"] = std::abs(mean) / loss;
  event["standard_error"] = std::sqrt(variance / count) / loss;
  event["supervised_tokens"] = file.size();
  return event;
}

void require_close(const Json& gate) {
  const double difference = gate.at("difference"), error = gate.at("standard_error"), tolerance = gate.at("tolerance"), most = difference + 2 * error;
  if (most <= tolerance) return;  // not a number is past any limit
  const std::string losses = fmt::format("{:.5f} with the file's weights and {:.5f} in fp8",
                                         gate.at("loss").get<double>(), gate.at("fp8_loss").get<double>());
  throw Error(ErrorKind::gate, "model.quantization: fp8: the base's loss is " + losses + ", on " +
                                   format_count(gate.at("supervised_tokens").get<int64_t>()) + " tokens of data." + gate.at("split").get<std::string>() +
                                   ": they differ by " + percent_text(difference) + ", by up to " + percent_text(most) +
                                   " with twice the standard error, and at most " + percent_text(tolerance) + " is allowed (model.fp8_tolerance)")
      .hint("use model.quantization: nf4, int8 or none" +
            (std::isfinite(most) && most <= 1 ? "; or allow as much with model.fp8_tolerance: " + allowance(most) : std::string()));
}

}  // namespace forge

#include "core/train/optim/optimizer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstring>

#include "core/lib/base/error.h"
#include "core/model/families/trained_layout.h"
#include "kernels/device/device_of.h"

namespace forge {
namespace {

// Arrays packed into one block of bytes, each aligned to 16 bytes.
class Packed {
 public:
  template <class T>
  int64_t add(const T* values, size_t count) {
    const size_t at = (bytes_.size() + 15) / 16 * 16;
    bytes_.resize(at + count * sizeof(T));
    std::memcpy(bytes_.data() + at, values, count * sizeof(T));
    return static_cast<int64_t>(at);
  }
  const std::vector<char>& bytes() const { return bytes_; }

 private:
  std::vector<char> bytes_;
};

// Allocates zeros in the host's memory, at an address that the device's kernels can read and write.
at::Tensor zeros_on_host(ComputeDevice& device, int64_t count, c10::ScalarType type) {
  const auto bytes = count * static_cast<int64_t>(c10::elementSize(type));
  if (bytes == 0) return at::zeros({0}, type);
  void* memory = device.allocate_on_host(bytes, "optimizer state");
  device.host_touches(memory, bytes, /*writes=*/true);
  std::memset(memory, 0, static_cast<size_t>(bytes));
  return at::from_blob(memory, {count}, [&device](void* at) { device.release_on_host(at); }, at::TensorOptions().dtype(type));
}

}  // namespace

Optimizer::Optimizer(const OptimizerConfig& config, double lora_plus_ratio, TrainableSet& trainables)
    : trainables_(trainables),
      device_(device_of(trainables.master().device())),
      rule_(rule_of(config)),
      has_kernel_(has_update_kernel(config.type) && trainables.master().scalar_type() == at::kFloat),
      offloaded_(config.offload == Offload::host) {
  FORGE_CHECK(has_kernel_ || !offloaded_, "the plan offloads state that LibTorch's operations update");
  const TrainedLayout& layout = trainables.layout();
  const auto options = trainables.master().options();
  for (const StatePart& part : layout.state) {
    const c10::ScalarType type = part.bytes_only ? at::kByte : at::kFloat;
    states_.push_back(offloaded_ ? zeros_on_host(device_, part.values, type) : at::zeros({part.values}, options.dtype(type)));
  }
  for (const TrainedSlice& slice : layout.slices) {
    const bool alone = slice.state == StateKind::matrix || by_parameter(rule_);
    if (stretches_.empty() || alone || stretches_.back().update.kind != slice.state)
      stretches_.push_back({.begin = slice.offset, .slice = &slice - layout.slices.data()});
    Stretch& stretch = stretches_.back();
    UpdateStretch& update = stretch.update;
    update.kind = slice.state;
    if (alone) update.elements = slice.parameter.count(), update.rows = slice.rows(), update.columns = slice.columns();
    const auto factor = static_cast<float>(slice.parameter.role == Role::lora_b ? lora_plus_ratio : 1);
    const auto decay = static_cast<float>(slice.parameter.weight_decay ? config.weight_decay : 0);
    const int64_t end = slice.offset + slice.padded - stretch.begin;
    if (!update.ends.empty() && update.rate_factors.back() == factor && update.decays.back() == decay) {
      update.ends.back() = end;
    } else {
      update.ends.push_back(end), update.rate_factors.push_back(factor), update.decays.push_back(decay);
    }
  }
  for (Stretch& stretch : stretches_)
    for (size_t i = 0; i < layout.state.size(); ++i) {
      const StatePart& part = layout.state[i];
      if (part.kind != stretch.update.kind) continue;
      const TrainedSlice& slice = layout.slices[static_cast<size_t>(stretch.slice)];
      const int64_t count = part.of == StatePart::Of::element ? stretch.update.ends.back() / part.block : part.count(slice);
      stretch.update.state.push_back(states_[i].narrow(0, part.begin(slice), count));
    }
  place_numbers();
}

// Copies the settings to the device once: of them only the verdict and the step's numbers change
// from step to step.
void Optimizer::place_numbers() {
  if (!device_.separate()) {
    signed_map_ = state_map(true), unsigned_map_ = state_map(false);
    for (Stretch& s : stretches_)
      s.update.ranges = {s.update.ends.data(), s.update.rate_factors.data(), s.update.decays.data()};
    return;
  }
  constexpr size_t kMap = 256;
  Packed packed;
  packed.add(verdict_.numbers.data(), verdict_.numbers.size());
  numbers_at_ = packed.add(&numbers_, 1);
  const int64_t maps[] = {packed.add(state_map(true), kMap), packed.add(state_map(false), kMap)};
  std::vector<std::array<int64_t, 3>> ranges;
  for (const Stretch& s : stretches_) {
    const UpdateStretch& u = s.update;
    ranges.push_back({packed.add(u.ends.data(), u.ends.size()), packed.add(u.rate_factors.data(), u.rate_factors.size()),
                      packed.add(u.decays.data(), u.decays.size())});
  }
  separate_ = DeviceBlock(device_, static_cast<int64_t>(packed.bytes().size()), "optimizer settings");
  device_.write(separate_.as(), packed.bytes().data(), separate_.bytes());
  const auto numbers = [&](int64_t at) { return reinterpret_cast<const float*>(separate_.as() + at); };
  signed_map_ = numbers(maps[0]), unsigned_map_ = numbers(maps[1]);
  for (size_t i = 0; i < stretches_.size(); ++i)
    stretches_[i].update.ranges = {reinterpret_cast<const int64_t*>(separate_.as() + ranges[i][0]), numbers(ranges[i][1]),
                                   numbers(ranges[i][2])};
}

std::vector<at::Tensor>& Optimizer::states() {
  if (!offloaded_) return states_;  // LibTorch copies them in the device's order
  device_.synchronize(Stream::compute);
  for (const at::Tensor& state : states_)
    if (state.numel() > 0) device_.host_touches(state.data_ptr(), static_cast<int64_t>(state.nbytes()), /*writes=*/true);
  return states_;
}

int64_t Optimizer::norm_workspace() const { return device_.workspace(FlatNorm{.count = trainables_.elements()}); }

// Writes a step's numbers to the memory that the device reads, and returns their address there.
const Optimizer::StepNumbers* Optimizer::place(const StepNumbers& numbers) {
  numbers_ = numbers;
  if (!device_.separate()) return &numbers_;
  device_.write(separate_.as() + numbers_at_, &numbers_, sizeof numbers_);
  return reinterpret_cast<const StepNumbers*>(separate_.as() + numbers_at_);
}

const GradientVerdict& Optimizer::measure(double unscale, double max_norm, void* workspace) {
  trainables_.hand_on_gradients();
  const at::Tensor& grad = trainables_.grad();
  const FlatNorm args{.count = grad.numel(),
                      .grad = grad.const_data_ptr<float>(),
                      .unscale = &place({static_cast<float>(unscale), {}})->unscale,
                      .max_norm = static_cast<float>(max_norm),
                      .verdict = verdict(),
                      .workspace = workspace};
  norm_captures_.run(device_, args, [&] { device_.run(args); });
  if (device_.separate())
    device_.read(verdict_.numbers.data(), verdict(), static_cast<int64_t>(sizeof verdict_.numbers));
  return verdict_;
}

// Notes a learning rate and returns the share of its point in the average. The points are weighted
// by the square of the largest rate so far.
double Optimizer::note_rate(double rate) {
  if (average.weights == 0)  // the first point is where training begins
    for (size_t i = 0; i < states_.size(); ++i)
      if (trainables_.layout().state[i].name == "z") states_[i].copy_(trainables_.master());
  average.largest_rate = std::max(average.largest_rate, rate);
  const double weight = average.largest_rate * average.largest_rate;
  average.weights += weight;
  return average.weights > 0 ? weight / average.weights : 0;
}

// The average is x = y + (1 − 1/β₁)(z − y).
void Optimizer::show_average() {
  const auto* rule = std::get_if<ScheduleFree>(&rule_);
  if (!rule || average.weights == 0) return;
  c10::NoGradGuard no_grad;
  if (!trainables_.grad().defined()) trainables_.zero_grad();
  hidden_ = trainables_.grad().copy_(trainables_.master());
  for (int64_t begin = 0; begin < hidden_.numel(); begin += kUpdateChunk) {
    const auto part = [&](const at::Tensor& flat) { return flat.narrow(0, begin, std::min(kUpdateChunk, flat.numel() - begin)); };
    part(trainables_.master()).copy_(at::lerp(part(hidden_), part(states_[0]), 1 - 1 / rule->beta1));
  }
  trainables_.publish();
}

void Optimizer::hide_average() {
  if (!hidden_.defined()) return;
  c10::NoGradGuard no_grad;
  trainables_.master().copy_(hidden_);
  hidden_.reset();
  trainables_.publish();
}

void Optimizer::update(double learning_rate, int64_t updates) {
  c10::NoGradGuard no_grad;
  const StepNumbers* numbers = place({numbers_.unscale, numbers_of(rule_, learning_rate, updates)});
  UpdateStep step{learning_rate, &numbers->update, updates, verdict_.numbers.data(), verdict(), signed_map_, unsigned_map_};
  if (std::holds_alternative<ScheduleFree>(rule_)) step.average_share = note_rate(learning_rate);
  for (Stretch& stretch : stretches_) {
    UpdateStretch& update = stretch.update;
    const int64_t count = update.ends.back();
    update.weight = trainables_.master().narrow(0, stretch.begin, count);
    update.grad = trainables_.grad().narrow(0, stretch.begin, count);
    if (trainables_.copy().defined()) update.copy = trainables_.copy().narrow(0, stretch.begin, count);
  }
  const auto queue = [&] {
    for (Stretch& stretch : stretches_) update_by_kernels(device_, rule_, step, stretch.update);
  };
  const at::Tensor &weight = trainables_.master(), &copy = trainables_.copy();
  if (has_kernel_)
    update_captures_.run(device_, {weight.data_ptr(), trainables_.grad().data_ptr(), copy.defined() ? copy.data_ptr() : nullptr}, queue);
  else
    queue();
  trainables_.note_change();
}

}  // namespace forge

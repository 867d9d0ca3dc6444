#include "core/families/trained_layout.h"

namespace forge {
namespace {

constexpr int64_t kLineElements = 16;         // 64 bytes of fp32
constexpr int64_t kStateBlockElements = 256;  // that share the scale of their 8-bit state
constexpr int64_t kFewestCoded = 4096;        // bitsandbytes' min_8bit_size

std::vector<StatePart> parts_of(const OptimizerConfig& optimizer) {
  switch (optimizer.type) {
    case OptimizerType::adamw:
      return {{"exp_avg"}, {"exp_avg_sq"}};
    case OptimizerType::adamw_8bit:
      return {{"exp_avg"},
              {"exp_avg_sq"},
              {"exp_avg_8bit", true, true},
              {"exp_avg_sq_8bit", true, true},
              {"exp_avg_absmax", true, false, kStateBlockElements},
              {"exp_avg_sq_absmax", true, false, kStateBlockElements}};
    case OptimizerType::lion:
      return {{"exp_avg"}};
    case OptimizerType::sgd:
      break;
  }
  return optimizer.momentum > 0 ? std::vector<StatePart>{{"momentum"}} : std::vector<StatePart>{};
}

}  // namespace

int64_t TrainedLayout::state_bytes() const {
  int64_t bytes = 0;
  for (const StatePart& part : state) bytes += part.bytes();
  return bytes;
}

int64_t TrainedLayout::update_bytes(int64_t copy_bytes) const {
  return elements * (4 + 4 + 4 + copy_bytes) + 2 * state_bytes();
}

TrainedLayout trained_layout(const std::vector<Parameter>& parameters, const OptimizerConfig& optimizer) {
  const bool coded = optimizer.type == OptimizerType::adamw_8bit;
  const int64_t line = coded ? kStateBlockElements : kLineElements;  // a block belongs to one tensor
  TrainedLayout layout;
  int64_t wide_state = 0, coded_state = 0;
  for (const Parameter& parameter : parameters) {
    if (!parameter.trainable) continue;
    TrainedSlice slice{parameter, layout.elements, (parameter.count() + line - 1) / line * line};
    slice.coded = coded && parameter.role != Role::embedding && parameter.count() >= kFewestCoded;
    int64_t& state = slice.coded ? coded_state : wide_state;
    slice.state_offset = state;
    state += slice.padded;
    layout.elements += slice.padded;
    layout.slices.push_back(std::move(slice));
  }
  layout.state = parts_of(optimizer);
  for (StatePart& part : layout.state) part.values = (part.coded ? coded_state : wide_state) / part.block;
  std::erase_if(layout.state, [](const StatePart& part) { return part.values == 0; });
  return layout;
}

std::vector<double> default_betas(OptimizerType type) {
  return type == OptimizerType::lion ? std::vector<double>{0.9, 0.99} : std::vector<double>{0.9, 0.999};
}

}  // namespace forge

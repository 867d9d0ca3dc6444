#include "providers/fused/text_states.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "core/lib/base/error.h"
#include "providers/fused/state_sizes.h"

namespace forge {

TextStates::TextStates(const ModelSpec& spec, c10::ScalarType type, c10::Device device)
    : spec_(spec),
      type_(type),
      device_(device),
      offsets_(static_cast<size_t>(spec.num_layers), -1) {
  const int64_t bytes = state_sizes(spec, static_cast<int64_t>(c10::elementSize(type))).bytes();
  int64_t next = 0;
  for (int64_t layer : spec.delta_layers)
    offsets_[static_cast<size_t>(layer)] = std::exchange(next, next + bytes);
}

void TextStates::open(int64_t sequence) {
  if (!spec_.recurrent()) return;
  if (sequence >= static_cast<int64_t>(slots_.size()))
    slots_.resize(static_cast<size_t>(sequence) + 1);
  at::Tensor& slot = slots_[static_cast<size_t>(sequence)];
  if (slot.defined()) return;
  if (free_.empty()) {
    const int64_t layer = state_sizes(spec_, static_cast<int64_t>(c10::elementSize(type_))).bytes();
    slot = at::empty({layer * static_cast<int64_t>(spec_.delta_layers.size())},
                     at::TensorOptions(device_).dtype(at::kByte));
    return;
  }
  slot = free_.back();
  free_.pop_back();
}

void TextStates::fork(int64_t from, int64_t to) {
  if (!spec_.recurrent()) return;
  open(std::max(from, to)), open(to);
  slots_[static_cast<size_t>(to)].copy_(slot(from));
}

void TextStates::release(int64_t sequence) {
  if (sequence >= static_cast<int64_t>(slots_.size()) || !slot(sequence).defined()) return;
  free_.push_back(std::exchange(slots_[static_cast<size_t>(sequence)], at::Tensor()));
}

StatePlaces TextStates::places(const std::vector<int64_t>& sequences, bool begins) const {
  StatePlaces places{.offsets = offsets_, .begins = begins};
  places.columns_bytes = state_sizes(spec_, static_cast<int64_t>(c10::elementSize(type_))).columns;
  for (int64_t sequence : sequences)
    places.slots.push_back(static_cast<char*>(slot(sequence).data_ptr()));
  return places;
}

at::Tensor TextStates::columns(int64_t sequence, int64_t layer) const {
  const int64_t count = (spec_.conv_width - 1) * spec_.conv_channels();
  const at::Tensor bytes =
      slot(sequence).narrow(0, offsets_[static_cast<size_t>(layer)],
                            count * static_cast<int64_t>(c10::elementSize(type_)));
  return bytes.view(type_).view({spec_.conv_width - 1, spec_.conv_channels()});
}

at::Tensor TextStates::matrices(int64_t sequence, int64_t layer) const {
  const StateSizes sizes = state_sizes(spec_, static_cast<int64_t>(c10::elementSize(type_)));
  return slot(sequence)
      .narrow(0, offsets_[static_cast<size_t>(layer)] + sizes.columns, sizes.matrices)
      .view(at::kFloat)
      .view({spec_.delta_value_heads, spec_.delta_key_dim, spec_.delta_value_dim});
}

int64_t TextStates::bytes() const {
  int64_t sum = 0;
  for (const auto* slots : {&slots_, &free_})
    for (const at::Tensor& slot : *slots) sum += slot.defined() ? slot.numel() : 0;
  return sum;
}

}  // namespace forge

#pragma once
// Helpers that the launchers of thin_kernel share.
#include "kernels/device/dispatch.cuh"
#include "kernels/lora/folded.cuh"
#include "kernels/lora/folded_space.h"

namespace forge {

// Returns all arguments but the operands and the scales of ranks.
template <class T>
ThinArgs<T> cut_on_device(const ThinCut& cut, int64_t tokens, void* workspace, uint32_t* counters) {
  ThinArgs<T> a{};
  a.partial = as<float>(workspace), a.counters = counters;
  a.tokens = tokens, a.tokens_each = cut.tokens_each, a.columns_each = cut.tiles * kThinColumns;
  a.parts = static_cast<int64_t>(cut.parts.size());
  for (size_t i = 0; i < cut.parts.size(); ++i) {
    const ThinPart& p = cut.parts[i];
    a.part[i] = {p.columns_from, p.columns, p.rank_from, p.ranks, p.first_block, p.blocks, p.sums_at, p.gradient_at, 0, nullptr};
  }
  return a;
}

inline LaunchShape thin_shape(const ThinCut& cut) {
  return {static_cast<unsigned>(cut.column_blocks), kThinThreads, 0, static_cast<unsigned>(cut.token_blocks)};
}

// Calls action(Type<bf16>{}), or action with the type of fp16.
template <class Action>
void dispatch_narrow(Element type, Action action) {
  if (type == Element::bf16)
    action(Type<bf16>{});
  else
    action(Type<fp16>{});
}

// Calls action(Width<a factor's ranks by eights>{}).
template <class Action>
void dispatch_eights(int64_t ranks, Action action) {
  if (ranks <= 16) return action(Width<2>{});
  if (ranks <= 32) return action(Width<4>{});
  action(Width<8>{});
}

}  // namespace forge

#pragma once
// A pass over parts of the data: the micro-batches of a step, the batches of an evaluation.
//
//   for_each_part(session.world, micro_batches, stop, [&](const std::vector<int64_t>& atoms) { … });
#include <cstddef>

#include "core/train/stop.h"

namespace forge {

// The processes that train one model together, and which of them this one is.
struct World {
  size_t rank = 0, size = 1;

  // True if this rank computes the part: they are dealt in turn.
  bool has(size_t part) const { return part % size == rank; }
};

// Calls work(part) for this rank's parts in their order. Throws StepInterrupted before the next one
// when a stop was asked for.
template <typename Parts, typename Work>
void for_each_part(const World& world, const Parts& parts, const StopFlag& stop, const Work& work) {
  size_t index = 0;
  for (const auto& part : parts) {
    if (!world.has(index++)) continue;
    stop.interrupt_if_requested();
    work(part);
  }
}

}  // namespace forge

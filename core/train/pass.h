#pragma once
// A pass over parts of the data: the micro-batches of a step, the batches of an evaluation, the
// steps of epochs. A request to stop ends it between two parts.
//
//   for_each_part(session.world, micro_batches, stop, [&](const std::vector<int64_t>& atoms) { … });
#include <atomic>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "core/lib/base/error.h"

namespace forge {

// Thrown between parts of a step when a stop was asked for; the step has not happened. The partial
// step is dropped, so that every checkpoint is of a completed step and a resumed run is bit-equal.
struct StepInterrupted {};

// Set by a signal or by the end of the program.
struct StopFlag {
  std::atomic<bool> requested{false};
  // Set while somebody looks at `requested` and ends at the next safe point. Otherwise nothing is
  // there to save, and a request ends the process at once (engine/main.cpp).
  std::atomic<bool> watched{false};

  void interrupt_if_requested() const {
    if (requested) throw StepInterrupted{};
  }
};

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

// Returns 0, 1, … count − 1: all parts of a kind, in order.
inline std::vector<int64_t> numbers_below(int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// Steps, or other lists of rows, of epoch after epoch, by their number from 0. Epochs differ in how
// many they have, so each is laid out once in turn.
class Epochs {
 public:
  using Lists = std::vector<std::vector<int64_t>>;
  // `of` names the lists; `lay_out` returns those of an epoch.
  Epochs(const char* of, std::function<Lists(int64_t epoch)> lay_out) : of_(of), lay_out_(std::move(lay_out)) {}

  const std::vector<int64_t>& operator[](int64_t number) {
    if (number < begin_) epoch_ = -1, begin_ = 0, lists_.clear();
    while (number >= begin_ + static_cast<int64_t>(lists_.size())) {
      begin_ += static_cast<int64_t>(lists_.size());
      lists_ = lay_out_(++epoch_);
      FORGE_CHECK(!lists_.empty(), "an epoch without " << of_);
    }
    return lists_[static_cast<size_t>(number - begin_)];
  }

 private:
  const char* of_;
  std::function<Lists(int64_t)> lay_out_;
  int64_t epoch_ = -1, begin_ = 0;  // the epoch at hand and the number of its first list
  Lists lists_;
};

}  // namespace forge

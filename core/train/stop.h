#pragma once
// Request to stop a run, and the exception that ends the step that it interrupts.
#include <atomic>

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

}  // namespace forge

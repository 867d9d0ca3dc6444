#pragma once
// The gate of model.quantization: fp8. Before its first step a fresh run compares the base's loss as the file has it with that of the base
// in fp8, both on the first tokens that it would evaluate on or, without those, train on, and goes no farther unless these tokens show that
// they differ by no more than model.fp8_tolerance.
//
//   Fp8Gate gate(plan, train, eval);
//   gate.read_file(stop);                       // the base is not in memory yet
//   session = open_session(plan, {.base = true}, emit);
//   const Json event = gate.compare(*session, stop);
//   record(event);
//   require_close(event);                       // throws Error(gate)
#include "core/data/dataset.h"
#include "core/train/step.h"

namespace forge {

class Fp8Gate {
 public:
  // `eval` may be empty.
  Fp8Gate(const Plan& plan, const DataSet& train, const DataSet& eval);

  // logp under the file's own weights, layer by layer. Throws StepInterrupted.
  void read_file(const StopFlag& stop);
  // The same under the session's base, which is let go where nobody else reads it; → the event fp8_gate, past the limit too, for
  // `require_close`. Throws StepInterrupted.
  Json compare(Session& session, const StopFlag& stop) const;

 private:
  const Plan& plan_;
  const bool evaluates_;
  const std::vector<Batch> batches_;
  std::vector<float> file_logps_;
};

// The event, to which `event` gives what it does not know: of each supervised token its logp under both.
Json fp8_gate_event(const std::vector<float>& file, const std::vector<float>& fp8, Json event);
// Throws Error(gate) for such an event whose losses may differ by more than the limit: two standard errors more than they do on these tokens.
void require_close(const Json& gate);

}  // namespace forge

#pragma once
// The gate of model.quantization: fp8. Before its first step a fresh run compares the base's loss
// as the file has it with that of the base in fp8, both on the first tokens that it would evaluate
// on or, without those, train on, and goes no farther unless these tokens show that they differ by
// no more than model.fp8_tolerance.
//
//   Fp8Gate gate(plan, train, eval);
//   gate.read_file(stop);                       // the base is not in memory yet
//   session = open_session(plan, {.base = true}, emit);
//   const Json event = gate.compare(*session, stop);
//   record(event);
//   require_close(event);                       // throws Error(gate)
//
// The difference and two of its standard errors must be below the tolerance, by default 0.5 %. The
// errors keep a mean from being small by chance: losses of SmolLM2-135M's tokens move by 0.4 nats
// in either direction, of which 4,510 held-out tokens leave 0.52 ± 0.26 % and 4,673 training tokens
// 0.03 ± 0.27 %, which passes; some hundred tokens show nothing and do not pass. The file's weights
// pass a layer at a time, so a base that does not fit in bf16 is gated too. The gate does not see
// training: SmolLM2 came to be up to 0.7 % off where it had begun 0.3 % off (bench/fp8/gate.py).
// Rewards are refused, since there is no loss on tokens to compare.
#include "core/data/dataset.h"
#include "core/train/step.h"

namespace forge {

class Fp8Gate {
 public:
  // `eval` may be empty.
  Fp8Gate(const Plan& plan, const DataSet& train, const DataSet& eval);

  // Computes logp under the file's own weights, layer by layer. Throws StepInterrupted.
  void read_file(const StopFlag& stop);
  // Computes logp under the session's base. Frees the base if nobody else reads it. Returns the
  // event fp8_gate, even if the limit is exceeded, for `require_close`. Throws StepInterrupted.
  Json compare(Session& session, const StopFlag& stop) const;

 private:
  const Plan& plan_;
  const bool evaluates_;
  const std::vector<Batch> batches_;
  std::vector<float> file_logps_;
};

// Returns the event fp8_gate: `event` with the losses and their difference added. `file` and `fp8`
// are the logp of each supervised token under both bases.
Json fp8_gate_event(const std::vector<float>& file, const std::vector<float>& fp8, Json event);
// Throws Error(gate) if the losses of such an event may differ by more than the limit: if the
// difference on these tokens plus two standard errors exceeds it.
void require_close(const Json& gate);

}  // namespace forge

#pragma once
// Runs one optimizer step: micro-batches forward and backward, clip, update. Runs one evaluation.
#include <functional>
#include <vector>

#include "core/data/dataset.h"
#include "core/train/session.h"
#include "core/train/state.h"

namespace forge {

struct StepStats {
  double loss = 0;       // mean over what the objective divides by: supervised tokens, or pairs
  Metrics metrics;       // of the objective
  double reference_gap = 0;  // max |l| of its answers
  double ratio_most = 0;     // of a token's new over old probability; 0: no policy was trained
  double grad_norm = 0;  // before clipping, without the loss scale
  double learning_rate = 0;
  int64_t examples = 0, tokens = 0, supervised_tokens = 0;
  double seconds = 0, data_seconds = 0;
  bool skipped = false;  // not finite: the weights did not change
  bool rests = false;    // the policy's do not either: the value network alone is trained
};

// Trains on the given micro-batches (atoms of `data`). The loss scale and skip counters of `state`
// move; everything else of it is the caller's. Throws StepInterrupted; Error(diverged) for a loss
// that is not finite under on_nan: stop.
StepStats train_step(Session& session, const DataSet& data, const std::vector<std::vector<int64_t>>& micro_batches,
                     TrainState& state, const StopFlag& stop);

// Begin and end every optimizer step. begin_update() sets gradients to zero. finish_update()
// computes the norm and applies the update, or handles a step that is not finite. It reads the loss
// in `stats`, and sets norm, rate and skipped. `loss`, if given, returns the loss to use instead.
// It is called after the norm, the only thing that the host waits for in a step.
void begin_update(Session& session, TrainState& state);
void finish_update(Session& session, TrainState& state, StepStats& stats, const std::function<double()>& loss = {});

// Adds a step to those that one line of metrics tells of.
void add(StepWindow& window, const StepStats& stats);

// Returns the members of the event `step` that come from its steps: sums, and means of their losses
// and metrics. `last` are the stats of the newest.
Json step_facts(const StepWindow& window, const StepStats& last);

// Sums over the supervised tokens of one example.
struct ExampleLoss {
  int64_t supervised_tokens = 0;
  double loss = 0;  // Σ −logp, natural logarithm
};

struct EvalStats {
  double loss = 0;  // the objective's mean over the whole split: by supervised token, by answer, or by pair
  Metrics metrics;
  int64_t tokens = 0, supervised_tokens = 0;
  double seconds = 0;
  std::vector<ExampleLoss> examples;  // by index in the split
};

// Evaluates batches of at most `batch_tokens` tokens; results do not depend on it except for
// rounding. `reference` may be null if the objective compares with none. Without an objective the
// loss is the negative log-likelihood of tokens. `divergence` is kto's, of the split.
EvalStats evaluate(const World& world, Network& network, const Model& model, const DataSet& data, int64_t batch_tokens,
                   const StopFlag& stop, const ObjectiveConfig& objective = {}, Reference* reference = nullptr, double divergence = 0);

}  // namespace forge

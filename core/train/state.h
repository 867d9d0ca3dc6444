#pragma once
// Progress of a run: the part of a checkpoint that is not tensors.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/lib/io/json.h"

namespace forge {

struct EvalPoint {
  int64_t step = 0;
  double loss = 0;
};

// The steps since the last line of metrics: a line tells of all of them.
struct StepWindow {
  int64_t steps = 0, skipped = 0;
  double loss = 0;  // sum over the steps that were not skipped
  int64_t examples = 0, tokens = 0, supervised_tokens = 0;
  double seconds = 0, data_seconds = 0;
  std::map<std::string, double> sums, counts;  // of the objective's metrics, over the steps that were not skipped
  double ratio_most = 0;                       // of these steps; 0: no policy was trained
  double reference_gap_step0 = -1;             // max |l| of the first step's answers; below 0: not of these steps
};

struct TrainState {
  int64_t step = 0;     // completed optimizer steps
  int64_t updates = 0;  // steps that changed weights: step minus skipped
  int64_t value_updates = 0;  // of the value network
  int64_t tokens = 0, supervised_tokens = 0, examples = 0;
  int64_t consecutive_skips = 0;
  double loss_scale = 1;
  int64_t steps_since_overflow = 0;
  std::vector<EvalPoint> best;         // best evaluations, ascending loss, at most keep_best (at least one)
  int64_t last_eval_step = -1;
  int64_t evals_without_improvement = 0;
  bool stopped_early = false;
  int64_t metrics_bytes = 0;           // length of metrics.jsonl that belongs to this state
  int64_t drawn = 0;                   // batches of prompts that completions were drawn for
  double run_seconds = 0;              // of all parts of the run: loading, steps, evaluation, saving
  double average_rate = 0, average_weights = 0;  // of schedule_free: Optimizer::Average
  StepWindow window;
};

void to_json(Json& json, const TrainState& state);
void from_json(const Json& json, TrainState& state);

}  // namespace forge

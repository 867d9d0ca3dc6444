#pragma once
// Runs training from its plan to its report.
#include <functional>
#include <optional>
#include <string>

#include "core/job/secrets.h"
#include "core/run/amendment.h"
#include "core/train/step.h"

namespace forge {

struct TrainRequest {
  Plan plan;
  std::string job_text;
  std::string run_folder;
  bool resume = false;
  std::vector<Amendment> amendments;  // to append before going on
  // Descriptor of the run folder's lock that the caller holds and shares; without it a lock is
  // taken.
  std::optional<int> lock;
  double spent_seconds = 0;      // on the run before the engine was asked: planning, making tokens
  std::vector<Secret> secrets;   // of the job: no file of the run may hold them
  // Sends the program, which scores completions, an event and returns its answer. Throws
  // StepInterrupted when the run is to stop meanwhile. Only called if the objective draws
  // completions.
  std::function<Json(const Json& event)> ask;
};

// Runs to the end and leaves adapter/ (or model/), report.json and checkpoints. Throws
// Error(stopped) after a stop with a checkpoint, Error(diverged), and whatever files and memory
// have to say. Every event goes to `emit`, steps and evaluations also to metrics.jsonl.
void train(const TrainRequest& request, const EventSink& emit, StopFlag& stop);

}  // namespace forge

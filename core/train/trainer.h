#pragma once
// A run from its plan to its report: the loop of verbs.
#include <string>

#include "core/train/step.h"

namespace forge {

struct TrainRequest {
  Plan plan;
  std::string job_text;
  std::string run_folder;
  bool resume = false;
  std::vector<Json> amendments;  // to append before going on
};

// Runs to the end and leaves adapter/ (or model/), report.json and checkpoints. Throws Error(stopped) after a stop with
// a checkpoint, Error(diverged), and whatever files and memory have to say. Every event goes to `emit`, steps and
// evaluations also to metrics.jsonl.
void train(const TrainRequest& request, const EventSink& emit, const StopFlag& stop);

}  // namespace forge

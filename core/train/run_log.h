#pragma once
// Writes a run's logs: metrics.jsonl is the source; the TensorBoard file is a view of it and is
// rebuilt from it when a run continues; log.txt has a line for everything else.
#include <memory>
#include <string>

#include "core/run/run_folder.h"
#include "core/run/tensorboard.h"
#include "core/train/metrics.h"

namespace forge {

class RunLog {
 public:
  // Continues where metrics.jsonl ends. `tensorboard` false writes no event file.
  RunLog(const RunPaths& paths, bool tensorboard);

  // Records a step or an evaluation; `event` gets a "time" (seconds since 1970).
  void record(Json& event);
  // Writes a line of log.txt for any other event.
  void note(const Json& event);
  // Returns the length of metrics.jsonl, flushed to the device.
  int64_t flush();

 private:
  void show(const Json& event);

  RunPaths paths_;
  MetricsLog metrics_;
  std::unique_ptr<TensorBoardWriter> tensorboard_;
};

double seconds_since_1970();

}  // namespace forge

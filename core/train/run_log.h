#pragma once
// Writes a run's logs: metrics.jsonl, one JSON object per event, is the one source for every view
// of a run; the TensorBoard file is a view of it and is rebuilt from it when a run continues;
// log.txt has a line for everything else.
#include <cstdint>
#include <memory>

#include "core/run/run_folder.h"
#include "core/run/tensorboard.h"
#include "core/train/state.h"

namespace forge {

// Cuts metrics.jsonl back to what belongs to `state`. If that is impossible because the file is
// missing, shorter or damaged, the file is kept aside under a new name and its readable part is
// taken over; returns the fault in words, for the user. It never makes a file longer and never ends
// a run. Sets state.metrics_bytes to the resulting length.
std::string cut_metrics(const std::string& path, TrainState& state);

// Renames the file, e.g. to "metrics.jsonl.kept-1", for a run that begins again though it had
// checkpoints. Returns the new name.
std::string keep_metrics_aside(const std::string& path);

class RunLog {
 public:
  // Continues where metrics.jsonl ends. `tensorboard` false writes no event file.
  RunLog(const RunPaths& paths, bool tensorboard);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;
  // Records a step or an evaluation; `event` gets a "time" (seconds since 1970).
  void record(Json& event);
  // Writes a line of log.txt for any other event.
  void note(const Json& event);
  // Returns the length of metrics.jsonl. Flushes to the device first, so that a checkpoint never
  // counts bytes that could be lost. A file that was removed or replaced is written again.
  int64_t flush();

 private:
  void open_metrics();
  void write_again();
  void show(const Json& event);

  RunPaths paths_;
  std::string path_;  // of metrics.jsonl
  int descriptor_ = -1;
  std::unique_ptr<TensorBoardWriter> tensorboard_;
};

}  // namespace forge

#pragma once
// metrics.jsonl: one JSON object per event, the one source for every view of a run.
#include <cstdint>
#include <string>

#include "core/lib/io/json.h"
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

class MetricsLog {
 public:
  // Opens (or creates) the file and appends to it.
  explicit MetricsLog(const std::string& path);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;
  void append(const Json& event);
  // Returns the length of the file. Flushes to the device first, so that a checkpoint never counts
  // bytes that could be lost. A file that was removed or replaced meanwhile is written again.
  int64_t flush();

 private:
  void write_again();

  std::string path_;
  int descriptor_ = -1;
};

}  // namespace forge

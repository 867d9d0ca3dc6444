#pragma once
// metrics.jsonl: one JSON object per event, the one source for every view of a run.
#include <cstdint>
#include <string>

#include "core/io/json.h"

namespace forge {

class MetricsLog {
 public:
  // Opens (or creates) the file and cuts it back to `bytes`, the length that belongs to the state being continued.
  MetricsLog(const std::string& path, int64_t bytes);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  void append(const Json& event);
  // Length so far; flushes to the device first, so that a checkpoint never counts bytes that could be lost.
  int64_t flush();

 private:
  std::string path_;
  int descriptor_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace forge

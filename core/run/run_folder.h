#pragma once
// The run folder on disk: where things stand, what a checkpoint must hold to count, and who may write. Read by the
// program (is there a run, is it finished?) and by the engine.
//
// A checkpoint is written to a temporary sibling, flushed, hashed in manifest.json (last), renamed, and the folder
// flushed: it is whole or it does not exist. The folder's listing is the truth; nothing points at a "latest".
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/io/json.h"

namespace forge {

struct RunPaths {
  std::string folder;
  std::string job() const { return folder + "/job.yaml"; }
  std::string plan() const { return folder + "/plan.json"; }
  std::string amendments() const { return folder + "/amendments.jsonl"; }
  std::string metrics() const { return folder + "/metrics.jsonl"; }
  std::string report() const { return folder + "/report.json"; }
  std::string report_html() const { return folder + "/report.html"; }
  std::string log() const { return folder + "/log.txt"; }
  std::string checkpoints() const { return folder + "/checkpoints"; }
  std::string checkpoint(int64_t step) const;  // checkpoints/step-000100
};

// Exclusive use of a run folder, by flock on the folder itself: no lock file to go stale. Throws Error(environment)
// when another process holds it.
class RunLock {
 public:
  explicit RunLock(const std::string& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_ = -1;
};

// What a run folder says of itself; nothing in it is changed.
struct RunState {
  bool exists = false;              // there is a plan.json
  bool finished = false;            // report.json says so, and no amendment asks for more steps
  Json plan;                        // plan.json
  std::vector<Json> amendments;     // in order
  std::optional<int64_t> last_step; // of the newest whole checkpoint
  bool stepped = false;             // a step was finished: a checkpoint or a metric says so
};
// Throws Error(environment) for a folder that holds something else than a run.
RunState inspect_run(const std::string& folder);

// Appends one amendment durably.
void append_amendment(const std::string& folder, const Json& amendment);

// --- checkpoints ---

// Steps of the checkpoints whose manifest parses and whose files have the listed sizes, ascending.
std::vector<int64_t> list_checkpoints(const std::string& folder);
// Whether every file of a checkpoint also has its listed hash; `fault` names the first that does not.
bool verify_checkpoint(const std::string& path, std::string* fault);

// A checkpoint being written. Files are put under path(); commit() writes the manifest, flushes and renames. Without a
// commit the destructor removes everything.
class CheckpointWriter {
 public:
  CheckpointWriter(const std::string& folder, int64_t step);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  const std::string& path() const { return temporary_; }
  // `facts` go into manifest.json beside the list of files. → bytes written.
  int64_t commit(const Json& facts);

 private:
  std::string folder_, temporary_, final_;
  int64_t step_;
  bool committed_ = false;
};

// Deletes all but the newest `keep_last` whole checkpoints and those in `keep`; never the newest one. A victim is
// renamed away first, so that a kill leaves no half checkpoint under a good name.
void retain_checkpoints(const std::string& folder, int64_t keep_last, const std::vector<int64_t>& keep);

// Removes what a kill may have left behind (temporary and condemned folders). Under the lock only.
void remove_litter(const std::string& folder);

// Makes `target` be what `source` is: renames a finished folder into place, replacing an older one.
void replace_directory(const std::string& source, const std::string& target);

}  // namespace forge

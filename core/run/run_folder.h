#pragma once
// The run folder on disk: the paths of its files, its state, and the lock that permits writing. The
// program reads it (is there a run, is it finished?), and so does the engine.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/lib/io/json.h"
#include "core/run/amendment.h"

namespace forge {

struct RunPaths {
  std::string folder;
  std::string job() const { return folder + "/job.yaml"; }
  std::string plan() const { return folder + "/plan.json"; }
  std::string amendments() const { return folder + "/amendments.jsonl"; }
  std::string metrics() const { return folder + "/metrics.jsonl"; }
  std::string report() const { return folder + "/report.json"; }
  std::string report_html() const { return folder + "/report.html"; }
  // The file that objective.reference_cache writes.
  std::string reference() const { return folder + "/reference.safetensors"; }
  std::string log() const { return folder + "/log.txt"; }
  std::string checkpoints() const { return folder + "/checkpoints"; }
  std::string rollouts() const { return folder + "/rollouts"; }
  // The adapters that a server drew with.
  std::string served_adapters() const { return rollouts() + "/adapters"; }
  std::string checkpoint(int64_t step) const;  // checkpoints/step-000100
};

// Returns the content of one of a run's small JSON files. Throws Error(environment).
Json run_json(const std::string& path);

// Exclusive use of a run folder, by flock on the folder itself, so that there is no lock file to
// become stale. Program and engine share one lock: it belongs to the open file description, so it
// is held until both have exited.
class RunLock {
 public:
  // Waits 2 s at most. Throws Error(environment) when another process holds it.
  explicit RunLock(const std::string& folder);
  // Takes over the lock that the parent process left open as `descriptor`.
  RunLock(const std::string& folder, int descriptor);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  int descriptor() const { return descriptor_; }
  // False once the folder was removed or renamed, or another folder has its path.
  bool holds_folder() const;

 private:
  std::string folder_;
  int descriptor_ = -1;
};

// The state of a run folder, read without changing anything in it.
struct RunState {
  bool exists = false;              // there is a plan.json
  bool finished = false;            // report.json says so, and no amendment asks for more steps
  Json plan;                        // plan.json
  std::vector<Amendment> amendments;  // in order
  std::vector<std::string> faults;  // what is damaged and will be made again: the report
  std::optional<int64_t> last_step; // of the newest whole checkpoint
  std::optional<int64_t> finished_step;  // the last of a finished run: train.max_time and early stopping end before the plan
  bool stepped = false;             // a step was finished: a checkpoint or a metric says so
  std::string result;               // what a finished run leaves: "adapter" or "model"
  bool result_whole = true;         // it is there, where the run is finished
};
// Reads the state of a run folder. Throws Error(environment) for a folder that holds something
// other than a run, and for a plan or amendments that are damaged or edited, with file and key: no
// run can be continued from them.
RunState inspect_run(const std::string& folder);
// Throws Error(environment) for a folder that holds something other than a run.
void require_run_folder(const std::string& folder);

// Removes a run, or the rest of one. The caller holds its lock. Throws Error(environment) for a
// folder that holds anything else.
void discard_run(const std::string& folder);
// The end of the name that a run has while it is removed: ".NAME.discarded" beside its folder.
constexpr const char* kDiscarded = ".discarded";

// Returns the folder of a run's trained adapter or model; empty if it does not exist yet.
std::string result_of(const std::string& folder);

// Removes what a kill may have left: temporary and condemned folders of processes that no longer
// run. A condemned folder whose replacement did not come goes back to its place. Folders of running
// processes stay, since a merge or an export may be writing beside the run's own files. Call it
// only under the lock.
void remove_litter(const std::string& folder);

}  // namespace forge

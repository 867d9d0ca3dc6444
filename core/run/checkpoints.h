#pragma once
// Checkpoints on disk: what one must hold to count. Written to a temporary sibling, flushed, hashed in manifest.json
// (last), renamed, and the folder flushed: it is whole or it does not exist. The folder's listing is the truth; nothing
// points at a "latest".
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace forge {

// The step of a checkpoint's folder name ("step-000100"), if it is one.
std::optional<int64_t> step_of(const std::string& name);

// Steps of the run's own checkpoints whose manifest parses and whose files have the listed sizes, ascending. `damaged`
// gets a sentence for each of the others.
std::vector<int64_t> list_checkpoints(const std::string& folder, std::vector<std::string>* damaged = nullptr);
// Whether every file of a checkpoint also has its listed hash; `fault` says what is wrong with the first that has not.
bool verify_checkpoint(const std::string& path, std::string* fault);

// Throws Error(environment) for a file of a checkpoint that holds weights or their settings and has not its listed size and hash: what is
// read where nothing is continued. Nothing happens for a folder without a manifest, such as a result.
void require_whole_weights(const std::string& path);

// A checkpoint being written. Files are put under path(); commit() writes the manifest, flushes and renames. Without a
// commit the destructor removes everything.
class CheckpointWriter {
 public:
  CheckpointWriter(const std::string& folder, int64_t step);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  const std::string& path() const { return temporary_; }
  // → bytes written.
  int64_t commit();

 private:
  std::string folder_, temporary_, final_;
  int64_t step_;
  bool committed_ = false;
};

// Renames a damaged checkpoint, so that it counts as one no more, and returns its new path. It goes once a whole one of
// its step or a later one is there (retain_checkpoints).
std::string set_checkpoint_aside(const std::string& folder, int64_t step);

// Deletes all but the newest `keep_last` whole checkpoints and those in `keep`; never the newest one. A victim is
// renamed away first, so that a kill leaves no half checkpoint under a good name.
void retain_checkpoints(const std::string& folder, int64_t keep_last, const std::vector<int64_t>& keep);

}  // namespace forge

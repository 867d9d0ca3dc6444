#pragma once
// Checkpoints on disk: how they are written, listed, verified and deleted. A checkpoint is written
// to a temporary sibling, flushed, hashed in manifest.json (last) and renamed, and then the folder
// is flushed: it is whole or it does not exist. The folder's listing is the truth: no file points
// at a "latest" checkpoint.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace forge {

class KnownHashes;

// Returns the step that a checkpoint's folder name states ("step-000100"), or nothing for another
// name.
std::optional<int64_t> step_of(const std::string& name);

// Returns the steps of the run's own checkpoints whose manifest parses and whose files have the
// listed sizes, ascending. `damaged` gets a sentence for each of the others.
std::vector<int64_t> list_checkpoints(const std::string& folder, std::vector<std::string>* damaged = nullptr);
// True if the checkpoint is whole and every file has its listed hash. Otherwise `fault` says what
// is wrong with the first file that fails.
bool verify_checkpoint(const std::string& path, std::string* fault);

// Throws Error(environment) if a file of a checkpoint that holds weights or their settings does not
// have its listed size and hash. Called where a checkpoint is read without continuing its run. Does
// nothing for a folder that is no checkpoint, such as a result. With `known`, a file is read only
// if its hash is not known yet.
void require_whole_weights(const std::string& path, KnownHashes* known = nullptr);

// A checkpoint that is being written. Files are put under path(); commit() writes the manifest,
// flushes and renames. Without a commit the destructor removes everything.
class CheckpointWriter {
 public:
  CheckpointWriter(const std::string& folder, int64_t step);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  const std::string& path() const { return temporary_; }
  // Makes the checkpoint whole and returns the bytes of its files.
  int64_t commit();

 private:
  std::string folder_, temporary_, final_;
  int64_t step_;
  bool committed_ = false;
};

// Renames a damaged checkpoint, so that it no longer counts as one, and returns its new path.
// retain_checkpoints() deletes it once a whole checkpoint of its step or a later one exists.
std::string set_checkpoint_aside(const std::string& folder, int64_t step);

// Deletes all but the newest `keep_last` whole checkpoints and those in `keep`; never the newest
// one. A checkpoint is renamed before it is deleted, so that a kill leaves no half checkpoint under
// a valid name.
void retain_checkpoints(const std::string& folder, int64_t keep_last, const std::vector<int64_t>& keep);

}  // namespace forge

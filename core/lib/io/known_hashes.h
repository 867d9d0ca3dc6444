#pragma once
// Hashes of files too large to read at every start. A file is read once; from then on its stamp
// (path, size, times, inode) says that it is still the same.
//
//   KnownHashes hashes(job.output_dir + "/.cache/hashes.json");
//   hashes.of("models/llama/model.safetensors")   // reads 15 GB the first time, nothing the second
//   hashes.save();
//
// The change time (ctime) is part of the stamp, since tools set the modification time back (cp -p,
// rsync -t). A file changed within the last seconds is not remembered: a second change could give
// it the same stamp. What cannot be read of the list, or written to it, only costs the reading of
// the files again.
#include <functional>
#include <map>
#include <set>
#include <string>

#include "core/lib/io/json.h"

namespace forge {

// Returns size, modification and change time in nanoseconds, inode, device. Throws
// Error(environment).
Json stamp_of_file(const std::string& path);

class KnownHashes {
 public:
  explicit KnownHashes(std::string path);
  // Returns the hash of a file's content (hash_file). Throws Error(environment) when it cannot be
  // read, or is changed meanwhile.
  std::string of(const std::string& file);
  // Called with the name and bytes of each file that has to be read, before it is.
  std::function<void(const std::string& file, int64_t bytes)> on_read;
  // Names a file as the list may, which others may read: without secrets in its path.
  std::function<std::string(const std::string& path)> shown;
  // Writes the list if something new was learnt; files that are gone drop out.
  void save();

 private:
  std::string path_;
  std::map<std::string, Json> known_;  // absolute path as shown → {stamp, hash}
  std::set<std::string> used_;         // names that were asked for
  bool changed_ = false;
};

}  // namespace forge

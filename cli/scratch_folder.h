#pragma once
// A folder among the system's temporary files, for what a command produces and discards.
#include <string>

namespace forge {

// The folder is removed when the command ends; those of killed commands are removed first. Throws
// Error(environment).
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace forge

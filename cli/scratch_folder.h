#pragma once
// A folder in the system's place for temporary files, for what a command makes and nobody keeps.
#include <string>

namespace forge {

// Goes when the command ends; those of killed ones are removed first. Throws Error(environment).
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

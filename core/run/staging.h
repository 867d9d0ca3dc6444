#pragma once
// Temporary folders: those that appear in one step, which are filled beside their final path and
// then renamed to it, and those that are discarded.
#include <string>

namespace forge {

// Creates one folder in an existing parent. Throws Error(environment).
void make_folder(const std::string& path);
// Removes a file or folder with its contents, as far as it can be removed.
void remove_tree(const std::string& path);

// Creates an empty folder beside `target`, to fill and then rename over it. Unlike
// make_directories() it creates no parent: a run folder that was removed must not return as a
// fragment.
std::string make_temporary_sibling(const std::string& target);

// Moves `source`, a finished folder, to `target`, replacing an older one. Where the file system
// cannot exchange them, the older one is condemned first; after a kill between the two renames
// put_back() returns it.
void replace_directory(const std::string& source, const std::string& target);

// A folder among the system's temporary files, for what a command produces and discards. It is
// removed when the command ends; those of killed commands are removed first. Throws
// Error(environment).
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder() { remove_tree(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace forge

#pragma once
// Names of temporary files and folders that tell whose they are, so that those of processes that were killed can be
// found and removed.
//
//   OutputFile file(temporary_of("cache/a.tokens"));     // "cache/a.tokens.tmp-HOST-4711.86400"
//   remove_abandoned("cache");                           // those of this machine's processes that no longer run
#include <string>

namespace forge {

// A sibling of `path` to write to before renaming. With the machine's name, since folders may be shared by several, and
// with the time when the process began, since its id is given again.
std::string temporary_of(const std::string& path);

// True if a name is temporary_of's and its process may still be at work: it runs, or belongs to another machine. Only the last
// component of a path counts.
bool may_be_in_use(const std::string& name);

// Removes every file and folder directly in `folder` whose name is temporary_of's, from a process of this machine that
// no longer runs. What cannot be removed stays.
void remove_abandoned(const std::string& folder);

}  // namespace forge

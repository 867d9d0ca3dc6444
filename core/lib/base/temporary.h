#pragma once
// Names of temporary files and folders that state their process, so that those of killed processes
// can be found and removed.
//
//   OutputFile file(temporary_of("cache/a.tokens"));     // "cache/a.tokens.tmp-HOST-4711.86400"
//   remove_abandoned("cache");                           // those of this machine's processes that no longer run
#include <string>
#include <string_view>

namespace forge {

// Beginning of the temporary name of a folder that another one is about to replace:
// ".trash-NAME.tmp-HOST-4711.86400".
constexpr std::string_view kCondemned = ".trash-";

// Returns the path of a sibling of `path` to write to before renaming. It contains the machine's
// name, since several machines may share a folder, and the time when the process started, since
// process ids are reused.
std::string temporary_of(const std::string& path);

// True if a name is temporary_of's and its process may still be at work: it runs, or belongs to
// another machine. Only the last component of a path counts.
bool may_be_in_use(const std::string& name);

// Removes all files and folders directly in `folder` whose name is temporary_of's, from a process
// of this machine that no longer runs. Those that cannot be removed stay; a condemned one goes back
// to its name (put_back).
void remove_abandoned(const std::string& folder);

// Renames a condemned folder back to its NAME if nothing has that name: its process was killed
// before the replacement came. Returns false for any other path. The process must have ended.
bool put_back(const std::string& path);

}  // namespace forge

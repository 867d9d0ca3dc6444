#pragma once
// Folders that appear in one step: they are filled beside their final path, then renamed to it.
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

}  // namespace forge

#pragma once
// Folders that appear at once: filled beside their place, then renamed into it.
#include <string>

namespace forge {

// One folder, in an existing parent. Throws Error(environment).
void make_folder(const std::string& path);
// Removes what is there, as far as it can be.
void remove_tree(const std::string& path);

// An empty folder beside `target` to fill and then rename over it. Unlike make_directories it makes no parent: a run folder
// that was removed is not to come back as a fragment.
std::string make_temporary_sibling(const std::string& target);

// Makes `target` be what `source` is: renames a finished folder into place, replacing an older one.
void replace_directory(const std::string& source, const std::string& target);

}  // namespace forge

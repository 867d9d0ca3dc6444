#pragma once
// The file that somebody meant who wrote the path of one that is not there.
#include <string>

namespace forge {

// An existing file or folder whose path `path` is probably a misspelling of: one part of it is another name in the
// same folder, or has another ending (train.json for train.jsonl). Written as `path` is; empty if there is none.
std::string near_path(const std::string& path);
// "did you mean data/train.jsonl?", then `otherwise`; one of them alone where the other is empty.
std::string near_path_hint(const std::string& path, const std::string& otherwise = "");

}  // namespace forge

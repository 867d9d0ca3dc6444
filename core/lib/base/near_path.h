#pragma once
// Guesses the file that was meant by a path that does not exist.
#include <string>

namespace forge {

// Returns an existing file or folder of whose path `path` is probably a misspelling: one part of it
// is another name in the same folder, or has another ending (train.json for train.jsonl). Written
// in the form of `path`; empty if there is none. A name whose number differs is never meant.
std::string near_path(const std::string& path);
// Returns "did you mean data/train.jsonl?", then `otherwise`; one of them alone where the other is
// empty.
std::string near_path_hint(const std::string& path, const std::string& otherwise = "");

}  // namespace forge

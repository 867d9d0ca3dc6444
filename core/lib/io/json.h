#pragma once
// JSON from outside, read strictly: valid UTF-8, no duplicate keys, bounded depth, integers that
// fit 64 bits. nlohmann/json alone keeps the last of two equal keys, turns 2^64 into a double and
// recurses on deep values.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/lib/base/error.h"

namespace forge {

// Keeps the order of keys, so that what is written is what was read.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  int depth = 64;
  int64_t values = 50'000'000;  // all values of the document together
  bool wide_integers = false;   // an integer past 64 bits becomes a double instead of a fault
  bool python_numbers = false;  // NaN, Infinity and -Infinity, as Python writes them, become null instead of a fault
};

// Parses one whole document. Throws PlacedError(kind) "name:line:column: what". `first_line` is the
// line number of the text's first line, for rows of a JSONL file.
Json parse_json(std::string_view text, const std::string& name, ErrorKind kind, const JsonLimits& limits = {},
                int64_t first_line = 1);

// The text that stands in a clone in place of a large file (github.com/git-lfs/git-lfs,
// docs/spec.md). Its lines may end in CRLF.
inline constexpr const char* kGitLfsPointer = "version https://git-lfs.github.com/spec/v1";
inline constexpr const char* kGitLfsHint = "fetch it: git lfs install && git lfs pull, or download the file itself";
// Throws Error(kind) for such a pointer.
void refuse_git_lfs(std::string_view content, const std::string& path, ErrorKind kind);

// Throws Error(environment) for a file that is such a pointer.
void refuse_git_lfs_file(const std::string& path);

// Adds a member whose name the object does not hold. Nothing is searched for: ordered_map's own way
// takes the square of the members.
Json& append_member(Json& object, std::string name, Json value);

// Returns one line of JSON without blanks; numbers read back exactly, NaN and infinities become
// null.
std::string dump_json(const Json& value);

}  // namespace forge

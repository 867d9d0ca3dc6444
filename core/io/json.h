#pragma once
// JSON from outside, read strictly: valid UTF-8, no duplicate keys, bounded depth, integers that fit 64 bits.
// nlohmann/json alone keeps the last of two equal keys, turns 2^64 into a double and recurses on deep values.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace forge {

// Keeps the order of keys, so that what is written is what was read.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  int depth = 64;
  int64_t values = 50'000'000;  // all values of the document together
  bool wide_integers = false;   // an integer past 64 bits becomes a double instead of a fault
};

// transformers writes "model_max_length": 1000000000000000019884624838656 into tokenizer_config.json.
inline constexpr JsonLimits kTokenizerConfigLimits{.wide_integers = true};

// Parses one whole document. Throws PlacedError(kind) "name:line:column: what". `first_line` is the line
// number of the text's first line, for rows of a JSONL file.
Json parse_json(std::string_view text, const std::string& name, ErrorKind kind, const JsonLimits& limits = {},
                int64_t first_line = 1);

// Adds a member whose name the object does not hold. Nothing is searched for: ordered_map's own way takes the square of
// the members.
Json& append_member(Json& object, std::string name, Json value);

// One line of JSON without blanks; numbers read back exactly, NaN and infinities become null.
std::string dump_json(const Json& value);

}  // namespace forge

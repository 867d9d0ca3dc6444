#pragma once
// Reads and writes JSON of Python programs: integers of any length, such as transformers'
// "model_max_length": 1000000000000000019884624838656, which is in most tokenizer_config.json, and
// numbers that are not finite ("time_step_limit": [0.0, Infinity] in a config.json).
//
//   Json config = parse_python_json(read_file(path), path);
//   write_file_durably(path, dump_python_json(config, 2));     // with the same number in it
#include <string>

#include "core/lib/io/json.h"

namespace forge {

// Parses like parse_json; an integer past 64 bits becomes a double, and so do NaN and Infinity.
Json parse_python_json(std::string_view text, const std::string& name, ErrorKind kind = ErrorKind::environment);

// Returns the value as JSON. `indent` blanks a level, -1: on one line. A double that is a whole
// number past 64 bits is written with all its digits: exactly what Python's int() makes of it. NaN
// and Infinity are written as Python does.
std::string dump_python_json(const Json& value, int indent = -1);

}  // namespace forge

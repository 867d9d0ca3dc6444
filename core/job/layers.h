#pragma once
// The files and options of a job as one node tree: each file with the files it extends, then every
// --set, merged. Maps merge, everything else replaces; each value keeps the place that stated it.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/job/diagnostics.h"
#include "core/job/node.h"

namespace forge {

using Environment = std::function<std::optional<std::string>(const std::string& name)>;

// A value from the environment that its variable's name or its own shape calls secret, or a
// credential that the job states itself, with no variable.
struct Secret {
  std::string variable, value;
};

struct Layers {
  Node root;
  std::string text;                // the main file as given
  std::vector<std::string> files;  // all that were read, as shown in places
  std::vector<Secret> secrets;
  bool complete = true;  // false: a file could not be read
};

// Reads `path` and the files that it extends, and applies `sets` ("train.epochs=2", the value in
// YAML). Relative names are relative to the file that states them; `cwd` is the working directory,
// absolute. Faults are added to `faults`. The root is always a map.
Layers read_layers(const std::string& path, const std::vector<std::string>& sets, const std::string& cwd,
                   const Environment& environment, Diagnostics& faults);

// Replaces short forms by long ones: `adapter: lora` is {type: lora}, `data.train: a.jsonl` is
// [{path: a.jsonl}].
void expand_shorthands(Node& root);

// True if a place is a --set rather than a file.
bool is_option(const Position& at);

// Returns `path` with its variables replaced (expand_path), relative to the folder of the file
// `at`, or to cwd for an option.
std::string resolve_path(const std::string& path, const Position& at, const std::string& cwd,
                         const Environment& environment);

}  // namespace forge

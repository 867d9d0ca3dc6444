#pragma once
// Files and folders that a job names but that do not exist.
#include <string>
#include <vector>

#include "core/job/load.h"

namespace forge {

struct MissingPath {
  std::string key;   // "data.train[0].path"
  std::string path;  // absolute, or the pattern
};

// Returns the missing paths of model, data, template and adapter.init_from, in the order of the
// job's keys.
std::vector<MissingPath> missing_paths(const Job& job);
std::vector<MissingPath> missing_data(const Job& job);

// Returns the remedy for a missing path: how to download it, if it looks like a name on the hub.
std::string missing_hint(const LoadedJob& loaded, const MissingPath& missing);
// Returns the part of the hint about a name on the hub; else empty.
std::string hub_hint(const LoadedJob& loaded, const MissingPath& missing);

// Returns where the job states a key, or the beginning of its file.
Position place_of(const LoadedJob& loaded, const std::string& key, const std::string& file);

}  // namespace forge

#pragma once
// The files and folders that a job names and that are not there.
#include <string>
#include <vector>

#include "core/config/load.h"

namespace forge {

struct MissingPath {
  std::string key;   // "data.train[0].path"
  std::string path;  // absolute, or the pattern
};

// Model, data, template and adapter.init_from, in the order of the job's keys.
std::vector<MissingPath> missing_paths(const Job& job);
std::vector<MissingPath> missing_data(const Job& job);

// Where the job states a key, or its file's beginning.
std::string place_of(const LoadedJob& loaded, const std::string& key, const std::string& file);

}  // namespace forge

#pragma once
// Lists the files that a run starts from besides its data: the base model's weights, config and
// tokenizer, the adapter of adapter.init_from, reward models and schemas. A run is continued only
// on the same files.
//
//   std::vector<StartFile> files = start_files(job, hashes);
//   files[0].name, files[0].hash       // "model/config.json", "3f…"
#include <string>
#include <vector>

#include "core/job/job.h"
#include "core/lib/io/known_hashes.h"

namespace forge {

struct StartFile {
  std::string name;  // what it belongs to and its name there: "model/config.json"; a GGUF is "model/gguf"
  int64_t bytes = 0;
  std::string hash;  // of its content
  // True if another content makes another run. False for a chat template or generation_config.json:
  // the effect of a template on the training shows in the tokens of the data.
  bool decides = true;
};

// Returns the start files of a job. Throws Error(environment) for files that cannot be read.
std::vector<StartFile> start_files(const Job& job, KnownHashes& hashes);
// Returns the base model's files alone. Weights that are drawn are in no file.
std::vector<StartFile> model_files(const std::string& model_path, KnownHashes& hashes, ModelInit init = ModelInit::file);

// Returns the names of the files that differ, or that are in only one of the lists.
std::vector<std::string> changed_files(const std::vector<StartFile>& before,
                                       const std::vector<StartFile>& now);
bool is_model_file(const StartFile& file);
// Returns the path of the file: "models/llama/config.json".
std::string path_of_start_file(const Job& job, const std::string& name);

void to_json(Json& json, const StartFile& file);
void from_json(const Json& json, StartFile& file);
Json schema_of(const StartFile& file);

}  // namespace forge

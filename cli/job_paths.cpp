#include "cli/job_paths.h"

#include <filesystem>

#include "core/data/read/expand.h"
#include "core/job/foreign.h"
#include "core/lib/base/near_path.h"

namespace forge {
namespace {

bool is_there(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// True if the source exists; a pattern exists if it matches a file.
bool source_is_there(const DataSource& source) {
  try {
    for (const SourceFile& file : expand_sources({source}))
      if (!is_there(file.path)) return false;
    return true;
  } catch (const Error&) {
    return is_there(source.path);  // a folder without data files is reported when it is read
  }
}

// Returns the job's sources with the keys of their paths: "data.train[0].path".
std::vector<std::pair<std::string, DataSource>> sources_of(const Job& job) {
  std::vector<std::pair<std::string, DataSource>> all;
  for (const auto& [list, sources] :
       {std::pair("data.train[", &job.data.train), std::pair("data.eval[", &job.data.eval)})
    for (size_t i = 0; i < sources->size(); ++i)
      all.emplace_back(list + std::to_string(i) + "].path", (*sources)[i]);
  return all;
}

// Returns the repository that the path was made of; empty for a path that the job states.
std::string repository_of(const Job& job, const std::string& key) {
  if (key == "model.path") return job.model.repo.value_or("");
  for (const auto& [own, source] : sources_of(job))
    if (key == own) return source.repo.value_or("");
  return "";
}

}  // namespace

std::vector<MissingPath> missing_data(const Job& job) {
  std::vector<MissingPath> missing;
  for (const auto& [key, source] : sources_of(job))
    if (!source_is_there(source)) missing.push_back({key, source.path});
  return missing;
}

std::vector<MissingPath> missing_paths(const Job& job) {
  std::vector<MissingPath> missing;
  if (!is_there(job.model.path)) missing.push_back({"model.path", job.model.path});
  if (job.model.family && !is_there(*job.model.family)) missing.push_back({"model.family", *job.model.family});
  if (job.adapter.init_from && !is_there(*job.adapter.init_from))
    missing.push_back({"adapter.init_from", *job.adapter.init_from});
  for (MissingPath& path : missing_data(job)) missing.push_back(std::move(path));
  if (names_a_template_file(job.data.template_name) && !is_there(job.data.template_name))
    missing.push_back({"data.template", job.data.template_name});
  return missing;
}

std::string hub_hint(const LoadedJob& loaded, const MissingPath& missing) {
  if (const std::string repository = repository_of(loaded.job, missing.key); !repository.empty())
    return repository + " is not in the hub's cache on this machine; download it: forge fetch " + loaded.files.front();
  const Position at = place_of(loaded, missing.key, "");
  std::filesystem::path folder = std::filesystem::current_path();
  if (!is_option(at)) folder /= std::filesystem::path(at.file).parent_path();
  const std::string written =
      std::filesystem::path(missing.path).lexically_relative(folder.lexically_normal()).string();
  return hub_hint(missing.key, written);
}

std::string missing_hint(const LoadedJob& loaded, const MissingPath& missing) {
  const std::string hint = hub_hint(loaded, missing);
  if (!hint.empty()) return hint;
  const std::string meant = near_path(missing.path);
  if (!meant.empty()) return "did you mean " + meant + "?";
  return missing.key == "model.path"
             ? "model.path is a Hugging Face folder with config.json, or a .gguf file; model.repo "
               "takes one of the Hugging Face hub (forge fetch); relative paths start in the folder of the file that states them"
             : "relative paths start in the folder of the file that states them";
}

Position place_of(const LoadedJob& loaded, const std::string& key, const std::string& file) {
  auto origin = loaded.origins.find(key);
  if (origin == loaded.origins.end()) origin = loaded.origins.find(key + "[0].path");
  if (origin == loaded.origins.end()) return {file};
  return origin->second.kind == OriginKind::given ? origin->second.at : Position{file, 1, 1};
}

}  // namespace forge

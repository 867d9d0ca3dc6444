#include "core/plan/files/start_files.h"

#include <filesystem>
#include <map>
#include <set>
#include <span>

#include "core/lib/base/file.h"
#include "core/lib/io/gguf.h"
#include "core/lib/io/json.h"
#include "core/lib/io/members.h"
#include "core/lib/io/model_file.h"
#include "core/plan/files/judge_model.h"

namespace forge {
namespace {

constexpr const char* kModel = "model/";
constexpr const char* kGguf = "model/gguf";
constexpr const char* kFamily = "model.family";
constexpr const char* kInitFrom = "adapter.init_from/";
constexpr const char* kReward = "rewards.";  // with its name: a schema, or a reward model's files, its base's below base/

// A file that forge reads of a model folder besides its weights.
struct Reading {
  const char* name;
  bool decides;
};
constexpr Reading kModelFiles[] = {{"config.json", true},
                                   {"family.yaml", true},
                                   {"tokenizer.json", true},
                                   {"tokenizer.model", true},
                                   {"tokenizer_config.json", true},
                                   {"special_tokens_map.json", true},
                                   {"added_tokens.json", true},
                                   {"chat_template.jinja", false},
                                   {"chat_template.json", false},
                                   {"additional_chat_templates/tool_use.jinja", false},
                                   {"generation_config.json", false}};
constexpr Reading kAdapterFiles[] = {{"adapter_config.json", true}, {"adapter_model.safetensors", true}};

constexpr auto kFileMembers = [](auto& file, auto&& member) {
  member("name", file.name, "its owner and its name there; a GGUF is model/gguf");
  member("bytes", file.bytes, "its size");
  member("hash", file.hash, "XXH3-128 of its content, or of the hashes of its blocks of 4 MiB");
  member("decides", file.decides, "true if the run is not continued with other content");
};

StartFile read(const std::string& path, std::string name, bool decides, KnownHashes& hashes) {
  refuse_git_lfs_file(path);  // some of these files are only copied into the result, after training
  return {std::move(name), file_size(path), hashes.of(path), decides};
}

void add_folder(const std::string& folder, const std::string& prefix, std::span<const Reading> readings,
                KnownHashes& hashes, std::vector<StartFile>& files) {
  for (const Reading& reading : readings)
    if (const std::string path = folder + "/" + reading.name; file_exists(path))
      files.push_back(read(path, prefix + reading.name, reading.decides, hashes));
}

}  // namespace

static void add_reward(const RewardConfig& reward, KnownHashes& hashes, std::vector<StartFile>& files) {
  const std::string prefix = kReward + reward.name + "/";
  if (const auto* json = reward.find<JsonSchemaReward>(); json && json->schema)
    files.push_back(read(*json->schema, prefix + "schema", true, hashes));
  const auto* judged = reward.find<ModelReward>();
  if (!judged) return;
  const JudgeModel judge = read_judge(*judged->path);
  if (!judge.adapter.empty()) add_folder(judge.adapter, prefix, kAdapterFiles, hashes, files);
  for (StartFile file : model_files(judge.model, hashes)) {
    file.name = prefix + (judge.adapter.empty() ? "" : "base/") + file.name.substr(std::string_view(kModel).size());
    files.push_back(std::move(file));
  }
}

std::vector<StartFile> model_files(const std::string& model_path, KnownHashes& hashes, ModelInit init) {
  std::vector<StartFile> files;
  const bool drawn = init == ModelInit::random && is_directory(model_path);
  if (!drawn && model_format(model_path) == ModelFormat::gguf) {
    files.push_back(read(model_path, kGguf, true, hashes));
    for (const std::string& part : Gguf(model_path, Data::optional).further_parts())
      files.push_back(
          read(part, kModel + std::filesystem::path(part).filename().string(), true, hashes));
    return files;
  }
  if (!drawn)
    for (const std::string& name : weight_file_names(model_path))
      files.push_back(read(model_path + "/" + name, kModel + name, true, hashes));
  add_folder(model_path, kModel, kModelFiles, hashes, files);
  return files;
}

std::vector<StartFile> start_files(const Job& job, KnownHashes& hashes) {
  std::vector<StartFile> files = model_files(job.model.path, hashes, job.model.init);
  if (job.model.family) files.push_back(read(*job.model.family, kFamily, true, hashes));
  if (job.adapter.init_from) add_folder(*job.adapter.init_from, kInitFrom, kAdapterFiles, hashes, files);
  for (const RewardConfig& reward : job.rewards) add_reward(reward, hashes, files);
  return files;
}

std::vector<std::string> changed_files(const std::vector<StartFile>& before,
                                       const std::vector<StartFile>& now) {
  std::map<std::string, std::string> contents;
  std::set<std::string> changed;
  for (const StartFile& file : before) contents[file.name] = file.hash;
  for (const StartFile& file : now) {
    const auto found = contents.find(file.name);
    if (found == contents.end() || found->second != file.hash) changed.insert(file.name);
    if (found != contents.end()) contents.erase(found);
  }
  for (const auto& [name, hash] : contents) changed.insert(name);
  return {changed.begin(), changed.end()};
}

bool is_model_file(const StartFile& file) { return file.name.starts_with(kModel); }

std::string path_of_start_file(const Job& job, const std::string& name) {
  if (name == kGguf) return job.model.path;
  if (name == kFamily) return job.model.family.value_or(name);
  const auto within = [&](const char* prefix, const std::string& folder) {
    return folder + "/" + name.substr(std::string_view(prefix).size());
  };
  if (name.starts_with(kInitFrom))
    return within(kInitFrom, job.adapter.init_from.value_or("adapter.init_from"));
  for (const RewardConfig& reward : job.rewards) {
    const std::string prefix = kReward + reward.name + "/";
    if (!name.starts_with(prefix)) continue;
    return name == prefix + "schema" ? reward.as<JsonSchemaReward>().schema.value_or(name)
                                     : within(prefix.c_str(), reward.as<ModelReward>().path.value_or(prefix));
  }
  const std::string& model = job.model.path;
  return name.starts_with(kModel) ? within(kModel, is_directory(model) ? model : folder_of(model))
                                  : name;
}

void to_json(Json& json, const StartFile& file) { json = write_members(file, kFileMembers); }
void from_json(const Json& json, StartFile& file) { read_members(json, file, kFileMembers); }
Json schema_of(const StartFile& file) { return members_schema(file, kFileMembers); }

}  // namespace forge

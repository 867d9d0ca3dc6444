#include "core/run/checkpoints.h"

#include <algorithm>
#include <filesystem>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/hash.h"
#include "core/lib/base/text.h"
#include "core/lib/io/known_hashes.h"
#include "core/lib/io/members.h"
#include "core/plan/plan.h"
#include "core/run/run_folder.h"
#include "core/run/staging.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kDamaged = ".damaged";
constexpr int64_t kFormat = 1;

struct ManifestFile {
  std::string name, hash;
  int64_t bytes = 0;
};

struct Manifest {
  int64_t format = 0, step = 0;
  std::string plan;  // hash of the run's plan.json; empty if an older version wrote it
  std::vector<ManifestFile> files;
};

constexpr auto kManifestFileMembers = [](auto& file, auto&& member) {
  member("name", file.name, "in the checkpoint's folder");
  member("bytes", file.bytes, "its size", at_least(0));
  member("hash", file.hash, "of its content");
};

constexpr auto kManifestMembers = [](auto& manifest, auto&& member) {
  member("format", manifest.format, "of this file", between(kFormat, kFormat));
  member("step", manifest.step, "last step that it holds", at_least(0));
  member.later("plan", manifest.plan, "hash that the run's plan states");
  member("files", manifest.files, "all files but the manifest");
};

void from_json(const Json& json, ManifestFile& file) { read_members(json, file, kManifestFileMembers); }

// Returns the hash of the run's plan, or an empty text if there is no plan file.
std::string plan_hash_of(const std::string& run_folder) {
  const std::string plan = RunPaths{run_folder}.plan();
  return file_exists(plan) ? stated_plan_hash(run_json(plan)) : "";
}

// Returns the manifest of a checkpoint after checking that all files have full length and that it
// belongs to a run whose plan has the hash `plan`, if both hashes are known. Throws
// Error(environment).
Manifest whole_manifest(const std::string& path, const std::string& plan) {
  const std::string name = path + "/manifest.json";
  Manifest manifest;
  read_checked(run_json(name), name, [&](const Json& json) { read_members(json, manifest, kManifestMembers); });
  if (step_of(fs::path(path).filename().string()) != manifest.step)
    throw Error(ErrorKind::environment, name + ": step: is " + std::to_string(manifest.step) + ", not the folder's");
  if (!manifest.plan.empty() && !plan.empty() && manifest.plan != plan)
    throw Error(ErrorKind::environment, path + ": is a checkpoint of another run");
  for (const ManifestFile& file : manifest.files) {
    const std::string full = path + "/" + file.name;
    if (!safe_file_name(file.name))
      throw Error(ErrorKind::environment, name + ": files: a name is not that of a file in the folder");
    if (!file_exists(full)) throw Error(ErrorKind::environment, full + ": is missing");
    if (const int64_t bytes = file_size(full); bytes != file.bytes)
      throw Error(ErrorKind::environment, full + ": has " + std::to_string(bytes) + " bytes, expected " +
                                              std::to_string(file.bytes));
  }
  return manifest;
}

// Removes checkpoints that were set aside and whose steps have been repeated.
void remove_damaged(const std::string& folder, int64_t newest) {
  const std::string checkpoints = RunPaths{folder}.checkpoints();
  for (const std::string& name : names_in(checkpoints)) {
    if (!ends_with(name, kDamaged)) continue;
    const std::optional<int64_t> step = step_of(name.substr(0, name.size() - kDamaged.size()));
    if (step && *step <= newest) remove_tree(checkpoints + "/" + name);
  }
}

}  // namespace

std::optional<int64_t> step_of(const std::string& name) {
  if (!starts_with(name, kStepPrefix) || name.size() > 24) return {};
  int64_t step = 0;
  for (char c : name.substr(kStepPrefix.size())) {
    if (c < '0' || c > '9') return {};
    step = step * 10 + (c - '0');
  }
  return name.size() > kStepPrefix.size() ? std::optional(step) : std::nullopt;
}

std::vector<int64_t> list_checkpoints(const std::string& folder, std::vector<std::string>* damaged) {
  std::vector<int64_t> steps;
  const RunPaths paths{folder};
  const std::string plan = plan_hash_of(folder);
  for (const std::string& name : names_in(paths.checkpoints())) {
    std::optional<int64_t> step = step_of(name);
    if (!step) continue;
    try {
      whole_manifest(paths.checkpoints() + "/" + name, plan);
      steps.push_back(*step);
    } catch (const Error& error) {
      if (damaged) damaged->push_back(std::string(error.what()) + "; this checkpoint is skipped");
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

bool verify_checkpoint(const std::string& path, std::string* fault) {
  try {
    for (const ManifestFile& file : whole_manifest(path, plan_hash_of(fs::path(path).parent_path().parent_path().string())).files)
      if (const std::string full = path + "/" + file.name; hash_file(full) != file.hash)
        throw Error(ErrorKind::environment, full + ": does not match its hash in manifest.json");
    return true;
  } catch (const Error& error) {
    *fault = error.what();
    return false;
  }
}

void require_whole_weights(const std::string& path, KnownHashes* known) {
  const std::string name = path + "/manifest.json";
  // Other tools write a manifest.json too, but not beside a state.json.
  if (!file_exists(name) || !file_exists(path + "/state.json")) return;
  const auto hash_of = [&](const std::string& file) { return known ? known->of(file) : hash_file(file); };
  Manifest manifest;
  read_checked(run_json(name), name, [&](const Json& json) { read_members(json, manifest, kManifestMembers); });
  for (const ManifestFile& file : manifest.files) {
    if (!starts_with(file.name, "adapter_") && !starts_with(file.name, "model") && file.name != "config.json") continue;
    const std::string full = path + "/" + file.name;
    if (!safe_file_name(file.name) || !file_exists(full) || file_size(full) != file.bytes || hash_of(full) != file.hash)
      throw Error(ErrorKind::environment, full + ": is not the file that manifest.json lists: its size or its hash differs")
          .hint("the disk damaged it, or it was changed: use another checkpoint of the run");
  }
}

CheckpointWriter::CheckpointWriter(const std::string& folder, int64_t step) : folder_(folder), step_(step) {
  RunPaths paths{folder};
  make_folder(paths.checkpoints());
  final_ = paths.checkpoint(step);
  temporary_ = make_temporary_sibling(final_);
}

CheckpointWriter::~CheckpointWriter() {
  if (!committed_) remove_tree(temporary_);
}

int64_t CheckpointWriter::commit() {
  Json manifest{{"format", kFormat}, {"step", step_}, {"files", Json::array()}};
  if (const std::string plan = plan_hash_of(folder_); !plan.empty()) manifest["plan"] = plan;
  int64_t total = 0;
  for (const std::string& name : names_in(temporary_)) {
    std::string full = temporary_ + "/" + name;
    int64_t bytes = file_size(full);
    total += bytes;
    manifest["files"].push_back({{"name", name}, {"bytes", bytes}, {"hash", hash_file(full)}});
  }
  write_file_durably(temporary_ + "/manifest.json", manifest.dump(2));
  sync_directory(temporary_);
  replace_directory(temporary_, final_);
  committed_ = true;
  return total;
}

std::string set_checkpoint_aside(const std::string& folder, int64_t step) {
  const std::string path = RunPaths{folder}.checkpoint(step), aside = path + std::string(kDamaged);
  remove_tree(aside);
  std::error_code error;
  fs::rename(path, aside, error);
  if (error) throw Error(ErrorKind::environment, path + ": cannot move the damaged checkpoint aside: " + error.message());
  return aside;
}

void retain_checkpoints(const std::string& folder, int64_t keep_last, const std::vector<int64_t>& keep) {
  std::vector<int64_t> steps = list_checkpoints(folder);
  if (!steps.empty()) remove_damaged(folder, steps.back());
  int64_t newest = std::max<int64_t>(keep_last, 1);
  RunPaths paths{folder};
  for (int64_t i = 0; i < static_cast<int64_t>(steps.size()) - newest; ++i) {
    int64_t step = steps[static_cast<size_t>(i)];
    if (std::find(keep.begin(), keep.end(), step) != keep.end()) continue;
    std::string condemned = paths.checkpoints() + "/.trash-" + std::to_string(step);
    std::error_code error;
    fs::rename(paths.checkpoint(step), condemned, error);
    remove_tree(condemned);
  }
}

}  // namespace forge

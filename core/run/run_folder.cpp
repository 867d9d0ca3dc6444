#include "core/run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/text.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr int64_t kFormat = 1;
constexpr int64_t kSmallFile = 64 << 20;

std::optional<int64_t> step_of(const std::string& name) {
  if (!starts_with(name, kStepPrefix) || name.size() > 24) return {};
  int64_t step = 0;
  for (char c : name.substr(kStepPrefix.size())) {
    if (c < '0' || c > '9') return {};
    step = step * 10 + (c - '0');
  }
  return name.size() > kStepPrefix.size() ? std::optional(step) : std::nullopt;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<Json> read_json_if_whole(const std::string& path) {
  if (!file_exists(path)) return {};
  try {
    return parse_json(read_file(path, kSmallFile, ErrorKind::environment), path, ErrorKind::environment);
  } catch (const Error&) {
    return {};
  }
}

// The manifest of a checkpoint whose files are all there in full length.
std::optional<Json> whole_manifest(const std::string& path) {
  std::optional<Json> manifest = read_json_if_whole(path + "/manifest.json");
  if (!manifest || !manifest->is_object() || manifest->value("format", int64_t{0}) != kFormat) return {};
  if (!manifest->contains("files") || !(*manifest)["files"].is_array()) return {};
  for (const Json& file : (*manifest)["files"]) {
    if (!file.is_object() || !file.contains("name") || !file["name"].is_string()) return {};
    std::string name = file["name"];
    std::string full = path + "/" + name;
    if (!safe_file_name(name) || !file_exists(full) || file_size(full) != file.value("bytes", int64_t{-1})) return {};
  }
  return manifest;
}

// A run killed before its plan was written leaves job.yaml and temporary files, nothing else.
bool is_unstarted(const std::string& folder) {
  for (const std::string& name : names_in(folder))
    if (name != "job.yaml" && name.find(".tmp-") == std::string::npos) return false;
  return true;
}

// Whether metrics tell of a finished step. Only what stands before the first step is read.
bool has_step(const std::string& metrics) {
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);)
    if (line.find("\"event\":\"step\"") != std::string::npos) return true;
  return false;
}

void remove_tree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
}

}  // namespace

std::string RunPaths::checkpoint(int64_t step) const {
  return fmt::format("{}/step-{:06}", checkpoints(), step);
}

RunLock::RunLock(const std::string& folder) {
  descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) throw Error(ErrorKind::environment, folder + ": cannot open the run folder: " + std::strerror(errno));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(descriptor_);
  throw Error(ErrorKind::environment, folder + ": another process is working on this run")
      .hint("wait for it, or stop it; a second run needs another name");
}

RunLock::~RunLock() { ::close(descriptor_); }

RunState inspect_run(const std::string& folder) {
  RunState state;
  RunPaths paths{folder};
  std::error_code error;
  bool empty = !is_directory(folder) || fs::is_empty(folder, error);
  if (!file_exists(paths.plan()) && !empty && !is_unstarted(folder))
    throw Error(ErrorKind::environment, folder + ": is not empty and holds no plan.json, so it is no run folder")
        .hint("choose another name or output_dir");
  std::optional<Json> plan = read_json_if_whole(paths.plan());
  if (!plan) return state;
  state.exists = true;
  state.plan = std::move(*plan);
  if (file_exists(paths.amendments())) {
    std::string text = read_file(paths.amendments(), kSmallFile, ErrorKind::environment);
    for (const std::string& line : split(text, '\n'))
      if (!trim(line).empty()) state.amendments.push_back(parse_json(line, paths.amendments(), ErrorKind::environment));
  }
  std::optional<Json> report = read_json_if_whole(paths.report());
  // An extension asks for more steps than the report of the run before it knew.
  int64_t steps = state.plan.value("steps", int64_t{0});
  for (const Json& amendment : state.amendments)
    if (amendment.contains("changes")) steps = amendment["changes"].value("steps", steps);
  state.finished = report && report->is_object() && report->value("state", "") == "finished" &&
                   report->value("planned_steps", int64_t{0}) >= steps;
  std::vector<int64_t> checkpoints = list_checkpoints(folder);
  if (!checkpoints.empty()) state.last_step = checkpoints.back();
  state.stepped = state.last_step || state.finished || has_step(paths.metrics());
  return state;
}

void append_amendment(const std::string& folder, const Json& amendment) {
  // Rewritten as a whole: a torn last line could not be told from a broken file.
  RunPaths paths{folder};
  std::string text;
  if (file_exists(paths.amendments())) text = read_file(paths.amendments(), kSmallFile, ErrorKind::environment);
  write_file_durably(paths.amendments(), text + dump_json(amendment) + "\n");
}

std::vector<int64_t> list_checkpoints(const std::string& folder) {
  std::vector<int64_t> steps;
  RunPaths paths{folder};
  for (const std::string& name : names_in(paths.checkpoints())) {
    std::optional<int64_t> step = step_of(name);
    if (step && whole_manifest(paths.checkpoints() + "/" + name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

bool verify_checkpoint(const std::string& path, std::string* fault) {
  std::optional<Json> manifest = whole_manifest(path);
  if (!manifest) {
    *fault = path + "/manifest.json";
    return false;
  }
  for (const Json& file : (*manifest)["files"]) {
    std::string full = path + "/" + file["name"].get<std::string>();
    if (hash_file(full) == file.value("hash", std::string())) continue;
    *fault = full;
    return false;
  }
  return true;
}

CheckpointWriter::CheckpointWriter(const std::string& folder, int64_t step) : folder_(folder), step_(step) {
  RunPaths paths{folder};
  make_directories(paths.checkpoints());
  final_ = paths.checkpoint(step);
  temporary_ = final_ + ".tmp-" + std::to_string(::getpid());
  remove_tree(temporary_);
  make_directories(temporary_);
}

CheckpointWriter::~CheckpointWriter() {
  if (!committed_) remove_tree(temporary_);
}

int64_t CheckpointWriter::commit(const Json& facts) {
  Json manifest = facts;
  manifest["format"] = kFormat;
  manifest["step"] = step_;
  manifest["files"] = Json::array();
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

void retain_checkpoints(const std::string& folder, int64_t keep_last, const std::vector<int64_t>& keep) {
  std::vector<int64_t> steps = list_checkpoints(folder);
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

void remove_litter(const std::string& folder) {
  RunPaths paths{folder};
  for (const std::string& place : {folder, paths.checkpoints()})
    for (const std::string& name : names_in(place))
      if (starts_with(name, ".trash-") || name.find(".tmp-") != std::string::npos) remove_tree(place + "/" + name);
}

void replace_directory(const std::string& source, const std::string& target) {
  fs::path parent = fs::path(target).parent_path();
  std::string condemned;
  std::error_code error;
  if (fs::exists(target)) {
    condemned = (parent / (".trash-" + fs::path(target).filename().string())).string();
    remove_tree(condemned);
    fs::rename(target, condemned, error);
    if (error) throw Error(ErrorKind::environment, target + ": cannot move it aside: " + error.message());
  }
  fs::rename(source, target, error);
  if (error) throw Error(ErrorKind::environment, target + ": cannot rename into place: " + error.message());
  sync_directory(parent.string());
  if (!condemned.empty()) remove_tree(condemned);
}

}  // namespace forge

#include "core/run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <fmt/format.h>
#include <fstream>
#include <thread>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/io/members.h"
#include "core/plan/plan.h"

namespace forge {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kDamaged = ".damaged";
constexpr int64_t kFormat = 1;
constexpr int64_t kSmallFile = 64 << 20;
// A process that was just killed holds its locks until its memory has been released.
constexpr auto kDying = std::chrono::seconds(2);

std::optional<int64_t> step_of(const std::string& name) {
  if (!starts_with(name, kStepPrefix) || name.size() > 24) return {};
  int64_t step = 0;
  for (char c : name.substr(kStepPrefix.size())) {
    if (c < '0' || c > '9') return {};
    step = step * 10 + (c - '0');
  }
  return name.size() > kStepPrefix.size() ? std::optional(step) : std::nullopt;
}

Json read_json(const std::string& path) {
  return parse_json(read_file(path, kSmallFile, ErrorKind::environment), path, ErrorKind::environment);
}

struct ManifestFile {
  std::string name, hash;
  int64_t bytes = 0;
};

struct Manifest {
  int64_t format = 0, step = 0;
  std::string plan;  // hash of the run's plan.json; empty in those of older versions
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

// Reads JSON and gives it to `read`. Error(environment) "PATH: key: what" for a fault that it finds.
template <class Read>
void read_checked(const Json& json, const std::string& name, Read read) {
  try {
    read(json);
  } catch (const MemberFault& fault) {
    throw Error(ErrorKind::environment, fault.at(name));
  }
}

// The hash of the plan beside a checkpoint's run; empty where there is none to be read.
std::string plan_hash_of(const std::string& run_folder) {
  const std::string plan = RunPaths{run_folder}.plan();
  return file_exists(plan) ? stated_plan_hash(read_json(plan)) : "";
}

// The manifest of a checkpoint of the run whose folder it lies in, with all files at full length. Throws
// Error(environment).
Manifest whole_manifest(const std::string& path) {
  const std::string name = path + "/manifest.json";
  Manifest manifest;
  read_checked(read_json(name), name, [&](const Json& json) { read_members(json, manifest, kManifestMembers); });
  if (step_of(fs::path(path).filename().string()) != manifest.step)
    throw Error(ErrorKind::environment, name + ": step: is " + std::to_string(manifest.step) + ", not the folder's");
  const std::string plan = plan_hash_of(fs::path(path).parent_path().parent_path().string());
  if (!manifest.plan.empty() && !plan.empty() && manifest.plan != plan)
    throw Error(ErrorKind::environment, path + ": is a checkpoint of another run");
  for (const ManifestFile& file : manifest.files) {
    const std::string full = path + "/" + file.name;
    if (!safe_file_name(file.name))
      throw Error(ErrorKind::environment, name + ": files: a name is not one of a file in the folder");
    if (!file_exists(full)) throw Error(ErrorKind::environment, full + ": is missing");
    if (const int64_t bytes = file_size(full); bytes != file.bytes)
      throw Error(ErrorKind::environment, full + ": has " + std::to_string(bytes) + " bytes, expected " +
                                              std::to_string(file.bytes));
  }
  return manifest;
}

Json read_plan(const std::string& path) {
  Json plan = read_json(path);
  take_plan_hash(plan, path);
  plan_from_json(plan, path);
  return plan;
}

struct Exported {
  std::map<std::string, int64_t> files;  // bytes by name; none in reports of older versions
};

constexpr auto kExportedMembers = [](auto& exported, auto&& member) {
  member.later("files", exported.files, "of the result: bytes by name", at_least(0));
};

void from_json(const Json& json, Exported& exported) { read_members(json, exported, kExportedMembers); }

// What report.json says about the end of a run, as far as it can be read.
struct ReportEnd {
  std::string state;
  int64_t planned_steps = 0;
  Exported exported;
};

constexpr auto kReportEndMembers = [](auto& end, auto&& member) {
  member("state", end.state, "finished or stopped");
  member.later("planned_steps", end.planned_steps, "optimizer steps planned");
  member.later("exported", end.exported, "the result");
};

// Nothing if there is no report. A damaged one is a fault, and is rewritten when the run is completed.
std::optional<ReportEnd> read_report_end(const std::string& path, std::vector<std::string>& faults) {
  if (!file_exists(path)) return {};
  ReportEnd end;
  try {
    read_checked(read_json(path), path, [&](const Json& json) { read_members(json, end, kReportEndMembers); });
    return end;
  } catch (const Error& error) {
    faults.push_back(std::string(error.what()) + "; it is made again");
    return {};
  }
}

// A run killed before its plan was written leaves job.yaml and temporary files, nothing else.
bool is_unstarted(const std::string& folder) {
  for (const std::string& name : names_in(folder))
    if (name != "job.yaml" && name.find(".tmp-") == std::string::npos) return false;
  return true;
}

// The names that a run writes, final or temporary.
bool is_of_a_run(const std::string& name) {
  constexpr std::array kNames{"job.yaml",    "plan.json",    "amendments.jsonl",      "metrics.jsonl", "report.json",
                              "report.html", "samples.json", "reference.safetensors", "log.txt",       "checkpoints",
                              "adapter",     "model",        "rollouts",              "merged",        "gguf",
                              "gguf-lora",   "ollama"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() || name.find(".tmp-") != std::string::npos ||
         starts_with(name, ".trash-") || starts_with(name, "events.out.tfevents.") ||
         starts_with(name, "metrics.jsonl.");
}

// A run without its plan: somebody removed it, perhaps during the run.
bool is_left_of_a_run(const std::string& folder) {
  const std::vector<std::string> names = names_in(folder);
  const auto tells = [](const std::string& name) { return starts_with(name, "metrics.jsonl") || name == "log.txt"; };
  const std::vector<std::string> checkpoints = names_in(RunPaths{folder}.checkpoints());
  return std::all_of(names.begin(), names.end(), is_of_a_run) &&
         (std::any_of(names.begin(), names.end(), tells) ||
          std::any_of(checkpoints.begin(), checkpoints.end(), [](const auto& name) { return step_of(name); }));
}

[[noreturn]] void refuse_what_is_no_run(const std::string& folder) {
  if (is_left_of_a_run(folder))
    throw Error(ErrorKind::environment, folder + ": holds what is left of a run, without its plan.json")
        .hint("use --fresh to clear it and start over, or give the job another name");
  throw Error(ErrorKind::environment, folder + ": is not empty and holds no plan.json, so it is no run folder")
      .hint("choose another name or output_dir");
}

[[noreturn]] void refuse_lock(const std::string& folder, int error) {
  if (error != EWOULDBLOCK)
    throw Error(ErrorKind::environment, folder + ": cannot lock the run folder: " + std::strerror(error))
        .hint("its file system has no locks for folders; set output_dir to another one");
  throw Error(ErrorKind::environment, folder + ": another process is working on this run")
      .hint("wait for it, or stop it (an engine whose program was killed is gone within 10 s); a second run needs "
            "another name");
}

// Whether the metrics contain a step. Reads only up to the first one.
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

// One folder, in an existing parent.
void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directory(path, error);
  if (error) throw Error(ErrorKind::environment, path + ": cannot create the folder: " + error.message());
}

}  // namespace

std::string RunPaths::checkpoint(int64_t step) const {
  return fmt::format("{}/step-{:06}", checkpoints(), step);
}

RunLock::RunLock(const std::string& folder) : folder_(folder) {
  const auto deadline = std::chrono::steady_clock::now() + kDying;
  while (true) {
    descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor_ < 0)
      throw Error(ErrorKind::environment, folder + ": cannot open the run folder: " + std::strerror(errno));
    const bool locked = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
    const int error = errno;
    if (locked && holds_folder()) return;
    ::close(descriptor_);
    if (locked) continue;  // another process removed the folder between the two calls
    if (error != EWOULDBLOCK || std::chrono::steady_clock::now() > deadline) refuse_lock(folder, error);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

RunLock::RunLock(const std::string& folder, int descriptor) : folder_(folder), descriptor_(descriptor) {
  FORGE_CHECK(::fcntl(descriptor_, F_SETFD, FD_CLOEXEC) == 0, "descriptor " << descriptor << " is not open");
}

RunLock::~RunLock() { ::close(descriptor_); }

bool RunLock::holds_folder() const {
  struct stat named{}, held{};
  return ::stat(folder_.c_str(), &named) == 0 && ::fstat(descriptor_, &held) == 0 && named.st_dev == held.st_dev &&
         named.st_ino == held.st_ino;
}

void require_run_folder(const std::string& folder) {
  std::error_code error;
  bool empty = !is_directory(folder) || fs::is_empty(folder, error);
  if (!file_exists(RunPaths{folder}.plan()) && !empty && !is_unstarted(folder)) refuse_what_is_no_run(folder);
}

RunState inspect_run(const std::string& folder) {
  RunState state;
  RunPaths paths{folder};
  require_run_folder(folder);
  if (!file_exists(paths.plan())) return state;
  state.exists = true;
  try {
    state.plan = read_plan(paths.plan());
    state.amendments = read_amendments(paths.amendments());
  } catch (const Error& error) {
    throw Error(error.kind(), error.what())
        .hint(error.hint().empty() ? "put the file back as it was, or start over with --fresh" : error.hint());
  }
  const std::optional<ReportEnd> report = read_report_end(paths.report(), state.faults);
  // An extension asks for more steps than the earlier report covers.
  int64_t steps = state.plan.value("steps", int64_t{0});
  for (const Amendment& amendment : state.amendments) steps = amendment.changes.value("steps", steps);
  state.finished = report && report->state == "finished" && report->planned_steps >= steps;
  std::vector<int64_t> checkpoints = list_checkpoints(folder);
  if (!checkpoints.empty()) state.last_step = checkpoints.back();
  state.stepped = state.last_step || state.finished || has_step(paths.metrics());
  const auto adapter_type = "/job/adapter/type"_json_pointer;
  const bool full = state.plan.contains(adapter_type) && state.plan.at(adapter_type) == "none";
  state.result = full ? "model" : "adapter";
  std::map<std::string, int64_t> files = report ? report->exported.files : std::map<std::string, int64_t>{};
  files.try_emplace(full ? "config.json" : "adapter_config.json", -1);
  files.try_emplace(full ? "model.safetensors" : "adapter_model.safetensors", -1);
  // People may edit cards and settings; weights that are cut off are damage.
  state.result_whole = !state.finished || std::all_of(files.begin(), files.end(), [&](const auto& file) {
    const std::string path = folder + "/" + state.result + "/" + file.first;
    return file_exists(path) && (file.second < 0 || !ends_with(path, ".safetensors") || file_size(path) == file.second);
  });
  return state;
}

std::string discarded_path(const std::string& folder) {
  const fs::path path(folder);
  return (path.parent_path() / ("." + path.filename().string() + kDiscarded)).string();
}

void discard_run(const std::string& folder) {
  if (!file_exists(RunPaths{folder}.plan()) && !is_unstarted(folder) && !is_left_of_a_run(folder))
    refuse_what_is_no_run(folder);
  const std::string aside = discarded_path(folder);
  std::error_code error;
  fs::remove_all(aside, error);
  // Renamed first, so that a kill halfway leaves no partial run under its name.
  fs::rename(folder, aside, error);
  if (error) throw Error(ErrorKind::environment, folder + ": cannot move the old run away: " + error.message());
  fs::remove_all(aside, error);
  if (error) throw Error(ErrorKind::environment, aside + ": cannot remove the old run: " + error.message());
}

std::string result_of(const std::string& folder) {
  if (file_exists(folder + "/adapter/adapter_model.safetensors")) return folder + "/adapter";
  return file_exists(folder + "/model/model.safetensors") ? folder + "/model" : "";
}

std::vector<int64_t> list_checkpoints(const std::string& folder, std::vector<std::string>* damaged) {
  std::vector<int64_t> steps;
  RunPaths paths{folder};
  for (const std::string& name : names_in(paths.checkpoints())) {
    std::optional<int64_t> step = step_of(name);
    if (!step) continue;
    try {
      whole_manifest(paths.checkpoints() + "/" + name);
      steps.push_back(*step);
    } catch (const Error& error) {
      if (damaged) damaged->push_back(std::string(error.what()) + "; this checkpoint is passed over");
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

bool verify_checkpoint(const std::string& path, std::string* fault) {
  try {
    for (const ManifestFile& file : whole_manifest(path).files)
      if (const std::string full = path + "/" + file.name; hash_file(full) != file.hash)
        throw Error(ErrorKind::environment, full + ": does not have the hash that manifest.json states");
    return true;
  } catch (const Error& error) {
    *fault = error.what();
    return false;
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

namespace {

// A checkpoint that was set aside is useless once its steps have been repeated.
void remove_damaged(const std::string& folder, int64_t newest) {
  const std::string checkpoints = RunPaths{folder}.checkpoints();
  for (const std::string& name : names_in(checkpoints)) {
    if (!ends_with(name, kDamaged)) continue;
    const std::optional<int64_t> step = step_of(name.substr(0, name.size() - kDamaged.size()));
    if (step && *step <= newest) remove_tree(checkpoints + "/" + name);
  }
}

}  // namespace

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

void remove_litter(const std::string& folder) {
  RunPaths paths{folder};
  for (const std::string& place : {folder, paths.checkpoints(), paths.rollouts(), paths.served_adapters()})
    for (const std::string& name : names_in(place))
      if (starts_with(name, ".trash-") || name.find(".tmp-") != std::string::npos) remove_tree(place + "/" + name);
}

std::string make_temporary_sibling(const std::string& target) {
  const std::string path = target + ".tmp-" + std::to_string(::getpid());
  remove_tree(path);
  make_folder(path);
  return path;
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

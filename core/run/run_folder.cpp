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
#include <fstream>
#include <map>
#include <thread>


#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/format.h"
#include "core/lib/base/temporary.h"
#include "core/lib/base/text.h"
#include "core/lib/io/members.h"
#include "core/plan/plan.h"
#include "core/run/checkpoints.h"
#include "core/run/heartbeat.h"
#include "core/run/staging.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSmallFile = 64 << 20;
// A process that was just killed holds its locks until its memory has been released.
constexpr auto kDying = std::chrono::seconds(2);

Json read_plan(const std::string& path) {
  Json plan = run_json(path);
  take_plan_hash(plan, path);
  plan_from_json(plan, path);
  return plan;
}

// The end of a run as report.json states it, as far as it can be read.
struct ReportEnd {
  std::string state;
  int64_t planned_steps = 0;
  std::optional<int64_t> step;
  std::map<std::string, int64_t> files;  // bytes by name; none in reports of older versions
};

// Returns nothing if there is no report. A damaged one is a fault; it is rewritten when the run is
// completed.
std::optional<ReportEnd> read_report_end(const std::string& path, std::vector<std::string>& faults) {
  if (!file_exists(path)) return {};
  ReportEnd end;
  try {
    read_checked(run_json(path), path, [&](const Json& json) {
      MemberReader member{json};
      member("state", end.state, "finished or stopped");
      member.later("planned_steps", end.planned_steps, "optimizer steps planned");
      member.later("step", end.step, "the last one done");
      if (!json.contains("exported")) return;
      member.group("exported", "the result", [&](MemberReader exported) {
        exported.later("files", end.files, "bytes by name", at_least(0));
      });
    });
    return end;
  } catch (const Error& error) {
    faults.push_back(std::string(error.what()) + "; it is made again");
    return {};
  }
}

// True for a run that was killed before its plan was written: it has left job.yaml, its heartbeat
// and temporary files, nothing else.
bool is_unstarted(const std::string& folder) {
  for (const std::string& name : names_in(folder))
    if (name != "job.yaml" && name != kHeartbeat && name.find(".tmp-") == std::string::npos) return false;
  return true;
}

// True for the names that a run writes, final or temporary.
bool is_of_a_run(const std::string& name) {
  constexpr std::array kNames{"job.yaml",    "plan.json",    "amendments.jsonl",      "metrics.jsonl", "report.json",
                              "report.html", "samples.json", "reference.safetensors", "log.txt",       "checkpoints",
                              "adapter",     "model",        "rollouts",              "merged",        "gguf",
                              "gguf-lora",   "ollama",       kHeartbeat};
  return std::ranges::count(kNames, name) > 0 || name.find(".tmp-") != std::string::npos ||
         starts_with(name, ".trash-") || starts_with(name, "events.out.tfevents.") ||
         starts_with(name, "metrics.jsonl.");
}

// True for a run without its plan: somebody removed it, perhaps during the run.
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
  throw Error(ErrorKind::environment, folder + ": is not empty and holds no plan.json, so it is not a run folder")
      .hint("choose another name or output_dir");
}

[[noreturn]] void refuse_lock(const std::string& folder, int error) {
  if (error != EWOULDBLOCK)
    throw Error(ErrorKind::environment, folder + ": cannot lock the run folder: " + std::strerror(error))
        .hint("its file system cannot lock folders; set output_dir to another one");
  throw Error(ErrorKind::environment, folder + ": another process is working on this run")
      .hint("wait for it, or stop it (an engine whose program was killed is gone within 10 s); a second run needs "
            "another name");
}

// True if the metrics contain a step. Reads only up to the first one.
bool has_step(const std::string& metrics) {
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);)
    if (line.find("\"event\":\"step\"") != std::string::npos) return true;
  return false;
}

}  // namespace

Json run_json(const std::string& path) {
  return parse_json(read_file(path, kSmallFile, ErrorKind::environment), path, ErrorKind::environment);
}

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
  if (state.finished) state.finished_step = report->step;
  std::vector<int64_t> checkpoints = list_checkpoints(folder);
  if (!checkpoints.empty()) state.last_step = checkpoints.back();
  state.stepped = state.last_step || state.finished || has_step(paths.metrics());
  const auto adapter_type = "/job/adapter/type"_json_pointer;
  const bool full = state.plan.contains(adapter_type) && state.plan.at(adapter_type) == "none";
  state.result = full ? "model" : "adapter";
  std::map<std::string, int64_t> files = report ? report->files : std::map<std::string, int64_t>{};
  files.try_emplace(full ? "config.json" : "adapter_config.json", -1);
  files.try_emplace(full ? "model.safetensors" : "adapter_model.safetensors", -1);
  // People may edit cards and settings; weights that are cut off are damage.
  state.result_whole = !state.finished || std::all_of(files.begin(), files.end(), [&](const auto& file) {
    const std::string path = folder + "/" + state.result + "/" + file.first;
    return file_exists(path) && (file.second < 0 || !ends_with(path, ".safetensors") || file_size(path) == file.second);
  });
  return state;
}

void discard_run(const std::string& folder) {
  if (!file_exists(RunPaths{folder}.plan()) && !is_unstarted(folder) && !is_left_of_a_run(folder))
    refuse_what_is_no_run(folder);
  const fs::path path(folder);
  const std::string aside = path.parent_path() / ("." + path.filename().string() + kDiscarded);
  std::error_code error;
  fs::remove_all(aside, error);
  // The folder is renamed first, so that a kill halfway leaves no partial run under its name.
  fs::rename(folder, aside, error);
  if (error) throw Error(ErrorKind::environment, folder + ": cannot move the old run away: " + error.message());
  fs::remove_all(aside, error);
  if (error) throw Error(ErrorKind::environment, aside + ": cannot remove the old run: " + error.message());
}

std::string result_of(const std::string& folder) {
  if (file_exists(folder + "/adapter/adapter_model.safetensors")) return folder + "/adapter";
  return file_exists(folder + "/model/model.safetensors") ? folder + "/model" : "";
}

void remove_litter(const std::string& folder) {
  RunPaths paths{folder};
  for (const std::string& place : {folder, paths.checkpoints(), paths.rollouts(), paths.served_adapters()})
    for (const std::string& name : names_in(place))
      if ((starts_with(name, kCondemned) || name.find(".tmp-") != std::string::npos) && !may_be_in_use(name) && !put_back(place + "/" + name))
        remove_tree(place + "/" + name);
}

}  // namespace forge

#include "core/run/run_folder.h"

#include <charconv>
#include <filesystem>

#include "core/base/file.h"
#include "core/base/text.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestJson = int64_t{256} << 20;

Json read_json(const std::string& path) {
  return parse_json(read_file(path, kLargestJson, ErrorKind::environment), path, ErrorKind::environment);
}

std::vector<Json> read_lines(const std::string& path) {
  std::vector<Json> values;
  if (!file_exists(path)) return values;
  std::string text = read_file(path, kLargestJson, ErrorKind::environment);
  int64_t line = 1;
  for (const std::string& row : split(text, '\n'))
    if (!trim(row).empty()) values.push_back(parse_json(row, path, ErrorKind::environment, {}, line++));
  return values;
}

// The highest step of checkpoints/step-000100; a checkpoint is whole or does not exist.
int64_t newest_checkpoint(const std::string& folder) {
  int64_t newest = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder + "/checkpoints", error)) {
    std::string name = entry.path().filename();
    int64_t step = 0;
    const char* end = name.data() + name.size();
    if (!starts_with(name, "step-") || std::from_chars(name.data() + 5, end, step).ptr != end) continue;
    if (file_exists(entry.path() / "manifest.json")) newest = std::max(newest, step);
  }
  return newest;
}

}  // namespace

RunState inspect_run(const std::string& folder) {
  RunState state;
  if (!is_directory(folder)) return state;
  if (!file_exists(folder + "/plan.json")) {
    if (fs::is_empty(folder)) return state;
    throw Error(ErrorKind::environment, folder + ": is not empty and holds no plan.json, so it is no run folder")
        .hint("choose another name or output_dir");
  }
  state.exists = true;
  state.plan = read_json(folder + "/plan.json");
  state.amendments = read_lines(folder + "/amendments.jsonl");
  state.last_step = newest_checkpoint(folder);
  if (file_exists(folder + "/report.json")) {
    Json report = read_json(folder + "/report.json");
    int64_t steps = state.plan.value("steps", int64_t{0});
    for (const Json& amendment : state.amendments)
      if (amendment.contains("changes")) steps = amendment["changes"].value("steps", steps);
    state.finished = report.value("state", "") == "finished" && report.value("steps", int64_t{0}) >= steps;
  }
  return state;
}

}  // namespace forge

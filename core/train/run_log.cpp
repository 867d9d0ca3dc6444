#include "core/train/run_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <utility>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/run/report.h"

namespace forge {
namespace {

[[noreturn]] void fail(const std::string& path, const char* action) {
  throw Error(ErrorKind::environment, path + ": cannot " + action + ": " + std::strerror(errno));
}

bool holds_event(const std::string& line) {
  try {
    return is_event(parse_json(line, "metrics", ErrorKind::environment));
  } catch (const Error&) {
    return false;
  }
}

// Returns why the first `bytes` of the file are not the metrics recorded there before; empty if
// they are.
std::string fault_in(const std::string& path, int64_t bytes) {
  if (!std::filesystem::exists(path)) return bytes > 0 ? "is missing" : "";
  if (!file_exists(path)) return "is not a regular file";
  if (::access(path.c_str(), R_OK | W_OK) != 0)
    return std::string("cannot be written: ") + std::strerror(errno);
  if (file_size(path) < bytes)
    return "has " + format_count(file_size(path)) + " bytes where the checkpoint expects " +
           format_count(bytes);
  std::ifstream file(path, std::ios::binary);
  int64_t read = 0, number = 1;
  for (std::string line; read < bytes && std::getline(file, line); ++number) {
    read += static_cast<int64_t>(line.size()) + 1;
    if (read > bytes || !holds_event(line)) return "is damaged at line " + std::to_string(number);
  }
  return "";
}

// True if an event was already recorded when `state` was saved.
bool belongs_to(const Json& event, const TrainState& state) {
  const auto step = event.find("step");
  if (step == event.end() || !step->is_number_integer()) return false;
  return *step <= (event["event"] == "eval" ? state.last_eval_step : state.step);
}

std::string readable_part(const std::string& path, const TrainState& state) {
  std::string text;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);)
    if (holds_event(line) && belongs_to(parse_json(line, path, ErrorKind::environment), state))
      text += line + "\n";
  return text;
}

// The tags of events' members.
constexpr std::pair<const char*, const char*> kScalars[] = {
    {"loss", "train/loss"}, {"learning_rate", "train/learning_rate"},
    {"grad_norm", "train/grad_norm"}, {"tokens_per_second", "speed/tokens_per_second"},
    {"peak_memory_bytes", "memory/peak_bytes"}, {"eval_loss", "eval/loss"},
    {"reward_margin", "train/reward_margin"}, {"reward_accuracy", "train/reward_accuracy"},
    {"logp_chosen_change", "train/logp_chosen_change"},
    {"logp_rejected_change", "train/logp_rejected_change"},
    {"eval_reward_margin", "eval/reward_margin"}, {"eval_reward_accuracy", "eval/reward_accuracy"},
    {"reward", "rollout/reward"}, {"reward_std", "rollout/reward_std"},
    {"eval_reward", "eval/reward"}, {"truncated_share", "rollout/truncated_share"},
    {"distinct_2", "rollout/distinct_2"}, {"sampler_gap", "rollout/sampler_gap"},
    {"staleness", "rollout/staleness"}, {"correction", "rollout/correction"},
    {"entropy", "train/entropy"}, {"kl", "train/kl"}, {"kl_old", "train/kl_old"},
    {"clip_low_share", "train/clip_low_share"}, {"clip_high_share", "train/clip_high_share"}};

void remove_event_files(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (starts_with(entry.path().filename().string(), "events.out.tfevents.")) std::filesystem::remove(entry.path(), error);
}

double seconds_since_1970() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) / 1000;
}

}  // namespace

std::string keep_metrics_aside(const std::string& path) {
  for (int number = 1;; ++number) {
    const std::string aside = path + ".kept-" + std::to_string(number);
    struct stat status {};
    if (::lstat(aside.c_str(), &status) == 0) continue;
    if (::rename(path.c_str(), aside.c_str()) != 0) fail(path, "move it aside");
    return aside;
  }
}

std::string cut_metrics(const std::string& path, TrainState& state) {
  std::string fault = fault_in(path, state.metrics_bytes);
  if (fault.empty()) {
    if (file_exists(path) && file_size(path) > state.metrics_bytes &&
        ::truncate(path.c_str(), state.metrics_bytes) != 0)
      fail(path, "cut it back");
    return "";
  }
  fault = path + ": " + fault;
  std::string readable;
  if (std::filesystem::exists(path)) {
    const std::string aside = keep_metrics_aside(path);
    if (file_exists(aside)) readable = readable_part(aside, state);
    fault += "; it is kept as " + aside;
  }
  write_file_durably(path, readable);
  state.metrics_bytes = static_cast<int64_t>(readable.size());
  return fault + ", and curves and the report lack what could not be read; training itself is not affected";
}

RunLog::RunLog(const RunPaths& paths, bool tensorboard) : paths_(paths), path_(paths.metrics()) {
  open_metrics();
  remove_event_files(paths.folder);
  if (!tensorboard) return;
  double now = seconds_since_1970();
  tensorboard_ = std::make_unique<TensorBoardWriter>(paths.folder + "/" + tensorboard_file_name(now), now);
  std::string unreadable;  // the report names it
  for_each_event(path_, [this](const Json& event) { show(event); }, &unreadable);
}

RunLog::~RunLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RunLog::open_metrics() {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(path_, "write");
}

void RunLog::record(Json& event) {
  event["time"] = seconds_since_1970();
  const std::string line = dump_json(event) + "\n";
  for (size_t done = 0; done < line.size();) {
    const ssize_t count = ::write(descriptor_, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path_, "write");
    done += static_cast<size_t>(count);
  }
  show(event);
}

int64_t RunLog::flush() {
  if (tensorboard_) tensorboard_->flush();
  struct stat named {
  }, open{};
  if (::fstat(descriptor_, &open) != 0) fail(path_, "examine");
  const bool there =
      ::stat(path_.c_str(), &named) == 0 && named.st_dev == open.st_dev && named.st_ino == open.st_ino;
  if (!there) write_again();
  if (::fsync(descriptor_) != 0) fail(path_, "flush");
  if (::fstat(descriptor_, &open) != 0) fail(path_, "examine");
  return open.st_size;
}

void RunLog::write_again() {
  const int lost = descriptor_;
  struct stat status {};
  if (::lstat(path_.c_str(), &status) == 0) keep_metrics_aside(path_);
  open_metrics();
  char buffer[65536];
  int64_t offset = 0;
  for (ssize_t count; (count = ::pread(lost, buffer, sizeof buffer, offset)) > 0; offset += count)
    if (::write(descriptor_, buffer, static_cast<size_t>(count)) != count) fail(path_, "write");
  ::close(lost);
}

void RunLog::show(const Json& event) {
  if (!tensorboard_) return;
  int64_t step = event.value("step", int64_t{0});
  for (const auto& [key, tag] : kScalars)
    if (event.contains(key) && event[key].is_number())
      tensorboard_->scalar(tag, step, event[key].get<double>(), event.value("time", 0.0));
  for (const auto& [key, tag] : {std::pair("rewards", "rollout/rewards/"), std::pair("eval_rewards", "eval/rewards/")})
    if (event.contains(key))
      for (const auto& [name, part] : event[key].items())
        if (part.contains("mean") && part["mean"].is_number())
          tensorboard_->scalar(tag + name, step, part["mean"].get<double>(), event.value("time", 0.0));
}

void RunLog::note(const Json& event) {
  std::time_t now = std::time(nullptr);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  std::ofstream(paths_.log(), std::ios::app) << stamp << " " << dump_json(event) << "\n";
}

}  // namespace forge

#include "core/train/run_log.h"

#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "core/lib/base/text.h"
#include "core/run/report.h"

namespace forge {
namespace {

struct Scalar {
  const char* key;
  const char* tag;
};
constexpr std::array kScalars{
    Scalar{"loss", "train/loss"},          Scalar{"learning_rate", "train/learning_rate"},
    Scalar{"grad_norm", "train/grad_norm"}, Scalar{"tokens_per_second", "speed/tokens_per_second"},
    Scalar{"peak_memory_bytes", "memory/peak_bytes"}, Scalar{"eval_loss", "eval/loss"},
    Scalar{"reward_margin", "train/reward_margin"}, Scalar{"reward_accuracy", "train/reward_accuracy"},
    Scalar{"logp_chosen_change", "train/logp_chosen_change"}, Scalar{"logp_rejected_change", "train/logp_rejected_change"},
    Scalar{"eval_reward_margin", "eval/reward_margin"}, Scalar{"eval_reward_accuracy", "eval/reward_accuracy"},
    Scalar{"reward", "rollout/reward"}, Scalar{"reward_std", "rollout/reward_std"}, Scalar{"eval_reward", "eval/reward"},
    Scalar{"truncated_share", "rollout/truncated_share"}, Scalar{"distinct_2", "rollout/distinct_2"},
    Scalar{"sampler_gap", "rollout/sampler_gap"}, Scalar{"staleness", "rollout/staleness"}, Scalar{"correction", "rollout/correction"}, Scalar{"entropy", "train/entropy"}, Scalar{"kl", "train/kl"},
    Scalar{"kl_old", "train/kl_old"}, Scalar{"clip_low_share", "train/clip_low_share"},
    Scalar{"clip_high_share", "train/clip_high_share"}};

void remove_event_files(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (starts_with(entry.path().filename().string(), "events.out.tfevents.")) std::filesystem::remove(entry.path(), error);
}

}  // namespace

double seconds_since_1970() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) / 1000;
}

RunLog::RunLog(const RunPaths& paths, bool tensorboard) : paths_(paths), metrics_(paths.metrics()) {
  remove_event_files(paths.folder);
  if (!tensorboard) return;
  double now = seconds_since_1970();
  tensorboard_ = std::make_unique<TensorBoardWriter>(paths.folder + "/" + tensorboard_file_name(now), now);
  std::string unreadable;  // the report names it
  for_each_event(paths.metrics(), [this](const Json& event) { show(event); }, &unreadable);
}

void RunLog::record(Json& event) {
  event["time"] = seconds_since_1970();
  metrics_.append(event);
  show(event);
}

void RunLog::show(const Json& event) {
  if (!tensorboard_) return;
  int64_t step = event.value("step", int64_t{0});
  for (const Scalar& scalar : kScalars)
    if (event.contains(scalar.key) && event[scalar.key].is_number())
      tensorboard_->scalar(scalar.tag, step, event[scalar.key].get<double>(), event.value("time", 0.0));
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

int64_t RunLog::flush() {
  if (tensorboard_) tensorboard_->flush();
  return metrics_.flush();
}

}  // namespace forge

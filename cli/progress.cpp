#include "cli/progress.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

constexpr double kMovingSeconds = 0.1;  // at most ten times a second
constexpr double kPlainSeconds = 5;     // a line in a log file
constexpr int kBarWidth = 16;

double number(const Json& event, const char* key, double otherwise = 0) {
  auto found = event.find(key);
  return found != event.end() && found->is_number() ? found->get<double>() : otherwise;
}

// Returns the number with four significant digits.
std::string short_number(double value) {
  return fmt::format("{:.4g}", value);
}

std::string fp8_gate_text(const Json& event) {
  return "base in fp8: loss " + short_number(number(event, "fp8_loss", std::nan(""))) + ", with the file's weights " +
         short_number(number(event, "loss", std::nan(""))) + " (" + short_number(100 * number(event, "difference", std::nan(""))) + " ± " +
         short_number(200 * number(event, "standard_error", std::nan(""))) + " % of at most " + short_number(100 * number(event, "tolerance")) + " %)";
}

std::string eval_text(const Json& event) {
  std::string text = "eval at step " + format_count(static_cast<int64_t>(number(event, "step")));
  const double loss = number(event, "eval_loss", std::nan(""));  // JSON has null for values that are not finite
  text += ": loss " + short_number(loss);
  if (event.contains("eval_reward"))
    text = "eval at step " + format_count(static_cast<int64_t>(number(event, "step"))) + ": reward " +
           short_number(number(event, "eval_reward", std::nan(""))) + ", " +
           short_number(number(event.value("eval_completion_tokens", Json::object()), "mean")) + " tokens a completion";
  else if (event.contains("eval_reward_margin"))
    text += ", accuracy " + short_number(number(event, "eval_reward_accuracy", std::nan(""))) + ", margin " +
            short_number(number(event, "eval_reward_margin", std::nan("")));
  else
    text += ", perplexity " + short_number(std::exp(loss));
  if (event.contains("seconds")) text += " (" + format_seconds(number(event, "seconds")) + ")";
  return text;
}

std::string checkpoint_text(const Json& event) {
  std::string text = "checkpoint at step " + format_count(static_cast<int64_t>(number(event, "step")));
  if (event.contains("bytes")) text += ": " + format_bytes(static_cast<int64_t>(number(event, "bytes")));
  if (event.contains("seconds")) text += " in " + format_seconds(number(event, "seconds"));
  return text;
}

}  // namespace

std::string bar(double share, int width) {
  int filled = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * width));
  std::string text;
  for (int i = 0; i < width; ++i) text += i < filled ? "━" : "─";
  return text;
}

std::string step_text(const Json& step, double seconds_left) {
  std::string text = "step " + format_count(static_cast<int64_t>(number(step, "step")));
  if (number(step, "steps") > 0) text += "/" + format_count(static_cast<int64_t>(number(step, "steps")));
  text += "  loss " + short_number(number(step, "loss", std::nan("")));
  if (step.contains("reward_margin"))
    text += "  accuracy " + short_number(number(step, "reward_accuracy", std::nan(""))) + "  margin " +
            short_number(number(step, "reward_margin", std::nan("")));
  text += "  lr " + short_number(number(step, "learning_rate"));
  text += "  " + format_count(std::llround(number(step, "tokens_per_second"))) + " tok/s";
  if (number(step, "peak_memory_bytes") > 0)
    text += "  " + format_bytes(static_cast<int64_t>(number(step, "peak_memory_bytes")));
  if (seconds_left > 0) text += "  " + format_seconds(seconds_left) + " left";
  return text;
}

std::string rollout_text(const Json& event) {
  const auto count = [&](const char* key) { return static_cast<int64_t>(number(event, key)); };
  std::string text = "rollout " + format_count(count("rollout") + 1) + "  reward " +
                     short_number(number(event, "reward", std::nan(""))) + " ± " +
                     short_number(number(event, "reward_std", std::nan("")));
  text += "  flat " + format_count(count("flat_groups")) + "/" + format_count(count("groups")) + "  cut " +
          short_number(std::round(1000 * number(event, "truncated_share")) / 10) + " %  " +
          short_number(number(event.value("completion_tokens", Json::object()), "mean")) + " tokens";
  if (event.contains("sampler_gap") && event["sampler_gap"].is_number())
    text += "  gap " + fmt::format("{:.1g}", number(event, "sampler_gap"));
  if (number(event, "staleness") > 0) text += "  " + format_count(count("staleness")) + " stale";
  return text + "  drawn in " + format_seconds(number(event, "sample_seconds")) + ", scored in " +
         format_seconds(number(event, "score_seconds"));
}

Progress::Progress(bool json, bool quiet) {
  Terminal screen = terminal();
  style_ = json ? Style::json : quiet ? Style::quiet : screen.interactive ? Style::moving : Style::plain;
}

Progress::~Progress() { finish(); }

void Progress::finish() {
  if (!last_status_.empty() && style_ == Style::plain) say(shown(last_status_));  // the last line held back
  last_status_.clear();
  if (moving_line_shown_) say("");
  moving_line_shown_ = false;
}

void Progress::clear() {
  last_status_.clear();
  if (!moving_line_shown_) return;
  (void)!::fwrite("\r\x1b[K", 1, 4, stderr);
  std::fflush(stderr);
  moving_line_shown_ = false;
}

bool Progress::due(double seconds) {
  auto now = std::chrono::steady_clock::now();
  if (std::chrono::duration<double>(now - last_).count() < seconds) return false;
  last_ = now;
  return true;
}

void Progress::status(const std::string& text) {
  if (style_ == Style::moving) {
    last_status_ = text;
    if (!due(kMovingSeconds)) return;
    // The last column stays free: a full line would wrap on some terminals.
    std::string line = "\r" + cut_to_width(shown(text), width() - 1) + "\x1b[K";
    (void)!::fwrite(line.data(), 1, line.size(), stderr);
    std::fflush(stderr);
    moving_line_shown_ = true;
  } else if (style_ == Style::plain) {
    last_status_ = text;
    if (!due(kPlainSeconds)) return;
    say(shown(text));
    last_status_.clear();
  }
}

std::string Progress::shown(const std::string& text) const { return printable(redacted(text, secrets_)); }

void Progress::warn(const std::string& text) {
  warnings_.push_back(redacted(text, secrets_));
  note("warning", text);
}

void Progress::note(const char* level, const std::string& text) {
  if (style_ == Style::json) return show({{"event", "notice"}, {"level", level}, {"text", text}});
  keep_line((std::string_view(level) == "warning" ? "warning: " : "") + text);
}

void Progress::keep_line(const std::string& text) {
  if (style_ == Style::quiet) return;
  if (moving_line_shown_) {
    std::string line = "\r" + cut_to_width(shown(last_status_), width() - 1) + "\x1b[K\n";
    (void)!::fwrite(line.data(), 1, line.size(), stderr);
    std::fflush(stderr);
    moving_line_shown_ = false;
  } else if (style_ == Style::plain && !last_status_.empty()) {
    say(shown(last_status_));
  }
  last_status_.clear();
  say(shown(text));
}

void Progress::show_step(const Json& event) {
  double seconds = number(event, "step_seconds");
  seconds_per_step_ = seconds_per_step_ == 0 ? seconds : 0.9 * seconds_per_step_ + 0.1 * seconds;
  double steps = number(event, "steps"), step = number(event, "step");
  std::string text = step_text(event, (steps - step) * seconds_per_step_);
  if (style_ == Style::moving && steps > 0 && width() >= 60) text = bar(step / steps, kBarWidth) + " " + text;
  status(text);
  if (event.value("skipped", false))
    line("step " + format_number(step) + " was skipped: its gradient is not finite");
}

void Progress::show_json(const Json& event) {
  if (stdout_lost_) return;
  try {
    return print_json(event);
  } catch (const ReaderGone&) {
    say("nothing reads stdout any more: the run continues, and its events are in metrics.jsonl");
  } catch (const Error& error) {
    // The signal has not been handled yet, and ends the run as any does.
    if (error.kind() == ErrorKind::interrupted) return void(stdout_lost_ = true);
    stdout_fault_ = error.what();
    say(stdout_fault_ + ": the run continues, and its events are in metrics.jsonl");
  }
  stdout_lost_ = true;
}

void Progress::show(const Json& event) {
  const std::string name = event.value("event", "");
  if (style_ == Style::json) return show_json(redacted(event, secrets_));
  if (name == "notice" && event.value("level", "") == "warning") return warn(event.value("text", ""));
  if (style_ == Style::quiet) return;
  if (name == "loading") status("loading " + event.value("what", ""));
  if (name == "loaded") {
    clear();
    line("loaded " + event.value("what", "") + ": " +
         format_bytes(static_cast<int64_t>(number(event, "bytes"))) + " in " +
         format_seconds(number(event, "seconds")));
  }
  if (name == "resumed") line("continuing from step " + format_number(number(event, "step")));
  if (name == "step") show_step(event);
  if (name == "rollout") status(rollout_text(event));
  if (name == "eval") line(eval_text(event));
  if (name == "fp8_gate") line(fp8_gate_text(event));
  if (name == "checkpoint") line(checkpoint_text(event));
  if (name == "notice") line(event.value("text", ""));
}

}  // namespace forge

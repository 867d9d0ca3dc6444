#include "cli/progress.h"

#include <algorithm>
#include <cmath>

#include "core/lib/base/format.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"
#include "core/run/event_fields.h"

namespace forge {
namespace {

constexpr double kMovingSeconds = 0.1;  // at most ten times a second
constexpr double kPlainSeconds = 5;     // a line in a log file
constexpr int kBarWidth = 16;

double number_or_nan(const Json& event, const char* key) {
  return number_of(event, key, std::nan(""));
}

// Returns the number with four significant digits.
std::string short_number(double value) {
  return fmt::format("{:.4g}", value);
}

// Returns a number of an event with four significant digits; "nan" if it has none.
std::string short_text(const Json& event, const char* key) {
  return short_number(number_or_nan(event, key));
}

std::string mean_text(const Json& event, const char* key) {
  return short_number(number_of(event.value(key, Json::object()), "mean"));
}

std::string fp8_gate_text(const Json& event) {
  return "base in fp8: loss " + short_text(event, "fp8_loss") + ", with the file's weights " +
         short_text(event, "loss") + " (" + short_number(100 * number_or_nan(event, "difference")) +
         " ± " + short_number(200 * number_or_nan(event, "standard_error")) + " % of at most " +
         short_number(100 * number_of(event, "tolerance")) + " %)";
}

std::string eval_text(const Json& event) {
  std::string text = "eval at step " + format_count(integer_of(event, "step")) + ": ", time;
  if (event.contains("seconds")) time = " (" + format_seconds(number_of(event, "seconds")) + ")";
  if (event.contains("eval_reward"))
    return text + "reward " + short_text(event, "eval_reward") + ", " +
           mean_text(event, "eval_completion_tokens") + " tokens a completion" + time;
  text += "loss " + short_text(event, "eval_loss");
  if (event.contains("eval_reward_margin"))
    return text + ", accuracy " + short_text(event, "eval_reward_accuracy") + ", margin " +
           short_text(event, "eval_reward_margin") + time;
  return text + ", perplexity " + short_number(std::exp(number_or_nan(event, "eval_loss"))) + time;
}

std::string checkpoint_text(const Json& event) {
  std::string text = "checkpoint at step " + format_count(integer_of(event, "step"));
  if (event.contains("bytes")) text += ": " + format_bytes(integer_of(event, "bytes"));
  if (event.contains("seconds")) text += " in " + format_seconds(number_of(event, "seconds"));
  return text;
}

// Writes to the terminal's line without ending it.
void write_moving(const std::string& text) {
  (void)!::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

std::string bar(double share, int width) {
  int filled = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * width));
  std::string text;
  for (int i = 0; i < width; ++i) text += i < filled ? "━" : "─";
  return text;
}

std::string step_text(const Json& step, double seconds_left) {
  std::string text = "step " + format_count(integer_of(step, "step"));
  if (number_of(step, "steps") > 0) text += "/" + format_count(integer_of(step, "steps"));
  text += "  loss " + short_text(step, "loss");
  if (step.contains("reward_margin"))
    text += "  accuracy " + short_text(step, "reward_accuracy") + "  margin " +
            short_text(step, "reward_margin");
  text += "  lr " + short_number(number_of(step, "learning_rate"));
  text += "  " + format_count(std::llround(number_of(step, "tokens_per_second"))) + " tok/s";
  if (number_of(step, "peak_memory_bytes") > 0)
    text += "  " + format_bytes(integer_of(step, "peak_memory_bytes"));
  if (seconds_left > 0) text += "  " + format_seconds(seconds_left) + " left";
  return text;
}

std::string rollout_text(const Json& event) {
  const auto count = [&](const char* key) { return format_count(integer_of(event, key)); };
  std::string text = "rollout " + format_count(integer_of(event, "rollout") + 1) + "  reward " +
                     short_text(event, "reward") + " ± " + short_text(event, "reward_std");
  text += "  flat " + count("flat_groups") + "/" + count("groups") + "  cut " +
          short_number(std::round(1000 * number_of(event, "truncated_share")) / 10) + " %  " +
          mean_text(event, "completion_tokens") + " tokens";
  if (event.contains("sampler_gap") && event["sampler_gap"].is_number())
    text += "  gap " + fmt::format("{:.1g}", number_of(event, "sampler_gap"));
  if (number_of(event, "staleness") > 0) text += "  " + count("staleness") + " stale";
  return text + "  drawn in " + format_seconds(number_of(event, "sample_seconds")) +
         ", scored in " + format_seconds(number_of(event, "score_seconds"));
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
  write_moving("\r\x1b[K");
  moving_line_shown_ = false;
}

bool Progress::due(double seconds) {
  if (seconds_since(last_) < seconds) return false;
  last_ = Clock::now();
  return true;
}

void Progress::status(const std::string& text) {
  if (style_ == Style::moving) {
    last_status_ = text;
    if (!due(kMovingSeconds)) return;
    // The last column stays free: a full line would wrap on some terminals.
    write_moving("\r" + cut_to_width(shown(text), width() - 1) + "\x1b[K");
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
    write_moving("\r" + cut_to_width(shown(last_status_), width() - 1) + "\x1b[K\n");
    moving_line_shown_ = false;
  } else if (style_ == Style::plain && !last_status_.empty()) {
    say(shown(last_status_));
  }
  last_status_.clear();
  say(shown(text));
}

void Progress::show_step(const Json& event) {
  double seconds = number_of(event, "step_seconds");
  seconds_per_step_ = seconds_per_step_ == 0 ? seconds : 0.9 * seconds_per_step_ + 0.1 * seconds;
  double steps = number_of(event, "steps"), step = number_of(event, "step");
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
         format_bytes(integer_of(event, "bytes")) + " in " +
         format_seconds(number_of(event, "seconds")));
  }
  if (name == "resumed") line("continuing from step " + format_number(number_of(event, "step")));
  if (name == "step") show_step(event);
  if (name == "rollout") status(rollout_text(event));
  if (name == "eval") line(eval_text(event));
  if (name == "fp8_gate") line(fp8_gate_text(event));
  if (name == "checkpoint") line(checkpoint_text(event));
  if (name == "notice") line(event.value("text", ""));
}

}  // namespace forge

#pragma once
// The output that people see while the engine works: a moving line on a terminal, plain lines in a
// pipe, the events themselves with --json, and only errors with --quiet.
//
//   Progress progress(args.json(), args.quiet());
//   engine.request(request, [&](const Json& event) { progress.show(event); });
#include <string>

#include "cli/console.h"
#include "core/job/secrets.h"
#include "core/lib/base/clock.h"
#include "core/lib/io/json.h"

namespace forge {

class Progress {
 public:
  enum class Style { json, quiet, plain, moving };

  Progress(bool json, bool quiet);
  // Takes a fixed style and width, for tests.
  Progress(Style style, int width) : style_(style), fixed_width_(width) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Sets the values that must never be shown: a job's secrets.
  void hide(std::vector<Secret> secrets) { secrets_ = std::move(secrets); }
  std::string without_secrets(const std::string& text) const { return redacted(text, secrets_); }

  // Shows an event. With --json, a stdout that can no longer be written to is reported once and
  // then ignored: the events are in metrics.jsonl.
  void show(const Json& event);
  // Returns why stdout did not take all events; empty if it did, or if its reader left.
  const std::string& stdout_fault() const { return stdout_fault_; }
  // Shows a line that moves and is replaced by the next: "tokenising train.jsonl  31 %". In a pipe
  // it is shown only every few seconds.
  void status(const std::string& text);
  // Shows a line that stays; with --json, a notice event.
  void line(const std::string& text) { note("info", text); }
  // Like line(), with the prefix "warning: ". The text is also kept for results that are one JSON
  // object.
  void warn(const std::string& text);
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Ends the moving line; the last status stays.
  void finish();
  // Removes the moving line.
  void clear();

 private:
  bool due(double seconds);
  void note(const char* level, const std::string& text);
  void keep_line(const std::string& text);
  std::string shown(const std::string& text) const;  // without secrets and control characters
  void show_step(const Json& event);
  void show_json(const Json& event);

  // Returns the width of the terminal at this moment: people resize windows.
  int width() const { return fixed_width_ > 0 ? fixed_width_ : terminal().width; }

  Style style_;
  int fixed_width_ = 0;  // 0: ask the terminal
  bool moving_line_shown_ = false;
  bool stdout_lost_ = false;
  std::string stdout_fault_;
  Clock::time_point last_ = Clock::now();
  double seconds_per_step_ = 0;  // running mean
  std::string last_status_;
  std::vector<Secret> secrets_;
  std::vector<std::string> warnings_;
};

// The parts of the lines, public for tests.
// Returns "step 120/339  loss 2.314  lr 0.0002  1,024 tok/s  1.2 GiB  12 min left".
std::string step_text(const Json& step, double seconds_left);
// Returns "rollout 3  reward 0.7 ± 0.2  flat 1/4  cut 8.3 %  120 tokens  gap 3e-07  1 stale  drawn
// in 2.1 s, scored in 0.3 s".
std::string rollout_text(const Json& rollout);
// Returns "━━━━━───────" of `width` columns.
std::string bar(double share, int width);

}  // namespace forge

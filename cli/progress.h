#pragma once
// What people see while the engine works: a line that moves on a terminal, plain lines in a pipe, the events
// themselves with --json, nothing with --quiet but errors.
//
//   Progress progress(args.json(), args.quiet());
//   engine.request(request, [&](const Json& event) { progress.show(event); });
#include <chrono>
#include <cstdint>
#include <string>

#include "cli/console.h"
#include "core/io/json.h"

namespace forge {

class Progress {
 public:
  enum class Style { json, quiet, plain, moving };

  Progress(bool json, bool quiet);
  // For tests: a fixed style and width.
  Progress(Style style, int width) : style_(style), width_(width) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const Json& event);
  // A line that moves and is replaced by the next: "tokenising train.jsonl  31 %". In a pipe only every few
  // seconds.
  void status(const std::string& text);
  // A line that stays.
  void line(const std::string& text);
  // Ends the moving line; the last status stays.
  void finish();
  // Ends it and leaves nothing: what it said is over.
  void clear();

 private:
  bool due(double seconds);
  void show_step(const Json& event);

  Style style_;
  int width_ = 80;
  bool moving_line_shown_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  double seconds_per_step_ = 0;  // running mean
  std::string last_status_;
};

// The pieces, for tests.
// "step 120/339  loss 2.314  lr 0.0002  1,024 tok/s  1.2 GiB  12 min left"
std::string step_text(const Json& step, double seconds_left);
// "━━━━━───────" of `width` columns.
std::string bar(double share, int width);

}  // namespace forge

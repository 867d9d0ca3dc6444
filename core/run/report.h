#pragma once
// What a run was, from its plan and its metrics: report.json for programs, report.html for people.
//
//   RunMetrics metrics = read_metrics(folder + "/metrics.jsonl");
//   Json report = make_report(plan, metrics, {.state = "finished", .seconds = 311});
//   write_report(folder, report, metrics);
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/io/json.h"
#include "core/run/report_rollouts.h"

namespace forge {

// What neither plan nor metrics know.
struct RunFacts {
  std::string state = "finished";   // finished | stopped
  double seconds = 0;               // from start to end; 0: the sum of what the events took
  int64_t measured_peak_bytes = 0;  // 0: the largest peak_memory_bytes of the steps
  Json environment = Json::object();
  Json samples = Json::array();  // {prompt, before, after}
  Json amendments = Json::array();
};

// What a report takes from the events of a run: sums, ends and curves. 40 bytes for each line of metrics, whatever the
// line holds: the metrics of a long run are never in memory.
struct RunMetrics {
  void add(const Json& event);
  void take_answers(const Json& event, const std::string& prefix);

  Json first_step, last_step;  // the events; null without one
  double step_seconds = 0, data_wait_seconds = 0, eval_seconds = 0, saving_seconds = 0;
  double examples = 0, tokens = 0, supervised_tokens = 0, mfu = 0;  // sums over the steps' lines
  int64_t peak_memory_bytes = 0;
  // Of each step's line, and of each evaluation. NaN where a line has no number.
  std::vector<double> steps, loss, learning_rate, grad_norm, tokens_per_second;
  std::vector<double> eval_steps, eval_loss;
  // Of objectives that compare answers, by the metric's name; empty for others. "eval_…" are evaluations'.
  std::map<std::string, std::vector<double>> answers;
  Json fp8_gate;           // the event; null without one
  RolloutCurves rollouts;  // empty where none were drawn
};

// Whether a line of metrics is an event: an object with its name, and step and time as numbers where it has them.
bool is_event(const Json& line);
// The events of a metrics.jsonl, one after the other. A last line that was cut short by a crash is left out; any other
// fault is an Error(environment), or, with `fault`, left out and the first named there. A missing file has no events.
void for_each_event(const std::string& path, const std::function<void(const Json&)>& use, std::string* fault = nullptr);
RunMetrics read_metrics(const std::string& path, std::string* fault = nullptr);

Json make_report(const Json& plan, const RunMetrics& metrics, const RunFacts& facts);

// Where the time went, in one sentence.
std::string bottleneck(const RunMetrics& metrics, double seconds);

// One self-contained page: no network, no script.
std::string report_html(const Json& report, const RunMetrics& metrics);

// Writes report.html, then report.json, which makes a run a finished one, durably. Throws Error(environment).
void write_report(const std::string& folder, const Json& report, const RunMetrics& metrics);

}  // namespace forge

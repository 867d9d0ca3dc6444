#pragma once
// The report of a run, from its plan and its metrics: report.json for programs, report.html for
// people.
//
//   RunMetrics metrics = read_metrics(folder + "/metrics.jsonl");
//   Json report = make_report(plan, metrics, {.state = "finished", .seconds = 311});
//   write_report(folder, report, metrics);
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/lib/io/json.h"
#include "core/run/report_rollouts.h"

namespace forge {

struct Device;

// Returns versions and machine as one flat object: forge, compiler, torch, system, processor,
// cores, instruction_sets, memory_bytes; with a GPU also gpu, gpu_memory_bytes, driver.
Json environment_of(const Device& device, const std::string& torch_version);

// Facts of a run that neither its plan nor its metrics contain.
struct RunFacts {
  std::string state = "finished";   // finished | stopped
  double seconds = 0;               // from start to end; 0: the sum of what the events took
  int64_t measured_peak_bytes = 0;  // 0: the largest peak_memory_bytes of the steps
  Json environment = Json::object();
  Json samples = Json::array();  // {prompt, before, after}
  Json amendments = Json::array();
};

// Data that a report takes from the events of a run: sums, ends and curves. It needs 40 bytes for
// each line of metrics, whatever the line's length: the metrics of a long run are never in memory.
struct RunMetrics {
  void add(const Json& event);
  void take_answers(const Json& event, const std::string& prefix);

  Json first_step, last_step;  // the events; null without one
  double step_seconds = 0, data_wait_seconds = 0, eval_seconds = 0, saving_seconds = 0;
  double examples = 0, tokens = 0, supervised_tokens = 0, mfu = 0;  // sums over the steps' lines
  int64_t peak_memory_bytes = 0;
  // Values of each step's line, and of each evaluation. NaN where a line has no number.
  std::vector<double> steps, loss, learning_rate, grad_norm, tokens_per_second;
  std::vector<double> eval_steps, eval_loss;
  // Curves of objectives that compare answers, by the metric's name; empty for other objectives.
  // Names "eval_…" are from evaluations.
  std::map<std::string, std::vector<double>> answers;
  Json fp8_gate;           // the event; null without one
  RolloutCurves rollouts;  // empty where none were drawn
};

// True if a line of metrics is an event: an object with its name, whose step and time, if present,
// are numbers.
bool is_event(const Json& line);
// Calls `use` for each event of a metrics.jsonl, in order. A last line that a crash cut short is
// left out. Throws Error(environment) for any other fault; with `fault`, the line is left out and
// the first fault is written there. A missing file has no events.
void for_each_event(const std::string& path, const std::function<void(const Json&)>& use, std::string* fault = nullptr);
RunMetrics read_metrics(const std::string& path, std::string* fault = nullptr);

Json make_report(const Json& plan, const RunMetrics& metrics, const RunFacts& facts);

// Says in one sentence where the time went.
std::string bottleneck(const RunMetrics& metrics, double seconds);

// Returns one self-contained page, without network access and scripts.
std::string report_html(const Json& report, const RunMetrics& metrics);

// Writes report.html, then report.json, durably. The latter marks the run as finished. Throws
// Error(environment).
void write_report(const std::string& folder, const Json& report, const RunMetrics& metrics);

}  // namespace forge

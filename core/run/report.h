#pragma once
// What a run was, from its plan and its metrics: report.json for programs, report.html for people.
//
//   std::vector<Json> events = read_metrics(folder + "/metrics.jsonl");
//   Json report = make_report(plan, events, {.state = "finished", .seconds = 311});
//   write_report(folder, report, events);
#include <string>
#include <vector>

#include "core/io/json.h"

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

// The events of a metrics.jsonl, in order. A last line that was cut short by a crash is left out; any other
// fault is an Error(environment). A missing file has no events.
std::vector<Json> read_metrics(const std::string& path);

Json make_report(const Json& plan, const std::vector<Json>& events, const RunFacts& facts);

// Where the time went, in one sentence.
std::string bottleneck(const std::vector<Json>& events, double seconds);

// One self-contained page: no network, no script.
std::string report_html(const Json& report, const std::vector<Json>& events);

// Writes report.json and report.html durably. Throws Error(environment).
void write_report(const std::string& folder, const Json& report, const std::vector<Json>& events);

}  // namespace forge

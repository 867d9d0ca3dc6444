#include "core/run/report.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/file.h"
#include "core/base/text.h"

namespace forge {
namespace {

constexpr int64_t kLargestMetrics = int64_t{2} << 30;

double number(const Json& object, const char* key, double otherwise = 0) {
  auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

// A loss that was not finite is null in a file.
double loss_of(const Json& object, const char* key) {
  return number(object, key, std::numeric_limits<double>::infinity());
}

int64_t integer(const Json& object, const char* key) { return static_cast<int64_t>(number(object, key)); }

// A member of an object, or the fallback.
Json member(const Json& object, const char* key, Json fallback = nullptr) {
  return object.is_object() && object.contains(key) ? object[key] : std::move(fallback);
}

std::vector<Json> events_named(const std::vector<Json>& events, const std::string& name) {
  std::vector<Json> named;
  for (const Json& event : events)
    if (event.value("event", "") == name) named.push_back(event);
  return named;
}

double sum(const std::vector<Json>& events, const char* key) {
  double total = 0;
  for (const Json& event : events) total += number(event, key);
  return total;
}

// Mean of the last tenth, at least one step: a single step's loss is noise.
double smoothed_last_loss(const std::vector<Json>& steps) {
  size_t count = std::max<size_t>(1, steps.size() / 10);
  double total = 0;
  for (size_t i = steps.size() - count; i < steps.size(); ++i) total += loss_of(steps[i], "loss");
  return total / static_cast<double>(count);
}

Json eval_summary(const std::vector<Json>& evals) {
  auto point = [](const Json& event) {
    return Json{{"step", integer(event, "step")}, {"eval_loss", member(event, "eval_loss")}};
  };
  auto best = std::min_element(evals.begin(), evals.end(), [](const Json& left, const Json& right) {
    return loss_of(left, "eval_loss") < loss_of(right, "eval_loss");
  });
  return {{"first", point(evals.front())}, {"best", point(*best)}, {"last", point(evals.back())}};
}

std::string percent(double share) { return std::to_string(std::lround(share * 100)) + " %"; }

}  // namespace

std::vector<Json> read_metrics(const std::string& path) {
  if (!file_exists(path)) return {};
  std::string text = read_file(path, kLargestMetrics, ErrorKind::environment);
  std::vector<Json> events;
  int64_t line = 1;
  for (size_t begin = 0, end; begin < text.size(); begin = end + 1, ++line) {
    end = text.find('\n', begin);
    if (end == std::string::npos) break;
    events.push_back(parse_json(std::string_view(text).substr(begin, end - begin), path,
                                ErrorKind::environment, {}, line));
  }
  return events;
}

std::string bottleneck(const std::vector<Json>& events, double seconds) {
  std::vector<Json> steps = events_named(events, "step");
  double training = sum(steps, "step_seconds");
  double waiting = sum(steps, "data_wait_seconds");
  double evaluating = sum(events_named(events, "eval"), "seconds");
  double saving = sum(events_named(events, "checkpoint"), "seconds");
  double total = std::max(seconds, training + evaluating + saving);
  if (steps.empty() || total <= 0) return "No step was taken.";
  if (waiting > 0.15 * training)
    return "The data path held the run up: " + percent(waiting / training) +
           " of the step time was spent waiting for data.";
  if (evaluating > 0.3 * total)
    return "Evaluation took " + percent(evaluating / total) +
           " of the time: evaluate less often or on fewer examples.";
  if (saving > 0.15 * total)
    return "Writing checkpoints took " + percent(saving / total) +
           " of the time: write fewer, or to a faster disk.";
  double elsewhere = total - training - evaluating - saving;
  if (elsewhere > 0.5 * total)
    return "Starting, loading and finishing took " + percent(elsewhere / total) +
           " of the time: the run is short.";
  double mfu = sum(steps, "mfu") / static_cast<double>(steps.size());
  std::string sentence = "Arithmetic was the bottleneck: " + percent((training - waiting) / total) +
                         " of the time went into the steps";
  if (mfu > 0) sentence += ", at " + percent(mfu) + " of what the device can do";
  return sentence + ".";
}

Json make_report(const Json& plan, const std::vector<Json>& events, const RunFacts& facts) {
  std::vector<Json> steps = events_named(events, "step"), evals = events_named(events, "eval");
  double training = sum(steps, "step_seconds");
  double seconds = facts.seconds;
  if (seconds <= 0)
    seconds = training + sum(evals, "seconds") + sum(events_named(events, "checkpoint"), "seconds");
  int64_t peak = facts.measured_peak_bytes;
  for (const Json& step : steps) peak = std::max(peak, integer(step, "peak_memory_bytes"));
  const Json memory = member(plan, "memory", Json::object());
  const Json profile = member(plan, "profile", "unknown");

  Json report{{"version", 1}};
  report["name"] = member(member(plan, "job"), "name", "");
  report["state"] = facts.state;
  report["profile"] = profile.is_object() ? member(profile, "name", "unknown") : profile;
  report["device"] = member(plan, "device", "cpu");
  report["parameters"] = member(plan, "parameters", Json::object());
  report["memory"] = {{"predicted_peak_bytes", member(memory, "predicted_peak_bytes")},
                      {"measured_peak_bytes", peak},
                      {"lines", member(memory, "lines", Json::array())}};
  report["steps"] = steps.empty() ? 0 : integer(steps.back(), "step");
  if (!steps.empty() && steps.back().contains("steps")) report["planned_steps"] = steps.back()["steps"];
  report["epochs"] = steps.empty() ? 0.0 : number(steps.back(), "epoch");
  report["examples"] = static_cast<int64_t>(sum(steps, "examples"));
  report["tokens"] = static_cast<int64_t>(sum(steps, "tokens"));
  report["supervised_tokens"] = static_cast<int64_t>(sum(steps, "supervised_tokens"));
  report["seconds"] = seconds;
  report["train_seconds"] = training;
  report["tokens_per_second"] = training > 0 ? sum(steps, "tokens") / training : 0.0;
  report["loss"] = Json::object();
  if (!steps.empty())
    report["loss"] = {{"first", member(steps.front(), "loss")},
                      {"last", member(steps.back(), "loss")},
                      {"smoothed_last", smoothed_last_loss(steps)}};
  if (!evals.empty()) report["eval"] = eval_summary(evals);
  report["bottleneck"] = bottleneck(events, seconds);
  report["data"] = member(plan, "data", Json::object());
  report["samples"] = facts.samples;
  report["environment"] = facts.environment;
  report["amendments"] = facts.amendments;
  return report;
}

void write_report(const std::string& folder, const Json& report, const std::vector<Json>& events) {
  write_file_durably(folder + "/report.json",
                     report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  write_file_durably(folder + "/report.html", report_html(report, events));
}

}  // namespace forge

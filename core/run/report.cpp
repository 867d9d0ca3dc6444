#include "core/run/report.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/plan/machine/device.h"
#include "core/run/event_fields.h"
#include "forge_build.h"

namespace forge {
namespace {

constexpr size_t kLongestLine = size_t{1} << 20;

// Returns a member of an object, or the fallback.
Json member(const Json& object, const char* key, Json fallback = nullptr) {
  return object.is_object() && object.contains(key) ? object[key] : std::move(fallback);
}

// Returns a number as JSON: null for a value that is not finite.
Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// Returns the mean of the last tenth, at least one step: a single step's loss is noisy.
double smoothed_last_loss(const std::vector<double>& losses) {
  const size_t count = std::max<size_t>(1, losses.size() / 10);
  return std::accumulate(losses.end() - static_cast<std::ptrdiff_t>(count), losses.end(), 0.0) /
         static_cast<double>(count);
}

Json eval_summary(const RunMetrics& metrics) {
  const std::vector<double>& losses = metrics.eval_loss;
  const auto point = [&](size_t i) {
    return Json{{"step", static_cast<int64_t>(metrics.eval_steps[i])}, {"eval_loss", finite(losses[i])}};
  };
  size_t best = 0;
  for (size_t i = 1; i < losses.size(); ++i)
    if (losses[i] < losses[best] || (std::isnan(losses[best]) && !std::isnan(losses[i]))) best = i;
  return {{"first", point(0)}, {"best", point(best)}, {"last", point(losses.size() - 1)}};
}

// Returns the name of the device that was used. The plan's device has processor and GPU.
std::string device_text(const Json& device) {
  const Json gpu = member(device, "gpu"), cpu = member(device, "cpu");
  const Json name = member(gpu.is_object() ? gpu : cpu, "name", "cpu");
  return name.is_string() ? name.get<std::string>() : "cpu";
}

std::string percent(double share) { return std::to_string(std::lround(share * 100)) + " %"; }

Json parse_event(const std::string& line, const std::string& path, int64_t number) {
  if (line.size() > kLongestLine)
    throw Error(ErrorKind::environment, path + ":" + std::to_string(number) + ": a line of " +
                                            format_bytes(static_cast<int64_t>(line.size())) + " is not an event");
  Json event = parse_json(line, path, ErrorKind::environment, {}, number);
  if (!is_event(event)) throw Error(ErrorKind::environment, path + ":" + std::to_string(number) + ": is not an event of a run");
  return event;
}

}  // namespace

void RunMetrics::add(const Json& event) {
  const auto value = [&](const char* key) { return number_of(event, key, std::nan("")); };
  const std::string name = event.value("event", "");
  rollouts.add(event);
  if (name == "fp8_gate") fp8_gate = event;
  if (name == "checkpoint") saving_seconds += number_of(event, "seconds");
  if (name == "eval") {
    eval_seconds += number_of(event, "seconds");
    eval_steps.push_back(number_of(event, "step"));
    eval_loss.push_back(value("eval_loss"));
    take_answers(event, "eval_");
  }
  if (name != "step") return;
  if (first_step.is_null()) first_step = event;
  last_step = event;
  step_seconds += number_of(event, "step_seconds");
  data_wait_seconds += number_of(event, "data_wait_seconds");
  examples += number_of(event, "examples");
  tokens += number_of(event, "tokens");
  supervised_tokens += number_of(event, "supervised_tokens");
  mfu += number_of(event, "mfu");
  peak_memory_bytes = std::max(peak_memory_bytes, integer_of(event, "peak_memory_bytes"));
  steps.push_back(value("step"));
  loss.push_back(value("loss"));
  learning_rate.push_back(value("learning_rate"));
  grad_norm.push_back(value("grad_norm"));
  tokens_per_second.push_back(value("tokens_per_second"));
  take_answers(event, "");
}

void RunMetrics::take_answers(const Json& event, const std::string& prefix) {
  for (const char* name : {"reward_margin", "reward_accuracy", "logp_chosen_change", "logp_rejected_change"})
    if (const std::string key = prefix + name; event.contains(key))
      answers[key].push_back(number_of(event, key, std::nan("")));
}

Json environment_of(const Device& device, const std::string& torch_version) {
  utsname system{};
  ::uname(&system);
  const CpuInfo& cpu = device.cpu;
  Json facts{{"forge", kForgeVersion},
             {"compiler", kCompiler},
             {"torch", torch_version},
             {"system", std::string(system.sysname) + " " + system.release + " " + system.machine},
             {"processor", cpu.name},
             {"cores", cpu.cores},
             {"instruction_sets", join(cpu.isa, " ")},
             {"memory_bytes", cpu.memory_bytes}};
  if (!device.cuda) return facts;
  facts["gpu"] = device.gpu.name;
  facts["gpu_memory_bytes"] = device.gpu.memory_bytes;
  facts["driver"] = device.gpu.driver;
  return facts;
}

bool is_event(const Json& line) {
  if (!line.is_object() || !line.contains("event") || !line["event"].is_string()) return false;
  const auto good = [&](const char* key, bool whole) {
    return !line.contains(key) || (whole ? line[key].is_number_integer() : line[key].is_number());
  };
  return good("step", true) && good("time", false);
}

void for_each_event(const std::string& path, const std::function<void(const Json&)>& use, std::string* fault) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  for (int64_t number = 1; std::getline(file, line) && !file.eof(); ++number) {
    Json event;
    try {
      event = parse_event(line, path, number);
    } catch (const Error& error) {
      if (!fault) throw;
      if (fault->empty()) *fault = error.what();
      continue;
    }
    use(event);
  }
}

RunMetrics read_metrics(const std::string& path, std::string* fault) {
  RunMetrics metrics;
  for_each_event(path, [&](const Json& event) { metrics.add(event); }, fault);
  return metrics;
}

std::string bottleneck(const RunMetrics& metrics, double seconds) {
  const double training = metrics.step_seconds, waiting = metrics.data_wait_seconds;
  const double evaluating = metrics.eval_seconds, saving = metrics.saving_seconds;
  double total = std::max(seconds, training + evaluating + saving);
  if (metrics.steps.empty() || total <= 0) return "No step was taken.";
  const auto sum = [&](const char* key) {
    double all = 0;
    if (const auto found = metrics.rollouts.rollouts.find(key); found != metrics.rollouts.rollouts.end())
      for (const double value : found->second) all += value;
    return all;
  };
  if (!metrics.rollouts.empty() && training > 0)
    return "In the steps, drawing took " + percent(sum("sample_seconds") / training) + " of the time and waiting for scores " +
           percent(sum("score_seconds") / training) + "; the rest was training.";
  if (waiting > 0.15 * training)
    return "Loading data held the run up: " + percent(waiting / training) +
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
  double mfu = metrics.mfu / static_cast<double>(metrics.steps.size());
  std::string sentence = "Arithmetic was the bottleneck: " + percent((training - waiting) / total) +
                         " of the time went into the steps";
  if (mfu > 0) sentence += ", at " + percent(mfu) + " of what the device can do";
  return sentence + ".";
}

// Returns the step time as planned from the machine's rates, and as measured; null if unknown.
Json time_summary(const Json& plan, const RunMetrics& metrics, double training) {
  const double planned = number_of(member(plan, "time", Json::object()), "step_seconds");
  const double steps = static_cast<double>(integer_of(metrics.last_step, "step"));
  Json summary{{"planned_step_seconds", nullptr}, {"step_seconds", nullptr}};
  if (planned > 0) summary["planned_step_seconds"] = planned;
  if (steps > 0) summary["step_seconds"] = training / steps;
  return summary;
}

Json make_report(const Json& plan, const RunMetrics& metrics, const RunFacts& facts) {
  const bool stepped = !metrics.steps.empty();
  const double training = metrics.step_seconds;
  double seconds = facts.seconds;
  if (seconds <= 0) seconds = training + metrics.eval_seconds + metrics.saving_seconds;
  const int64_t peak = std::max(facts.measured_peak_bytes, metrics.peak_memory_bytes);
  const Json memory = member(plan, "memory", Json::object());
  const Json profile = member(plan, "profile", "unknown");

  Json report{{"version", 1}};
  report["name"] = member(member(plan, "job"), "name", "");
  report["state"] = facts.state;
  report["profile"] = profile.is_object() ? member(profile, "name", "unknown") : profile;
  report["device"] = device_text(member(plan, "device"));
  report["parameters"] = member(plan, "parameters", Json::object());
  report["memory"] = {{"predicted_peak_bytes", member(memory, "predicted_peak_bytes")},
                      {"measured_peak_bytes", peak},
                      {"lines", member(memory, "lines", Json::array())}};
  report["steps"] = integer_of(metrics.last_step, "step");
  if (metrics.last_step.contains("steps")) report["planned_steps"] = metrics.last_step["steps"];
  report["epochs"] = number_of(metrics.last_step, "epoch");
  report["examples"] = static_cast<int64_t>(metrics.examples);
  report["tokens"] = static_cast<int64_t>(metrics.tokens);
  report["supervised_tokens"] = static_cast<int64_t>(metrics.supervised_tokens);
  report["seconds"] = seconds;
  report["train_seconds"] = training;
  report["tokens_per_second"] = training > 0 ? metrics.tokens / training : 0.0;
  report["time"] = time_summary(plan, metrics, training);
  report["loss"] = Json::object();
  if (stepped)
    report["loss"] = {{"first", member(metrics.first_step, "loss")},
                      {"last", member(metrics.last_step, "loss")},
                      {"smoothed_last", finite(smoothed_last_loss(metrics.loss))}};
  if (!metrics.fp8_gate.is_null()) report["fp8_gate"] = metrics.fp8_gate;
  if (!metrics.eval_steps.empty()) report["eval"] = eval_summary(metrics);
  if (!metrics.rollouts.empty()) report["findings"] = rollout_findings(metrics.rollouts);
  report["bottleneck"] = bottleneck(metrics, seconds);
  report["data"] = member(plan, "data", Json::object());
  report["warnings"] = member(plan, "warnings", Json::array());
  report["samples"] = facts.samples;
  report["environment"] = facts.environment;
  report["amendments"] = facts.amendments;
  return report;
}

void write_report(const std::string& folder, const Json& report, const RunMetrics& metrics) {
  write_file_durably(folder + "/report.html", report_html(report, metrics));
  write_file_durably(folder + "/report.json",
                     report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace forge

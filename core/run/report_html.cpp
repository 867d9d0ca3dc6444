// report.html: curves, plan against actual, data, samples, environment, in one file.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/lib/base/format.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"
#include "core/run/report.h"
#include "core/run/svg.h"

namespace forge {
namespace {

constexpr const char* kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --soft: #8884; }
@media (prefers-color-scheme: dark) { :root { --ink: #ddd; --paper: #1a1a1a; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 760px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; margin-bottom: 0; } h2 { font-size: 1.1em; margin-top: 2em; }
h1, p { overflow-wrap: anywhere; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .2em 1.2em .2em 0; border-bottom: 1px solid var(--soft); vertical-align: top; overflow-wrap: anywhere; }
td:first-child { min-width: 7em; overflow-wrap: break-word; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
svg { display: block; width: 100%; max-width: 640px; height: auto; margin: .5em 0; } svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
svg g text { fill: inherit; } svg .grid { stroke: var(--soft); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--soft); padding: .6em; border-radius: 4px; }
</style>
)";

// Returns a member of a report, or null where there is none: somebody may have edited the file.
const Json& part(const Json& object, const char* key) {
  static const Json none;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : none;
}
double number(const Json& value) { return value.is_number() ? value.get<double>() : std::nan(""); }
std::string string_of(const Json& value) { return value.is_string() ? value.get<std::string>() : ""; }
std::string seconds(const Json& value) { return value.is_number() ? format_seconds(value.get<double>()) : "–"; }
template <class... Keys>
const Json& part(const Json& object, const char* key, Keys... keys) {
  return part(part(object, key), keys...);
}
std::string rate(const Json& value) {
  constexpr double kMost = 1e15;  // what llround takes, and more than any machine does
  return std::abs(number(value)) < kMost ? format_count(std::llround(number(value))) : "–";
}
// Returns the value if it is a list or an object, otherwise an empty list.
const Json& structured(const Json& value) {
  static const Json none = Json::array();
  return value.is_structured() ? value : none;
}

// Writes "supervised_tokens" as "supervised tokens".
std::string spaced(std::string key) {
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

// Formats a value for reading: null as a dash, lists and objects as text.
std::string words(const Json& value) {
  if (value.is_null()) return "–";
  if (value.is_string()) return printable(value.get<std::string>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_integer()) return format_count(value.get<int64_t>());
  if (value.is_number()) return fmt::format("{:.5g}", value.get<double>());
  std::vector<std::string> parts;
  for (const auto& [key, part] : value.items())
    parts.push_back(value.is_object() ? spaced(key) + " " + words(part) : words(part));
  return parts.empty() ? "none" : join(parts, ", ");
}

std::string bytes_of(const Json& value) {
  return value.is_number() ? format_bytes(value.get<int64_t>()) : "–";
}

std::string row(const std::string& name, const std::string& value) {
  return "<tr><td>" + escape_html(name) + "</td><td>" + escape_html(value) + "</td></tr>\n";
}

// Returns rows for the entries of a split that are worth showing: no file names, hashes or zeros.
std::string split_rows(const std::string& split, const Json& summary) {
  std::string html;
  for (const auto& [key, value] : summary.items()) {
    const bool internal = ends_with(key, "_hash") || ends_with(key, "_path");
    const bool empty = value.is_null() || value == 0 || value == false || value == "";
    if (!internal && !empty) html += row(split + ", " + spaced(key), words(value));
  }
  return html;
}

std::string data_table(const Json& data) {
  std::string html;
  for (const auto& [split, summary] : structured(data).items())
    if (summary.is_object()) html += split_rows(split == "eval" ? "evaluation" : split, summary);
  return html.empty() ? "" : "<table>" + html + "</table>\n";
}

std::string environment_table(const Json& environment) {
  std::string html;
  for (const auto& [key, value] : structured(environment).items())
    html += ends_with(key, "_bytes") ? row(spaced(key.substr(0, key.size() - 6)), bytes_of(value))
                                     : row(spaced(key), words(value));
  return html.empty() ? "" : "<table>" + html + "</table>\n";
}

// Returns an amendment as a sentence and the values it changed. A new plan is not shown, because it
// is in the folder.
std::string amendment_rows(const Json& amendment) {
  if (!amendment.is_object()) return "";
  const Json kind = amendment.value("kind", Json("change")), reason = amendment.value("reason", Json(""));
  std::string html = row(spaced(words(kind)), words(reason));
  for (const auto& [key, value] : amendment.items())
    if (key != "kind" && key != "reason" && key != "changes" && !value.is_structured())
      html += row("  " + spaced(key), words(value));
  const Json changes = amendment.value("changes", Json::object());
  for (const auto& [key, value] : structured(changes).items()) html += row("  " + key, words(value));
  return html;
}

std::string amendments_table(const Json& amendments) {
  std::string html;
  for (const Json& amendment : structured(amendments)) html += amendment_rows(amendment);
  return html.empty() ? "" : "<table>" + html + "</table>\n";
}

// Returns the curves of preference training: margin, accuracy, and the log-probabilities of both
// answers.
std::string answer_charts(const RunMetrics& metrics) {
  const auto add = [&](Chart& chart, const char* name, const std::string& key) {
    const auto found = metrics.answers.find(key);
    const bool eval = key.starts_with("eval_");
    if (found != metrics.answers.end())
      chart.series.push_back({name, eval ? metrics.eval_steps : metrics.steps, found->second});
  };
  std::string html;
  for (const auto& [title, label, key] : {std::tuple("Reward margin", "chosen less rejected", "reward_margin"),
                                          std::tuple("Reward accuracy", "share of pairs", "reward_accuracy")}) {
    Chart chart{title, "step", label, {}};
    add(chart, "training", key);
    add(chart, "evaluation", std::string("eval_") + key);
    if (!chart.series.empty()) html += line_chart(chart);
  }
  Chart change{"Log-probability against the reference", "step", "nats per answer; both may fall", {}};
  add(change, "chosen", "logp_chosen_change");
  add(change, "rejected", "logp_rejected_change");
  return change.series.empty() ? html : html + line_chart(change);
}

// Returns a remark if the chosen answers became less likely. Both answers may do so while the
// margin grows; the model then samples neither.
std::string displacement(const RunMetrics& metrics) {
  const auto chosen = metrics.answers.find("logp_chosen_change");
  if (chosen == metrics.answers.end() || !(chosen->second.back() < 0)) return "";
  return "<p>The chosen answers are less likely than under the reference (" + words(chosen->second.back()) +
         " nats an answer): the margin grew because the rejected ones fell further. objective.nll_weight holds them up.</p>\n";
}

// Returns the findings of the run, then the warnings of its plan.
std::string findings_of(const Json& report) {
  std::string html;
  for (const char* list : {"findings", "warnings"}) {
    const Json& texts = structured(part(report, list));
    for (const Json& text : texts) html += "<p>" + escape_html(words(text)) + "</p>\n";
  }
  return html;
}

std::string charts(const RunMetrics& metrics) {
  const bool pairs = !metrics.answers.empty();
  Chart loss{"Loss", "step", pairs ? "per pair" : "nats per supervised token", {{"training", metrics.steps, metrics.loss}}};
  if (!metrics.eval_steps.empty())
    loss.series.push_back({"evaluation", metrics.eval_steps, metrics.eval_loss});
  const auto step_chart = [&](const char* title, const char* label, const char* name,
                              const std::vector<double>& values) {
    return line_chart({title, "step", label, {{name, metrics.steps, values}}});
  };
  const std::string steps =
      step_chart("Learning rate", "", "learning rate", metrics.learning_rate) +
      step_chart("Gradient norm", "before clipping", "norm", metrics.grad_norm);
  if (metrics.rollouts.empty())
    return line_chart(loss) + answer_charts(metrics) + displacement(metrics) + steps +
           step_chart("Throughput", "tokens per second", "tokens/s", metrics.tokens_per_second);
  std::string html;  // without the loss of rollouts: it has no meaning, it only carries gradients
  for (const Chart& chart : rollout_charts(metrics.rollouts)) html += line_chart(chart);
  return html + steps;
}

std::string summary(const Json& report) {
  std::string html = "<table>";
  html += row("state", words(part(report, "state")));
  html += row("profile", words(part(report, "profile")) + " on " + words(part(report, "device")));
  if (part(report, "parameters").contains("total"))
    html += row("parameters", words(part(report, "parameters", "total")) + ", of which trained " +
                                  words(part(report, "parameters", "trainable")));
  html += row("steps", words(part(report, "steps")) + " (" + words(part(report, "epochs")) + " epochs)");
  html +=
      row("tokens", words(part(report, "tokens")) + ", of which supervised " + words(part(report, "supervised_tokens")));
  html += row("time", seconds(part(report, "seconds")) + ", in steps " +
                          seconds(part(report, "train_seconds")));
  html +=
      row("throughput", rate(part(report, "tokens_per_second")) + " tokens/s");
  if (report.contains("fp8_gate"))
    html += row("base in fp8", "loss " + words(part(report, "fp8_gate", "fp8_loss")) + ", with the file's weights " + words(part(report, "fp8_gate", "loss")));
  if (report.contains("findings")) return html + "</table>\n";  // the loss of sampled completions is meaningless
  if (part(report, "loss").contains("first"))
    html +=
        row("training loss", words(part(report, "loss", "first")) + " → " + words(part(report, "loss", "smoothed_last")));
  if (report.contains("eval"))
    html += row("evaluation loss", words(part(report, "eval", "first", "eval_loss")) + " → " +
                                       words(part(report, "eval", "last", "eval_loss")) + ", best " +
                                       words(part(report, "eval", "best", "eval_loss")) + " at step " +
                                       words(part(report, "eval", "best", "step")));
  return html + "</table>\n";
}

std::string memory_table(const Json& memory) {
  std::string html = "<table><tr><th>line</th><th>bytes</th><th>formula</th></tr>\n";
  for (const Json& line : structured(part(memory, "lines"))) {
    if (!line.is_object()) continue;
    html += "<tr><td>" + escape_html(string_of(part(line, "name"))) + "</td><td class='number'>" +
            bytes_of(part(line, "bytes")) + "</td><td>" +
            escape_html(string_of(part(line, part(line, "formula").is_string() ? "formula" : "note"))) + "</td></tr>\n";
  }
  const Json& predicted = part(memory, "predicted_peak_bytes");
  const Json& measured = part(memory, "measured_peak_bytes");
  html += "<tr><th>predicted peak</th><td class='number'>" + bytes_of(predicted) + "</td><td></td></tr>\n";
  html += "<tr><th>measured peak</th><td class='number'>" + bytes_of(measured) + "</td><td>";
  if (number(predicted) > 0 && number(measured) >= 0)
    html += fmt::format("{:.0f}", 100 * number(measured) / number(predicted)) +
            " % of the prediction";
  return html + "</td></tr></table>\n";
}

std::string samples_of(const Json& samples) {
  std::string html;
  for (const Json& sample : structured(samples))
    for (const auto& [key, value] : structured(sample).items())
      html += "<p>" + escape_html(spaced(key)) + "</p><pre>" + escape_html(words(value)) + "</pre>\n";
  return html;
}

std::string section(const std::string& title, const std::string& body) {
  return body.empty() ? "" : "<h2>" + escape_html(title) + "</h2>\n" + body;
}

}  // namespace

std::string report_html(const Json& report, const RunMetrics& metrics) {
  std::string name = escape_html(words(part(report, "name")));
  std::string html = std::string(kHead) + "<title>" + name + "</title></head><body>\n<h1>" + name +
                     "</h1>\n<p>" + escape_html(words(part(report, "bottleneck"))) + "</p>\n" + summary(report);
  html += section("What to know", findings_of(report));
  html += section("Curves", charts(metrics));
  html += section("Memory", memory_table(part(report, "memory")));
  html += section("Samples", samples_of(part(report, "samples")));
  html += section("Data", data_table(part(report, "data")));
  html += section("What changed since the plan", amendments_table(part(report, "amendments")));
  html += section("Environment", environment_table(part(report, "environment")));
  return html + "</body></html>\n";
}

}  // namespace forge

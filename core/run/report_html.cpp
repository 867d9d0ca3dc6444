// report.html: curves, plan against actual, data, samples, environment, in one file.
#include <cmath>
#include <fmt/format.h>

#include "core/base/text.h"
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
table { border-collapse: collapse; } td, th { text-align: left; padding: .2em 1.2em .2em 0; border-bottom: 1px solid var(--soft); vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; margin: .5em 0; } svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
svg g text { fill: inherit; } svg .grid { stroke: var(--soft); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--soft); padding: .6em; border-radius: 4px; }
</style>
)";

// A scalar as a reader wants it; null as a dash.
std::string words(const Json& value) {
  if (value.is_null()) return "–";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return format_count(value.get<int64_t>());
  if (value.is_number()) return fmt::format("{:.5g}", value.get<double>());
  return dump_json(value);
}

std::string bytes_of(const Json& value) {
  return value.is_number() ? format_bytes(value.get<int64_t>()) : "–";
}

std::string row(const std::string& name, const std::string& value) {
  return "<tr><td>" + escape_html(name) + "</td><td>" + escape_html(value) + "</td></tr>\n";
}

// The scalars of an object as rows; nested objects as dotted names.
std::string rows_of(const Json& object, const std::string& prefix = "") {
  std::string html;
  for (const auto& [key, value] : object.items())
    html += value.is_object() ? rows_of(value, prefix + key + ".") : row(prefix + key, words(value));
  return html;
}

Series series_of(const std::vector<Json>& events, const std::string& event_name, const char* key,
                 const char* name) {
  Series series{name, {}, {}};
  for (const Json& event : events) {
    if (event.value("event", "") != event_name || !event.contains(key) || !event.contains("step")) continue;
    series.x.push_back(event["step"].is_number() ? event["step"].get<double>() : std::nan(""));
    series.y.push_back(event[key].is_number() ? event[key].get<double>() : std::nan(""));
  }
  series.dots = series.x.size() <= 60;
  return series;
}

std::string charts(const std::vector<Json>& events) {
  Chart loss{"Loss", "step", "nats per supervised token", {series_of(events, "step", "loss", "training")}};
  Series eval = series_of(events, "eval", "eval_loss", "evaluation");
  if (!eval.x.empty()) loss.series.push_back(eval);
  return line_chart(loss) +
         line_chart(
             {"Learning rate", "step", "", {series_of(events, "step", "learning_rate", "learning rate")}}) +
         line_chart(
             {"Gradient norm", "step", "before clipping", {series_of(events, "step", "grad_norm", "norm")}}) +
         line_chart({"Throughput",
                     "step",
                     "tokens per second",
                     {series_of(events, "step", "tokens_per_second", "tokens/s")}});
}

std::string summary(const Json& report) {
  std::string html = "<table>";
  html += row("state", words(report["state"]));
  html += row("profile", words(report["profile"]) + " on " + words(report["device"]));
  if (report["parameters"].contains("total"))
    html += row("parameters", words(report["parameters"]["total"]) + ", of them trained " +
                                  words(report["parameters"]["trainable"]));
  html += row("steps", words(report["steps"]) + " (" + words(report["epochs"]) + " epochs)");
  html +=
      row("tokens", words(report["tokens"]) + ", of them supervised " + words(report["supervised_tokens"]));
  html += row("time", format_seconds(report["seconds"].get<double>()) + ", in steps " +
                          format_seconds(report["train_seconds"].get<double>()));
  html +=
      row("throughput", format_count(std::llround(report["tokens_per_second"].get<double>())) + " tokens/s");
  if (report["loss"].contains("first"))
    html +=
        row("training loss", words(report["loss"]["first"]) + " → " + words(report["loss"]["smoothed_last"]));
  if (report.contains("eval"))
    html += row("evaluation loss", words(report["eval"]["first"]["eval_loss"]) + " → " +
                                       words(report["eval"]["last"]["eval_loss"]) + ", best " +
                                       words(report["eval"]["best"]["eval_loss"]) + " at step " +
                                       words(report["eval"]["best"]["step"]));
  return html + "</table>\n";
}

std::string memory_table(const Json& memory) {
  std::string html = "<table><tr><th>line</th><th>bytes</th><th>formula</th></tr>\n";
  for (const Json& line : memory["lines"]) {
    if (!line.is_object()) continue;
    html += "<tr><td>" + escape_html(line.value("name", "")) + "</td><td class='number'>" +
            bytes_of(line.contains("bytes") ? line["bytes"] : Json()) + "</td><td>" +
            escape_html(line.value("formula", line.value("note", ""))) + "</td></tr>\n";
  }
  const Json& predicted = memory["predicted_peak_bytes"];
  const Json& measured = memory["measured_peak_bytes"];
  html += "<tr><th>predicted peak</th><td class='number'>" + bytes_of(predicted) + "</td><td></td></tr>\n";
  html += "<tr><th>measured peak</th><td class='number'>" + bytes_of(measured) + "</td><td>";
  if (predicted.is_number() && predicted.get<double>() > 0)
    html += std::to_string(std::lround(100 * measured.get<double>() / predicted.get<double>())) +
            " % of the prediction";
  return html + "</td></tr></table>\n";
}

std::string samples_of(const Json& samples) {
  std::string html;
  for (const Json& sample : samples)
    for (const auto& [key, value] : sample.items())
      html += "<p>" + escape_html(key) + "</p><pre>" + escape_html(words(value)) + "</pre>\n";
  return html;
}

std::string section(const std::string& title, const std::string& body) {
  return body.empty() ? "" : "<h2>" + escape_html(title) + "</h2>\n" + body;
}

std::string table_of(const Json& object) {
  return object.empty() ? "" : "<table>" + rows_of(object) + "</table>\n";
}

}  // namespace

std::string report_html(const Json& report, const std::vector<Json>& events) {
  std::string name = escape_html(words(report["name"]));
  std::string html = std::string(kHead) + "<title>" + name + "</title></head><body>\n<h1>" + name +
                     "</h1>\n<p>" + escape_html(words(report["bottleneck"])) + "</p>\n" + summary(report);
  html += section("Curves", charts(events));
  html += section("Memory", memory_table(report["memory"]));
  html += section("Data", table_of(report["data"]));
  std::string amendments;
  for (const Json& amendment : report["amendments"])
    amendments += "<pre>" + escape_html(dump_json(amendment)) + "</pre>\n";
  html += section("What changed since the plan", amendments);
  html += section("Samples", samples_of(report["samples"]));
  html += section("Environment", table_of(report["environment"]));
  return html + "</body></html>\n";
}

}  // namespace forge

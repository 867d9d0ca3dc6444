#include "cli/data_html.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/data/show.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"
#include "core/run/svg.h"

namespace forge {
namespace {

constexpr size_t kShownFindings = 100;

constexpr const char* kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --soft: #8884; --trained: #2a74; --edge: #8888; }
@media (prefers-color-scheme: dark) { :root { --ink: #ddd; --paper: #1a1a1a; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 900px; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .2em 1.2em .2em 0; border-bottom: 1px solid var(--soft); vertical-align: top; }
h2 { font-size: 1.1em; margin-top: 2em; } .fault { color: #c33; } .warning { color: #b70; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: .6em; border-radius: 4px; border: 1px solid var(--soft); }
pre span { box-shadow: inset -1px 0 var(--edge); } pre span.t { background: var(--trained); } pre span.c { opacity: .75; }
.bar { display: inline-block; height: .8em; max-width: 400px; background: var(--trained); } .cut td { border-bottom: 2px dashed #c33; color: #c33; }
</style>
)";

std::string cell(const std::string& text) { return "<td>" + escape_html(printable(text)) + "</td>"; }

std::string findings_html(const DataReport& report) {
  std::string html;
  for (size_t i = 0; i < data_checks().size(); ++i) {
    const Check& check = data_checks()[i];
    const CheckResult& result = report.found()[i];
    if (result.count == 0) continue;
    html += "<details><summary class=\"" + std::string(name_of(check.severity)) + "\">" + check.name + " (" +
            format_count(result.count) + "): " + escape_html(check.says) + "</summary><table>\n";
    for (size_t j = 0; j < std::min(kShownFindings, result.first.size()); ++j)
      html += "<tr>" + cell(result.first[j].place) + cell(result.first[j].detail) + "</tr>\n";
    html += "</table></details>\n";
  }
  return html.empty() ? "<p>No fault found.</p>\n" : html;
}

std::string lengths_html(const DataReport& report) {
  const auto& [bounds, counts] = report.lengths();
  const int64_t most = *std::max_element(counts.begin(), counts.end());
  std::string html = "<table>\n";
  bool line = false;
  const auto cut = [&] {
    html += "<tr class=\"cut\"><td>data.max_length</td><td>" + format_count(report.max_length()) +
            "</td><td></td></tr>\n";
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    if (!line && bounds[i] > report.max_length() && (line = true)) cut();
    html += "<tr><td>to " + format_count(bounds[i]) + " tokens</td><td>" + format_count(counts[i]) +
            " rows</td><td><span class=\"bar\" style=\"width:" + std::to_string(40 * counts[i] / most + 1) +
            "vw\"></span></td></tr>\n";
  }
  if (!line) cut();
  return html + "</table>\n";
}

std::string roles_html(const DataReport& report) {
  std::string html = "<table><tr><th>data</th><th>role</th><th>tokens</th><th>trained</th></tr>\n";
  for (const auto& [split, roles] : report.roles())
    for (const auto& [role, count] : roles)
      html += "<tr>" + cell(split) + cell(role) + cell(format_count(count.all)) +
              cell(format_count(count.trained)) + "</tr>\n";
  return html + "</table>\n";
}

// Returns an example as HTML: each token is a box, coloured if it is trained, with its id and text
// as a tooltip.
std::string example_html(const DataPage& page, int64_t index) {
  const Tokenizer& tokenizer = *page.tokenizer;
  const Example example = page.data->example(index);
  std::string html = "<p>" + escape_html(printable(title_of(*page.data, index))) + "</p>\n<pre>";
  const std::string whole = tokenizer.decode(example.ids), hidden = hide_secrets(whole, page.secrets);
  if (hidden != whole) return html + escape_html(printable(hidden)) + "</pre>\n";
  for (size_t i = 0; i < example.ids.size(); ++i) {
    const std::string text = tokenizer.decode(std::span(example.ids).subspan(i, 1));
    html += std::string("<span class=\"") + (is_trained(example.supervised[i]) ? "t" : "c") + "\" title=\"" +
            std::to_string(example.ids[i]) + "\">" + escape_html(printable(text)) + "</span>";
  }
  return html + "</pre>\n";
}

}  // namespace

std::string data_html(const DataPage& page) {
  const std::string title = escape_html(printable(page.title));
  const PackingEfficiency packing = page.report->packing();
  const auto percent = [](double share) { return format_number(std::round(share * 1000) / 10) + " %"; };
  std::string html = std::string(kHead) + "<title>" + title + "</title></head><body>\n<h1>" + title +
                     "</h1>\n" + "<h2>Findings</h2>\n" + findings_html(*page.report) + "<h2>Lengths</h2>\n" +
                     lengths_html(*page.report) + "<h2>Roles</h2>\n" + roles_html(*page.report) +
                     "<h2>Packing</h2>\n<p>Rows of " + format_count(packing.row_tokens) +
                     " tokens: " + percent(packing.packed) + " used when packed, " +
                     percent(packing.in_order) + " in order, " + percent(packing.padded) +
                     " with one example per row.</p>\n";
  for (const std::string& limit : page.report->limits()) html += "<p>" + escape_html(limit) + "</p>\n";
  if (page.data) {
    html += "<h2>Examples</h2>\n<p>Trained tokens are coloured.</p>\n";
    for (int64_t i = 0; i < std::min(page.examples, page.data->size()); ++i)
      html += example_html(page, i);
  }
  std::vector<Secret> as_written = page.secrets;
  for (Secret& secret : as_written) secret.value = escape_html(printable(secret.value));
  return hide_secrets(html + "</body></html>\n", as_written);
}

}  // namespace forge

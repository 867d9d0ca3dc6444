#include <algorithm>
#include <cmath>

#include "core/data/report/report.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

constexpr size_t kShownFindings = 3;

std::string percent(double share) { return format_number(std::round(share * 1000) / 10) + " %"; }

std::string coloured(Severity severity, const std::string& text, bool colour) {
  if (!colour || severity == Severity::note) return text;
  return (severity == Severity::fault ? "\x1b[31m" : "\x1b[33m") + text + "\x1b[0m";
}

std::string findings_text(const DataReport& report, bool colour) {
  std::string text;
  for (size_t i = 0; i < data_checks().size(); ++i) {
    const Check& check = data_checks()[i];
    const CheckResult& result = report.found()[i];
    if (result.count == 0) continue;
    text += coloured(check.severity, name_of(check.severity), colour) + "  " + check.name + " (" +
            format_count(result.count) + "): " + check.says + "\n";
    for (size_t j = 0; j < std::min(kShownFindings, result.first.size()); ++j)
      text += "    " + printable(result.first[j].place + ": " + result.first[j].detail) + "\n";
    const auto others = std::max(result.count, static_cast<int64_t>(result.first.size())) - static_cast<int64_t>(kShownFindings);
    if (others > 0) text += "    … and " + format_count(others) + " more (--json lists them)\n";
  }
  return text.empty() ? "\nno fault found\n" : "\nfindings\n" + text;
}

// Draws one bar per bucket, and a line where data.max_length cuts.
std::string lengths_text(const DataReport& report) {
  const auto& [bounds, counts] = report.lengths();
  const int64_t most = *std::max_element(counts.begin(), counts.end());
  if (most == 0) return "";
  size_t first = 0, last = counts.size() - 1;
  while (counts[first] == 0) ++first;
  while (counts[last] == 0) --last;
  std::vector<std::vector<std::string>> rows;
  const auto cut = [&] {
    rows.push_back({"- - - - -", "- - - -", "data.max_length " + format_count(report.max_length())});
  };
  bool line = false;
  for (size_t i = first; i <= last; ++i) {
    if (!line && bounds[i] > report.max_length() && (line = true)) cut();
    const auto width = static_cast<size_t>((40 * counts[i] + most - 1) / most);
    std::string bar;
    for (size_t j = 0; j < width; ++j) bar += "█";
    rows.push_back({"to " + format_count(bounds[i]), format_count(counts[i]), bar});
  }
  if (!line) cut();
  return "\ntokens per row, before any cut (length, rows)\n" + format_table(rows);
}

std::string roles_of_split(const std::string& split, const RoleTokens& roles) {
  int64_t trained = 0;
  for (const auto& [role, count] : roles) trained += count.trained;
  std::vector<std::vector<std::string>> rows;
  for (const auto& [role, count] : roles)
    rows.push_back(
        {role, format_count(count.all) + " tokens",
         percent(static_cast<double>(count.trained) / static_cast<double>(std::max<int64_t>(1, count.all))) +
             " trained",
         percent(static_cast<double>(count.trained) / static_cast<double>(std::max<int64_t>(1, trained))) +
             " of all trained tokens"});
  return "\ntokens by role in the " + split + " data, before any cut\n" + format_table(rows);
}

std::string roles_text(const DataReport& report) {
  std::string text;
  for (const auto& [split, roles] : report.roles()) text = roles_of_split(split, roles) + text;  // training first
  return text;
}

std::string packing_text(const DataReport& report) {
  const PackingEfficiency packing = report.packing();
  if (packing.padded == 0) return "";
  return "\npacking into rows of " + format_count(packing.row_tokens) + " tokens uses " +
         percent(packing.packed) + " of them (in order " + percent(packing.in_order) +
         ", one example per row " + percent(packing.padded) + ")\n";
}

}  // namespace

std::string report_text(const DataReport& report, bool colour) {
  std::string text =
      findings_text(report, colour) + lengths_text(report) + roles_text(report) + packing_text(report);
  for (const std::string& limit : report.limits()) text += "note: " + limit + "\n";
  return text;
}

}  // namespace forge

#include "core/data/report/report.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/data/batch/packing.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

constexpr size_t kMostRows = 2'000'000, kMostSketches = 500'000;
constexpr int64_t kRepeats = 5;  // number of prompts from which an answer counts as repeated
constexpr size_t kMeasuredLengths = 1'000'000;

// Returns the bounds of the length buckets, which grow by the square root of two.
std::vector<int64_t> bucket_bounds() {
  std::vector<int64_t> bounds;
  for (int64_t bound = 16; bound <= int64_t{1} << 24; bound *= 2) {
    bounds.push_back(bound);
    bounds.push_back(static_cast<int64_t>(std::lround(static_cast<double>(bound) * std::sqrt(2.0))));
  }
  return bounds;
}

// Returns the indices of `rows` whose `key` is not 0, by key and then in order.
template <class Row>
std::vector<uint32_t> ordered_by(const std::vector<Row>& rows, uint64_t Row::*key) {
  std::vector<uint32_t> order;
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].*key != 0) order.push_back(static_cast<uint32_t>(i));
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return std::pair(rows[a].*key, a) < std::pair(rows[b].*key, b); });
  return order;
}

// Calls `group` with the indices of each set of rows that share `key`, at least two.
template <class Row, class Group>
void for_each_group(const std::vector<Row>& rows, uint64_t Row::*key, Group group) {
  const std::vector<uint32_t> order = ordered_by(rows, key);
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && rows[order[end]].*key == rows[order[begin]].*key) ++end;
    if (end - begin > 1)
      group(std::vector<uint32_t>(order.begin() + static_cast<int64_t>(begin),
                                  order.begin() + static_cast<int64_t>(end)));
  }
}

}  // namespace

void LengthHistogram::add(int64_t length) {
  const auto found = std::lower_bound(bounds.begin(), bounds.end() - 1, length);
  ++counts[static_cast<size_t>(found - bounds.begin())];
}

DataReport::DataReport(const Job& job) : max_length_(job.data.max_length), found_(data_checks().size()) {
  lengths_.bounds = bucket_bounds();
  lengths_.counts.assign(lengths_.bounds.size(), 0);
}

void DataReport::note(size_t check, const std::string& source, const std::string& place,
                      const std::string& detail) {
  CheckResult& result = found_[check];
  ++result.count;
  if (result.first.size() < kKeptFindings) result.first.push_back({source + ":" + place, detail});
}

void DataReport::note(const char* check, const SeenRow& row, const std::string& detail) {
  note(check_named(check), sources_[row.source], place_text(row.line, row.column), detail);
}

std::string DataReport::place_of_row(const SeenRow& row) const {
  return sources_[row.source] + ":" + (row.column == 0 ? "row " : "") + std::to_string(row.line);
}

void DataReport::add(const ChunkResult& result, const std::string& source, bool eval) {
  if (sources_.empty() || sources_.back() != source) sources_.push_back(source);
  const auto index = static_cast<uint32_t>(sources_.size() - 1);
  rows_ += result.summary.rows;
  const size_t trains_nothing = check_named("trains_nothing"), dropped = check_named("dropped"),
               unusable = check_named("unusable");
  std::set<std::string> explained;  // positions of lost rows that a note explains
  for (const RowLook& look : result.looks)
    for (const RowNote& found : look.notes) {
      note(found.check, source, found.place, found.detail);
      if (found.check == trains_nothing || found.check == dropped)
        explained.insert(place_text(look.line, look.column));
    }
  for (const LostRow& lost : result.lost) {
    if (explained.count(lost.place) > 0) continue;
    note(unusable, source, lost.place, lost.reason);
    if (!lost.first_of_row) --found_[unusable].count;
  }
  for (const auto& [key, unread] : result.unread) {
    UnreadKey& all = unread_[key];
    if (all.rows == 0) all.place = source + ":" + unread.place;
    all.rows += unread.rows;
  }
  for (const RowLook& look : result.looks) {
    if (look.tokens > 0) lengths_.add(look.tokens);
    for (const auto& [role, count] : look.roles) {
      if (look.copies == 0) continue;
      RoleCount& sum = roles_[eval ? "evaluation" : "training"][role];
      sum.all += look.copies * count.all;
      sum.trained += look.copies * count.trained;
    }
    if (seen_.size() >= kMostRows) continue;
    seen_.push_back({look.content, look.prompt, look.answer, index, static_cast<uint32_t>(look.line),
                     static_cast<uint32_t>(look.column), eval});
    if (sketches_.size() < kMostSketches) sketches_.push_back(look.sketch);
  }
  if (!eval)
    for (const LocatedExample& made : result.examples)
      if (train_lengths_.size() < kMeasuredLengths)
        train_lengths_.push_back(static_cast<int64_t>(made.example.ids.size()));
}

void DataReport::finish() {
  if (rows_ > static_cast<int64_t>(kMostRows))
    limits_.push_back("duplicates are searched for among the first " + format_count(kMostRows) + " rows only");
  if (rows_ > static_cast<int64_t>(kMostSketches))
    limits_.push_back("near duplicates are searched for among the first " + format_count(kMostSketches) +
                      " rows only");
  for (const auto& [key, unread] : unread_) {
    CheckResult& result = found_[check_named("unread_key")];
    ++result.count;
    result.first.push_back({unread.place, key + ", in " + format_count(unread.rows) +
                                              (unread.rows == 1 ? " row" : " rows")});
  }
  find_duplicates();
  find_conflicts();
  find_repeated_answers();
  find_similar();
}

void DataReport::find_duplicates() {
  for_each_group(seen_, &SeenRow::content, [&](const std::vector<uint32_t>& group) {
    for (size_t i = 1; i < group.size(); ++i) {
      const SeenRow &first = seen_[group[0]], &row = seen_[group[i]];
      const bool leaked = row.eval && !first.eval;
      note(leaked ? "overlap" : "duplicate", row, "repeats " + place_of_row(first));
    }
  });
}

void DataReport::find_conflicts() {
  for_each_group(seen_, &SeenRow::prompt, [&](const std::vector<uint32_t>& group) {
    for (size_t i = 1; i < group.size(); ++i)
      if (seen_[group[i]].answer != seen_[group[0]].answer)
        note("conflict", seen_[group[i]],
             "answers the prompt of " + place_of_row(seen_[group[0]]) + " differently");
  });
}

void DataReport::find_repeated_answers() {
  for_each_group(seen_, &SeenRow::answer, [&](std::vector<uint32_t> group) {
    std::vector<uint64_t> prompts;
    for (uint32_t index : group) prompts.push_back(seen_[index].prompt);
    std::sort(prompts.begin(), prompts.end());
    const auto distinct = std::unique(prompts.begin(), prompts.end()) - prompts.begin();
    if (distinct < kRepeats) return;
    for (size_t i = 1; i < group.size(); ++i)
      note("repeated_answer", seen_[group[i]],
           "the answer of " + place_of_row(seen_[group[0]]) + ", which " + format_count(distinct) +
               " different prompts get");
  });
}

void DataReport::find_similar() {
  for (const SimilarPair& pair : similar_pairs(sketches_)) {
    const SeenRow &earlier = seen_[pair.earlier], &later = seen_[pair.later];
    if (earlier.content == later.content) continue;
    const bool leaked = later.eval && !earlier.eval;
    note(leaked ? "near_overlap" : "near_duplicate", later,
         "shares about " + std::to_string(std::lround(pair.similarity * 100)) + " % of its phrases with " +
             place_of_row(earlier));
  }
}

PackingEfficiency DataReport::packing() const {
  std::vector<int64_t> all(train_lengths_.size());
  std::iota(all.begin(), all.end(), 0);
  BatchFill padded, in_order, packed;
  for (int64_t index : all) padded.add({{index}}, train_lengths_, max_length_);
  in_order.add(fill_in_order(all, train_lengths_, max_length_), train_lengths_, max_length_);
  packed.add(best_fit(all, train_lengths_, max_length_), train_lengths_, max_length_);
  return {max_length_, padded.share(), in_order.share(), packed.share()};
}

Json to_json(const DataReport& report) {
  Json checks = Json::array();
  for (size_t i = 0; i < data_checks().size(); ++i) {
    const CheckResult& result = report.found()[i];
    if (result.count == 0) continue;
    Json findings = Json::array();
    for (const Finding& finding : result.first)
      findings.push_back({{"place", finding.place}, {"detail", finding.detail}});
    const Check& check = data_checks()[i];
    checks.push_back({{"check", check.name},
                      {"severity", name_of(check.severity)},
                      {"says", check.says},
                      {"count", result.count},
                      {"findings", findings}});
  }
  Json lengths = Json::array();
  for (size_t i = 0; i < report.lengths().counts.size(); ++i)
    if (report.lengths().counts[i] > 0)
      lengths.push_back({{"up_to", report.lengths().bounds[i]}, {"rows", report.lengths().counts[i]}});
  Json roles = Json::object();
  for (const auto& [split, tokens] : report.roles())
    for (const auto& [role, count] : tokens)
      roles[split][role] = {{"tokens", count.all}, {"trained", count.trained}};
  const PackingEfficiency packing = report.packing();
  return {{"checks", checks},
          {"lengths", lengths},
          {"roles", roles},
          {"packing",
           {{"row_tokens", packing.row_tokens},
            {"padded", packing.padded},
            {"in_order", packing.in_order},
            {"packed", packing.packed}}},
          {"limits", report.limits()}};
}

}  // namespace forge

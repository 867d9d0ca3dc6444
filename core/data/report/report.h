#pragma once
// The faults and the statistics of data, from one pass over them in bounded memory.
//
//   DataReport report(job);
//   prepare_dataset(job, Split::train, tokenizer, &chat, {.cache_folder = …, .report = &report});
//   prepare_dataset(job, Split::eval, …);
//   report.finish();
//   report.found()[check_named("duplicate")].count
//
// Memory: about 50 bytes a row for exact duplicates of the first two million rows, 128 more for
// near duplicates of the first half million, and the notes, of which the first thousand of each
// check are kept. limits() says what was left out.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/data/examples/chunk_worker.h"
#include "core/data/rows/checks.h"
#include "core/job/job.h"
#include "core/lib/io/json.h"

namespace forge {

struct Finding {
  std::string place;  // "train.jsonl:12:31"
  std::string detail;
};

struct CheckResult {
  int64_t count = 0;           // of rows, where a check is about rows
  std::vector<Finding> first;  // at most kKeptFindings; of a row with several faults all
};
constexpr size_t kKeptFindings = 1000;

// Examples by length: bucket k counts lengths up to bounds[k], and more than the bound before.
struct LengthHistogram {
  std::vector<int64_t> bounds, counts;
  void add(int64_t length);
};

// Shares of a row's tokens that are real: with one example a row, with examples in order, and
// packed.
struct PackingEfficiency {
  int64_t row_tokens = 0;                       // data.max_length
  double padded = 0, in_order = 0, packed = 0;  // shares of row_tokens used
};

class DataReport {
 public:
  explicit DataReport(const Job& job);

  // Adds the rows of one chunk of a source, in order.
  void add(const ChunkResult& result, const std::string& source, bool eval);
  // Finds what only all rows together show, and says which keys nothing reads. To be called once,
  // at the end.
  void finish();

  // Forgets what one check found, if the user knows it already.
  void silence(const char* check) { found_[check_named(check)] = {}; }

  int64_t rows() const { return rows_; }
  // Returns the results of the checks, in the order of data_checks().
  const std::vector<CheckResult>& found() const { return found_; }
  const LengthHistogram& lengths() const { return lengths_; }  // before any cut
  // Returns the tokens by split, "training" and "evaluation", and role: of the rows that examples
  // are made of, before any cut. If nothing is cut, the sums are the tokens of the split's summary.
  const std::map<std::string, RoleTokens>& roles() const { return roles_; }
  PackingEfficiency packing() const;                           // of the training data
  // Returns sentences about what was left out to bound the memory.
  const std::vector<std::string>& limits() const { return limits_; }
  int64_t max_length() const { return max_length_; }

 private:
  struct SeenRow {
    uint64_t content, prompt, answer;
    uint32_t source, line, column;
    bool eval;
  };
  void note(size_t check, const std::string& source, const std::string& place, const std::string& detail);
  void note(const char* check, const SeenRow& row, const std::string& detail);
  std::string place_of_row(const SeenRow& row) const;
  void find_duplicates();
  void find_conflicts();
  void find_repeated_answers();
  void find_similar();

  int64_t max_length_, rows_ = 0;
  std::vector<CheckResult> found_;
  LengthHistogram lengths_;
  std::map<std::string, RoleTokens> roles_;
  std::vector<std::string> sources_, limits_;
  std::map<std::string, UnreadKey> unread_;  // the place with its source
  std::vector<SeenRow> seen_;
  std::vector<Sketch> sketches_;  // of the first rows of seen_
  std::vector<int64_t> train_lengths_;
};

Json to_json(const DataReport& report);
// Returns the report for people: findings, lengths with the cut line, roles, packing.
std::string report_text(const DataReport& report, bool colour);

}  // namespace forge

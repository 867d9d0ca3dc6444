#pragma once
// What is wrong with data and what they look like, from one pass over them in bounded memory.
//
//   DataReport report(job);
//   prepare_dataset(job, Split::train, tokenizer, &chat, {.cache_folder = …, .report = &report});
//   prepare_dataset(job, Split::eval, …);
//   report.finish();
//   report.found()[check_named("duplicate")].count
//
// Memory: about 50 bytes a row for exact duplicates of the first two million rows, 128 more for near
// duplicates of the first half million, and what the notes take of which the first thousand of each check are
// kept. limits() says what was left out.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/config/job.h"
#include "core/data/examples/chunk_worker.h"
#include "core/data/report/checks.h"
#include "core/io/json.h"

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

// Examples by length: bucket k holds lengths up to bounds[k], and more than the one before.
struct LengthHistogram {
  std::vector<int64_t> bounds, counts;
  void add(int64_t length);
};

// How many tokens of a batch are real, one example a row padded to the longest, and packed.
struct PackingEfficiency {
  int64_t row_tokens = 0;                       // data.max_length
  double padded = 0, in_order = 0, packed = 0;  // shares of row_tokens used
};

class DataReport {
 public:
  explicit DataReport(const Job& job);

  // The rows of one chunk of a source, in order.
  void add(const ChunkResult& result, const std::string& source, bool eval);
  // Finds what only all rows together show, and says which keys nothing reads. Once, at the end.
  void finish();

  // Forgets what one check found: the user knows.
  void silence(const char* check) { found_[check_named(check)] = {}; }

  int64_t rows() const { return rows_; }
  // By check, in the order of data_checks().
  const std::vector<CheckResult>& found() const { return found_; }
  const LengthHistogram& lengths() const { return lengths_; }  // before any cut
  // By split: of "training" and "evaluation" data, of the rows that examples are made of, before any cut. Where nothing is
  // cut the sums are the tokens of the split's summary.
  const std::map<std::string, RoleTokens>& roles() const { return roles_; }
  PackingEfficiency packing() const;                           // of the training data
  // What was left out for memory's sake, as sentences.
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
  void note_lost(const LostRow& lost, const std::string& source);
  void remember(const RowLook& look, uint32_t source, bool eval);
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
// For people: findings, lengths with the cut line, roles, packing.
std::string report_text(const DataReport& report, bool colour);

}  // namespace forge

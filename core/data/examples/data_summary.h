#pragma once
// Facts about a split other than its tokens: counts, the path of its cache, what was left out.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/data/examples/cuts.h"
#include "core/job/job.h"
#include "core/lib/io/json.h"

namespace forge {

// The plan's record of a split.
struct DataSummary {
  std::string content_hash;        // DataSet::content_hash; empty when estimated
  std::string cache_path;          // empty when estimated
  std::string format;              // "messages: 3 of the first 3 rows have messages; text: as the job says"
  std::string advice;              // what to write where rows judge answers in a way that is not read; else empty
  std::vector<RowFormat> formats;  // the same, to decide by
  std::string lost_rows_path;  // JSON lines: source, line, reason of each row not kept; empty when all were
  int64_t rows = 0;            // read: skipped + untrained + dropped + those that examples were made of
  int64_t examples = 0;        // kept; a pair of answers counts once where an objective compares them
  int64_t tokens = 0, supervised_tokens = 0, longest = 0;
  PairCounts pairs;
  int64_t truncated = 0;  // rows cut to max_length or to the limits of prompt and completion
  int64_t split = 0;      // rows cut into several examples
  int64_t dropped = 0;    // rows left out because they are longer than a limit
  int64_t skipped = 0;    // rows with faults, left out by data.on_bad_row: skip
  int64_t untrained = 0;  // rows without a supervised token, left out likewise
  int64_t unsampled = 0;  // rows that their source's weight left out; not among `rows`
  CutCounts cuts;
  std::map<std::string, int64_t>
      unread_keys;         // that nothing reads (rows/keys.h), with how many rows have them
  std::map<std::string, int64_t> columns;  // that the job names ("sys for system"), with how many rows have them
  bool estimated = false;  // from the first `sampled_rows` rows only
  int64_t sampled_rows = 0;
};
Json to_json(const DataSummary& summary);
// Throws Error(data) for a member that is missing or wrong.
DataSummary data_summary_from_json(const Json& json);
// Returns "category (15,011 rows), id (15,011 rows)"; empty when all keys are read.
std::string unread_text(const DataSummary& summary);
// Returns "answers of 12 (chosen) and 19 tokens (rejected) in the mean; the chosen one is longer in
// 9, the rejected one in 30". `count` is the number of pairs.
std::string pairs_text(const PairCounts& pairs, int64_t count);
// Returns "300 desirable, 100 undesirable" for answers that are judged one by one.
std::string classes_text(const PairCounts& pairs);

}  // namespace forge

#pragma once
// Tokenised data on disk: what the data path produces, the plan summarises and the engine trains on.
//
//   DataSet train = prepare_dataset(job, Split::train, tokenizer, chat_template, cache_folder, progress);
//   train.example(7).ids
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/data/batch.h"
#include "core/io/json.h"

namespace forge {

// One split as a memory-mapped token cache. The file's layout is in token_cache.h.
class DataSet {
 public:
  // Opens and verifies a cache file; throws Error(data) when it is not whole.
  static DataSet open(const std::string& path);
  int64_t size() const;                       // examples
  int64_t length(int64_t index) const;        // tokens of an example
  int64_t supervised(int64_t index) const;    // supervised tokens of an example
  Example example(int64_t index) const;
  // Where the example came from: its file and line (from 1).
  std::string source_path(int64_t index) const;
  int64_t source_line(int64_t index) const;
  const std::vector<int64_t>& lengths() const;
  const std::string& path() const;
  // Hash of ids and masks in order: the identity of the data in a job.
  const std::string& content_hash() const;
  int64_t total_tokens() const;
  int64_t total_supervised_tokens() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// What the plan says of a split.
struct DataSummary {
  std::string content_hash;
  std::string cache_path;
  std::string format;  // "messages", …
  int64_t rows = 0;      // read
  int64_t examples = 0;  // kept
  int64_t tokens = 0, supervised_tokens = 0, longest = 0;
  int64_t truncated = 0, dropped = 0, split = 0, skipped = 0, untrained = 0;
  bool estimated = false;  // from the first rows only
};
Json to_json(const DataSummary& summary);
DataSummary data_summary_from_json(const Json& json);

}  // namespace forge

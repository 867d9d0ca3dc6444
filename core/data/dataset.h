#pragma once
// Tokenised data on disk: what the data path produces, the plan summarises and the engine trains
// on.
//
//   DataSet train = *prepare_dataset(job, Split::train, tokenizer, &chat_template, options).data;   // prepare.h
//   Batch batch = make_batch(train, {7, 3, 12});
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/data/batch/batch.h"
#include "core/data/examples/data_summary.h"
#include "core/data/token_cache.h"

namespace forge {

// Returns the judgement that a label states; see DataSet::label.
Judgement judgement_of(const std::string& label);

// One split as a memory-mapped token cache. The file's layout is in token_cache.h.
class DataSet {
 public:
  // Opens a cache file and verifies what opening reads; example() verifies what it reads. Both
  // throw Error(data) when the file is not whole. `source_paths` replace the paths of the data
  // files that the cache was made from, for content that has moved.
  static DataSet open(const std::string& path, const std::vector<std::string>& source_paths = {});
  // Verifies the whole file; throws Error(data).
  void verify() const { state_->cache.verify(); }
  int64_t size() const { return state_->cache.examples(); }
  // Return the tokens of an example, and those of them that are supervised.
  int64_t length(int64_t index) const { return state_->cache.entry(index).length; }
  int64_t supervised(int64_t index) const { return state_->cache.entry(index).supervised; }
  Example example(int64_t index) const;
  // The file and line (from 1) that the example came from.
  std::string source_path(int64_t index) const;
  int64_t source_line(int64_t index) const { return state_->cache.entry(index).line; }
  // Returns the role of an answer to judge: "chosen", "chosen by 0.5", "rejected", "desirable",
  // "score 0.5"; else empty.
  std::string label(int64_t index) const;
  // Returns the label as an objective reads it: desirable unless it is rejected or undesirable.
  Judgement judgement(int64_t index) const { return judgement_of(label(index)); }
  // True if any example is judged.
  bool judged() const { return !state_->labels.empty(); }
  const std::vector<int64_t>& lengths() const { return state_->lengths; }
  // Atoms are the units that a micro-batch cannot divide: an example, or the pair of a chosen
  // answer and the rejected one after it.
  int64_t atoms() const { return static_cast<int64_t>(atom_lengths().size()); }
  // Returns the tokens of each atom.
  const std::vector<int64_t>& atom_lengths() const;
  // Returns the indices of an atom's examples.
  std::vector<int64_t> examples_of(int64_t atom) const;
  const std::string& path() const { return state_->cache.path(); }
  // Returns the hash of ids and masks in order: the identity of the data in a job.
  const std::string& content_hash() const { return state_->content_hash; }
  int64_t total_supervised_tokens() const { return state_->supervised_tokens; }
  // Returns the counts made while the cache was written.
  DataSummary summary() const { return data_summary_from_json(state_->cache.meta().at("summary")); }

 private:
  struct State {
    explicit State(const std::string& path) : cache(path) {}
    TokenCache cache;
    std::vector<int64_t> lengths;
    std::vector<int64_t> pair_lengths;  // empty: each example is its own atom
    std::vector<std::string> sources, labels;
    std::string content_hash;
    int64_t supervised_tokens = 0;
  };
  std::shared_ptr<const State> state_;
};

// Returns the examples of these atoms as one batch, in this order.
Batch make_batch(const DataSet& data, const std::vector<int64_t>& atoms);

}  // namespace forge

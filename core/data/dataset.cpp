#include "core/data/dataset.h"

#include <cstdlib>
#include <cstring>

#include "core/data/token_cache.h"
#include "core/lib/base/text.h"

namespace forge {

struct DataSet::State {
  explicit State(const std::string& path) : cache(path) {}
  TokenCache cache;
  std::vector<int64_t> lengths, atom_lengths;
  std::vector<int64_t> atom_begins;  // empty: each example is its own atom
  std::vector<std::string> sources;
  std::vector<Judgement> judgements;  // by label
  std::string content_hash;
  int64_t supervised_tokens = 0;

  void join_pairs() {
    for (int64_t i = 0; i + 1 < cache.examples(); i += 2) {
      atom_begins.push_back(i);
      atom_lengths.push_back(lengths[static_cast<size_t>(i)] + lengths[static_cast<size_t>(i + 1)]);
    }
  }
};

Judgement judgement_of(const std::string& label) {
  constexpr std::string_view kMargin = "chosen by ";
  return {label != "rejected" && label != "undesirable",
          starts_with(label, kMargin) ? std::strtod(label.c_str() + kMargin.size(), nullptr) : 0};
}

DataSet DataSet::open(const std::string& path, const std::vector<std::string>& source_paths) {
  auto state = std::make_shared<State>(path);
  const Json& meta = state->cache.meta();
  state->content_hash = meta.at("summary").at("content_hash").get<std::string>();
  for (const Json& source : meta.at("sources")) state->sources.push_back(source.get<std::string>());
  if (source_paths.size() == state->sources.size()) state->sources = source_paths;
  state->lengths.reserve(static_cast<size_t>(state->cache.examples()));
  for (int64_t i = 0; i < state->cache.examples(); ++i) {
    const CacheEntry entry = state->cache.entry(i);
    state->lengths.push_back(entry.length);
    state->supervised_tokens += entry.supervised;
  }
  for (const Json& label : meta.at("labels")) state->judgements.push_back(judgement_of(label.get<std::string>()));
  if (meta.value("pairs", false)) state->join_pairs();
  DataSet result;
  result.state_ = std::move(state);
  return result;
}

void DataSet::verify() const { state_->cache.verify(); }
int64_t DataSet::size() const { return static_cast<int64_t>(state_->lengths.size()); }
int64_t DataSet::length(int64_t index) const { return state_->cache.entry(index).length; }
int64_t DataSet::supervised(int64_t index) const { return state_->cache.entry(index).supervised; }

Example DataSet::example(int64_t index) const {
  const CacheEntry entry = state_->cache.entry(index);
  const char* record = state_->cache.record(entry);
  const auto length = static_cast<size_t>(entry.length);
  Example example{index, std::vector<int32_t>(length), std::vector<uint8_t>(length)};
  std::memcpy(example.ids.data(), record, length * sizeof(int32_t));
  std::memcpy(example.supervised.data(), record + length * sizeof(int32_t), length);
  return example;
}

std::string DataSet::source_path(int64_t index) const {
  return state_->sources.at(static_cast<size_t>(state_->cache.entry(index).source));
}
int64_t DataSet::source_line(int64_t index) const { return state_->cache.entry(index).line; }
std::string DataSet::label(int64_t index) const {
  const int32_t label = state_->cache.entry(index).label;
  return label == 0 ? ""
                    : state_->cache.meta().at("labels").at(static_cast<size_t>(label - 1)).get<std::string>();
}
Judgement DataSet::judgement(int64_t index) const {
  const int32_t label = state_->cache.entry(index).label;
  return label == 0 ? Judgement{} : state_->judgements.at(static_cast<size_t>(label - 1));
}
bool DataSet::judged() const { return !state_->judgements.empty(); }
const std::vector<int64_t>& DataSet::lengths() const { return state_->lengths; }
int64_t DataSet::atoms() const { return static_cast<int64_t>(atom_lengths().size()); }
const std::vector<int64_t>& DataSet::atom_lengths() const {
  return state_->atom_begins.empty() ? state_->lengths : state_->atom_lengths;
}
std::vector<int64_t> DataSet::examples_of(int64_t atom) const {
  if (state_->atom_begins.empty()) return {atom};
  const int64_t chosen = state_->atom_begins.at(static_cast<size_t>(atom));
  return {chosen, chosen + 1};
}
const std::string& DataSet::path() const { return state_->cache.path(); }
const std::string& DataSet::content_hash() const { return state_->content_hash; }
int64_t DataSet::total_supervised_tokens() const { return state_->supervised_tokens; }
DataSummary DataSet::summary() const { return data_summary_from_json(state_->cache.meta().at("summary")); }

Batch make_batch(const DataSet& data, const std::vector<int64_t>& atoms) {
  Batch batch;
  for (int64_t atom : atoms)
    for (int64_t index : data.examples_of(atom)) {
      batch.append(data.example(index));
      if (data.judged()) batch.judgements.push_back(data.judgement(index));
    }
  return batch;
}

}  // namespace forge

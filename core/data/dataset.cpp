#include "core/data/dataset.h"

#include <cstdlib>
#include <cstring>

#include "core/lib/base/text.h"

namespace forge {

Judgement judgement_of(const std::string& label) {
  constexpr std::string_view kMargin = "chosen by ";
  return {label != "rejected" && label != "undesirable",
          starts_with(label, kMargin) ? std::strtod(label.c_str() + kMargin.size(), nullptr) : 0};
}

DataSet DataSet::open(const std::string& path, const std::vector<std::string>& source_paths) {
  auto state = std::make_shared<State>(path);
  const Json& meta = state->cache.meta();
  state->content_hash = meta.at("summary").at("content_hash").get<std::string>();
  state->sources = meta.at("sources").get<std::vector<std::string>>();
  state->labels = meta.at("labels").get<std::vector<std::string>>();
  if (source_paths.size() == state->sources.size()) state->sources = source_paths;
  std::vector<int64_t>& lengths = state->lengths;
  lengths.reserve(static_cast<size_t>(state->cache.examples()));
  for (int64_t i = 0; i < state->cache.examples(); ++i) {
    const CacheEntry entry = state->cache.entry(i);
    lengths.push_back(entry.length);
    state->supervised_tokens += entry.supervised;
  }
  const size_t paired = meta.value("pairs", false) ? lengths.size() : 0;
  for (size_t i = 0; i + 1 < paired; i += 2) state->pair_lengths.push_back(lengths[i] + lengths[i + 1]);
  DataSet result;
  result.state_ = std::move(state);
  return result;
}

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

std::string DataSet::label(int64_t index) const {
  const int32_t label = state_->cache.entry(index).label;
  return label == 0 ? "" : state_->labels.at(static_cast<size_t>(label - 1));
}

const std::vector<int64_t>& DataSet::atom_lengths() const {
  return state_->pair_lengths.empty() ? state_->lengths : state_->pair_lengths;
}

std::vector<int64_t> DataSet::examples_of(int64_t atom) const {
  if (state_->pair_lengths.empty()) return {atom};
  return {2 * atom, 2 * atom + 1};
}

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

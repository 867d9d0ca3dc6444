// {"input_ids": […], "labels": […] or masks of 0 and 1, "attention_mask": […]}: tokens made
// elsewhere, or by `forge data --dump` (`ids` and `mask`). A token is trained where each of the
// row's masks has a 1, as TRL reads completion_mask and assistant_masks; without labels and masks
// every token is. For an encoder-decoder input_ids are the source and labels its answer, of any
// length.
#include "core/data/batch/batch.h"
#include "core/data/rows/formats/format.h"

namespace forge {
namespace {

// Returns a list of whole numbers within [low, high].
std::vector<int64_t> integers(const Json& row, const std::string& key, int64_t low, int64_t high,
                              RowFaults& faults) {
  std::vector<int64_t> values;
  const Json* list = member(row, key);
  if (!list) return values;
  if (!expect(list->is_array(), "/" + key, key, *list, "a list of whole numbers", faults))
    return values;
  values.reserve(list->size());
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& value = (*list)[i];
    const std::string name = key + "[" + std::to_string(i) + "]";
    const bool fits =
        value.is_number_integer() && !(value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX);
    if (value.is_boolean() && low == 0 && high == 1) {
      values.push_back(value.get<bool>());
    } else if (fits && value.get<int64_t>() >= low && value.get<int64_t>() <= high) {
      values.push_back(value.get<int64_t>());
    } else {
      faults.push_back({"/" + key + "/" + std::to_string(i),
                        name + " is " + kind_of(value) + ", expected a whole number from " +
                            std::to_string(low) + " to " + std::to_string(high)});
      return {};
    }
  }
  return values;
}

void check_length(const std::vector<int64_t>& values, size_t expected, const std::string& key,
                  const Json& row, RowFaults& faults) {
  if (member(row, key) && values.size() != expected)
    faults.push_back({"/" + key, key + " has " + std::to_string(values.size()) + " values, expected " +
                                     std::to_string(expected) + ", one a token"});
}

// Returns whether each token is trained, by all masks together. `labels` beside the masks must say
// the same of all tokens but the first, which is never trained.
std::vector<uint8_t> trained_by_masks(const Json& row, size_t tokens, const std::vector<int64_t>& labels,
                                      RowFaults& faults) {
  std::vector<uint8_t> trained(tokens, 1);
  for (const char* key : kTokenMasks) {
    if (!member(row, key)) continue;
    const std::vector<int64_t> mask = integers(row, key, 0, 1, faults);
    if (!faults.empty()) return trained;
    check_length(mask, tokens, key, row, faults);
    if (!faults.empty()) return trained;
    for (size_t i = 0; i < tokens; ++i) trained[i] &= mask[i] == 1;
    const auto differs = [&](size_t i) {
      return labels.size() == tokens && (labels[i] != -100) != (mask[i] == 1);
    };
    for (size_t i = 1; i < tokens && faults.empty(); ++i)
      if (differs(i))
        faults.push_back({std::string("/") + key + "/" + std::to_string(i),
                          std::string(key) + " and labels disagree about token " + std::to_string(i) +
                              ", expected one of them: leave the other out with ignore"});
  }
  return trained;
}

// Returns the source and the answer without padding: attention_mask 0 and label -100.
TokensRow source_and_answer(const Json& row, const std::vector<int64_t>& ids, const std::vector<int64_t>& labels,
                            const std::vector<int64_t>& attention, RowFaults& faults) {
  TokensRow tokens;
  const auto add = [&](int64_t id, uint8_t mask) { tokens.ids.push_back(static_cast<int32_t>(id)), tokens.supervised.push_back(mask); };
  for (const char* key : kTokenMasks)
    if (member(row, key)) faults.push_back({std::string("/") + key, std::string(key) + " next to a source, expected none: all of labels is trained"});
  for (size_t i = 0; i < ids.size(); ++i)
    if (attention.empty() || attention[i] == 1) add(ids[i], kSource);
  if (tokens.ids.empty()) faults.push_back({"/input_ids", "holds only padding, expected a source"});
  size_t end = labels.size();
  while (end > 0 && labels[end - 1] == -100) --end;
  if (end == 0) faults.push_back({"/labels", "holds no token, expected the answer to the source in input_ids"});
  for (size_t i = 0; i < end; ++i) {
    if (labels[i] == -100) {
      faults.push_back({"/labels/" + std::to_string(i), "labels[" + std::to_string(i) + "] is -100 within an answer, expected a token: it is what the "
                                                                                          "decoder reads next"});
      break;
    }
    add(labels[i], 1);
  }
  return tokens;
}

}  // namespace

Row convert_tokens(const Json& row, const RowOptions& options, RowFaults& faults) {
  TokensRow tokens;
  const std::string key = row.contains("input_ids") ? "input_ids" : "ids";
  if (!member(row, key)) {
    faults.push_back({"", "input_ids is missing, expected a list of whole numbers"});
    return tokens;
  }
  const int64_t last_id = options.vocab_size > 0 ? options.vocab_size - 1 : INT32_MAX;
  const std::vector<int64_t> ids = integers(row, key, 0, last_id, faults);
  const std::vector<int64_t> labels = integers(row, "labels", -100, last_id, faults);
  const std::vector<int64_t> attention = integers(row, "attention_mask", 0, 1, faults);
  if (!faults.empty()) return tokens;
  if (ids.empty()) faults.push_back({"/" + key, key + " is empty, expected at least one token"});
  check_length(attention, ids.size(), "attention_mask", row, faults);
  if (options.source) return faults.empty() ? source_and_answer(row, ids, labels, attention, faults) : tokens;
  check_length(labels, ids.size(), "labels", row, faults);
  const std::vector<uint8_t> masked = trained_by_masks(row, ids.size(), labels, faults);
  if (!faults.empty()) return tokens;

  for (size_t i = 0; i < ids.size(); ++i) {
    if (!attention.empty() && attention[i] == 0) continue;  // padding
    if (!labels.empty() && labels[i] != -100 && labels[i] != ids[i]) {
      faults.push_back({"/labels/" + std::to_string(i), "labels[" + std::to_string(i) + "] is " +
                                                            std::to_string(labels[i]) +
                                                            ", expected -100 or " + std::to_string(ids[i]) +
                                                            " as in " + key + ": labels are not shifted"});
      return tokens;
    }
    tokens.ids.push_back(static_cast<int32_t>(ids[i]));
    tokens.supervised.push_back(labels.empty() ? masked[i] : labels[i] != -100);
  }
  return tokens;
}

}  // namespace forge

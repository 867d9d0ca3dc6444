#pragma once
// Unigram (Kudo, 2018): cuts a word into the pieces with the largest sum of log probabilities
// (Viterbi).
#include "core/lib/text/tokenizer/models/models.h"

namespace forge::text {

struct UnigramSpec {
  std::vector<std::pair<std::string, double>> pieces;  // by id; score is a log probability
  std::optional<int64_t> unk_id;
  bool byte_fallback = false;
  std::string where = "tokenizer";  // for messages
};
std::shared_ptr<const Model> make_unigram(UnigramSpec spec);

}  // namespace forge::text

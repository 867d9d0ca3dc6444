#pragma once
// Describes pairs of answers in words, for the plan and for `forge data`.
#include <string>

#include "core/data/dataset.h"

namespace forge {

// Returns "answers of 12 (chosen) and 19 tokens (rejected) in the mean; the chosen one is longer in
// 9, the rejected one in 30". `count` is the number of pairs.
std::string pairs_text(const PairCounts& pairs, int64_t count);
// Returns "300 desirable, 100 undesirable" for answers that are judged one by one.
std::string classes_text(const PairCounts& pairs);

}  // namespace forge

#pragma once
// Answers paired with prompts they were not written for, from which kto estimates the divergence
// from the reference.
//
//   mismatches(data, {4, 9, 7})   // {{4, 9}, {7, 4}, {9, 7}}: each prompt with the answer of the one before it
//
// Answers are rotated by one as in TRL, so that both sets contain the same answers (Ethayarajh et
// al., 2024); but over all examples of an optimizer step, in the order of the data, and not within
// each micro-batch.
//
// So the estimate does not depend on micro-batches, packing or the order they were drawn in. If a
// step has one prompt only, there is no mismatch, and z₀ is 0, its lower bound.
#include <cstdint>
#include <vector>

#include "core/data/dataset.h"

namespace forge {

struct Mismatch {
  int64_t prompt = 0, answer = 0;  // examples whose prompt and whose answer are taken
  auto operator<=>(const Mismatch&) const = default;
};

// Returns one mismatch for each example that has another prompt among `examples`. The answer is
// that of the nearest such example before it, with the last example before the first.
std::vector<Mismatch> mismatches(const DataSet& data, std::vector<int64_t> examples);

// Returns prompt and answer as one example, supervised as the answer was. Past `max_length` the
// prompt loses its beginning, then the answer its end; at least one token of the prompt stays.
Example mismatched_example(const DataSet& data, const Mismatch& mismatch, int64_t max_length);

}  // namespace forge

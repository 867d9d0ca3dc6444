#pragma once
// Reads rows of a data file as completions to score.
//
//   {"prompt": …, "completion": …}  or  "completions": a list, which is one group
//   {"messages": […]}, {"conversations": […]}, {"instruction", "output"}: the last answer
//   {"chosen", "rejected"}: two completions of one group
//
// All columns stay with the sample, for reference answers and processes. `finish: length` in a row
// says that its completion was cut.
#include <string>
#include <vector>

#include "core/learn/reward/score.h"

namespace forge {

struct SampleRowOptions {
  std::string prompt = "prompt";  // columns, or dotted paths
  std::string completion;         // empty: completion or completions, or a shape of data files
  int64_t limit = 0;              // rows; 0: all
};

// Throws Error(data) for a file that cannot be read and, with every such row by place up to
// kMostTold, for rows that hold no completion.
std::vector<RewardSample> read_samples(const std::string& path, const SampleRowOptions& options);

}  // namespace forge

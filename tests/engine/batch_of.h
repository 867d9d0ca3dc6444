#pragma once
// Makes batches for tests of a step's memory and launches. Their content does not matter.
#include "core/data/batch/batch.h"

// Returns `sequences` of `length` tokens below `vocab`; all but the first two of each are
// supervised.
inline forge::Batch batch_of(int64_t sequences, int64_t length, int64_t vocab) {
  forge::Batch batch;
  for (int64_t id = 0; id < sequences; ++id) {
    forge::Example example{.id = id};
    for (int64_t i = 0; i < length; ++i) {
      example.ids.push_back(static_cast<int32_t>((id * 31 + i * i * 7 + 5) % vocab));
      example.supervised.push_back(i > 1);
    }
    batch.append(example);
  }
  return batch;
}

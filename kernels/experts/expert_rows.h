#pragma once
// Rows of experts in a value, one after the other.
#include "kernels/call/call.h"

namespace forge::bind {

// Rows of experts in a value, one after the other.
struct ExpertsOf {
  char* data = nullptr;
  int64_t width = 0;
};
ExpertsOf expert_rows(const Call& c, ValueId id);

// The rows [begin, begin + count) of one expert.
struct Range {
  size_t expert;
  int64_t begin, count;
};
Part range_of(const Call& c, const ExpertsOf& rows, const Range& range);

inline int32_t* numbers(const Call& c, ValueId id) { return static_cast<int32_t*>(c.m.data(id)); }

}  // namespace forge::bind

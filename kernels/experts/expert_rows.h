#pragma once
// Rows of experts in a value, one after the other.
#include "core/lib/base/error.h"
#include "kernels/call/call.h"

namespace forge::bind {

// Rows of experts in a value, one after the other.
struct ExpertsOf {
  char* data = nullptr;
  int64_t width = 0;
};
inline ExpertsOf expert_rows(const Call& c, ValueId id) {
  FORGE_CHECK(c.m.stride(id) == c.m.width(id), "rows of experts with gaps");
  return {static_cast<char*>(c.m.data(id)), c.m.width(id) / c.op.attributes.route.per_token};
}

// The rows [begin, begin + count) of one expert.
struct Range {
  size_t expert;
  int64_t begin, count;
};
inline Part range_of(const Call& c, const ExpertsOf& rows, const Range& range) {
  return {rows.data + range.begin * rows.width * c.bytes(), rows.width, rows.width};
}

inline int32_t* numbers(const Call& c, ValueId id) { return static_cast<int32_t*>(c.m.data(id)); }

}  // namespace forge::bind

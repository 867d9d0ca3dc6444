#pragma once
// Rows of experts in a value, one after the other.
#include "core/lib/base/error.h"
#include "kernels/call/call.h"

namespace forge::bind {

// Returns the rows of experts in a value.
inline char* expert_rows(const Call& c, ValueId id) {
  FORGE_CHECK(c.m.stride(id) == c.m.width(id), "rows of experts with gaps");
  return static_cast<char*>(c.m.data(id));
}

// The rows [begin, begin + count) of one expert.
struct Range {
  size_t expert;
  int64_t begin, count;
};
inline Part range_of(const Call& c, ValueId id, const Range& range) {
  const int64_t width = c.m.width(id) / c.op.attributes.route.per_token;
  return {expert_rows(c, id) + range.begin * width * c.bytes(), width, width};
}

inline int32_t* numbers(const Call& c, ValueId id) { return static_cast<int32_t*>(c.m.data(id)); }

}  // namespace forge::bind

#include "kernels/experts/expert_rows.h"

#include "core/lib/base/error.h"

namespace forge::bind {

ExpertsOf expert_rows(const Call& c, ValueId id) {
  FORGE_CHECK(c.m.stride(id) == c.m.width(id), "rows of experts with gaps");
  return {static_cast<char*>(c.m.data(id)), c.m.width(id) / c.op.attributes.route.per_token};
}

Part range_of(const Call& c, const ExpertsOf& rows, const Range& range) {
  return {rows.data + range.begin * rows.width * c.bytes(), rows.width, rows.width};
}

}  // namespace forge::bind

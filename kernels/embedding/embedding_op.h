#pragma once
// Rows of an embedding in a list.
#include "core/graph/op_record.h"

namespace forge {

namespace ops {
// → h: rows of the table, by tokens or by positions.
extern const OpRecord embed;
// d h →, into the table's gradient.
extern const OpRecord embed_backward;
}  // namespace ops

}  // namespace forge

#pragma once
// Rows of an embedding in a list.
#include "core/graph/op_record.h"
#include "core/graph/recorder.h"

namespace forge {

namespace ops {
// → h: rows of the table, by tokens or by positions.
extern const OpRecord embed;
// d h →, into the table's gradient.
extern const OpRecord embed_backward;
}  // namespace ops

// Looks up rows of a table. The gradient of the table leaves `frozen_row` out; −1: none.
ValueId embed(Recorder& g, const std::string& module, int64_t vocabulary, int64_t hidden, double scale = 1, int64_t frozen_row = -1,
              Rows rows = Rows::tokens);
// Looks up learned positions: row p + offset of the table at position p of a sequence.
ValueId embed_positions(Recorder& g, const std::string& module, int64_t positions, int64_t hidden, int64_t offset = 0,
                        Rows rows = Rows::tokens);

}  // namespace forge

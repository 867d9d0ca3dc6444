// {"text": …}: a document. It has no roles, so all of it is trained.
#include "core/data/rows/formats/format.h"

namespace forge {

Row convert_text(const Json& row, const RowOptions&, RowFaults& faults) {
  return TextRow{text_member(row, "text", "", true, faults)};
}

}  // namespace forge

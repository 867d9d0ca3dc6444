#include "core/data/read/source_readers.h"

namespace forge {

void add_text(SourceRow& row, std::string_view bytes) {
  const auto all = static_cast<int64_t>(row.text.size() + bytes.size()) + row.too_long;
  if (all <= kMaxRowBytes) {
    row.text += bytes;
    return;
  }
  row.too_long = all;
  row.text.clear();
  row.text.shrink_to_fit();
}

bool add_line(ByteReader& reader, SourceRow& row, std::string& piece) {
  bool cut = true, any = false;
  for (; cut && reader.read_line(piece, kMaxRowBytes, &cut); any = true) add_text(row, piece);
  if (!row.text.empty() && row.text.back() == '\r') row.text.pop_back();
  return any;
}

}  // namespace forge

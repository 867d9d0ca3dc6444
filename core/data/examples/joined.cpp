#include "core/data/examples/joined.h"

#include <algorithm>
#include <utility>

namespace forge {

std::vector<LocatedExample> JoinedDocuments::rows_of(std::vector<LocatedExample> documents) {
  std::vector<LocatedExample> rows;
  const auto length = static_cast<size_t>(length_);
  for (const LocatedExample& document : documents) {
    const auto& [id, ids, supervised] = document.example;
    for (size_t begin = 0; begin < ids.size();) {
      auto& [row_id, row_ids, row_supervised] = row_.example;
      if (row_ids.empty()) row_.line = document.line;
      const size_t count = std::min(ids.size() - begin, length - row_ids.size());
      const auto part = [&](const auto& values) { return std::pair(values.begin() + static_cast<int64_t>(begin), values.begin() + static_cast<int64_t>(begin + count)); };
      row_ids.insert(row_ids.end(), part(ids).first, part(ids).second);
      row_supervised.insert(row_supervised.end(), part(supervised).first, part(supervised).second);
      // A document's first token is predicted from the end of the document before it; a row's first
      // token has nothing before it.
      if (begin == 0) row_supervised[row_ids.size() - count] = 1;
      row_supervised[0] = 0;
      begin += count;
      if (row_ids.size() == length) rows.push_back(std::exchange(row_, {}));
    }
  }
  return rows;
}

std::vector<LocatedExample> JoinedDocuments::rest() {
  LocatedExample row = std::exchange(row_, {});
  if (row.example.ids.size() < 2) return {};
  std::vector<LocatedExample> rows;
  rows.push_back(std::move(row));
  return rows;
}

}  // namespace forge

#include "core/lib/io/column.h"

namespace forge {

const Json* find_column(const Json& row, const std::string& path) {
  if (row.is_object())
    if (const auto found = row.find(path); found != row.end()) return &*found;
  const size_t dot = path.find('.');
  if (dot == std::string::npos && !row.is_array()) return nullptr;
  const std::string head = path.substr(0, dot);
  const Json* inner = nullptr;
  if (row.is_object() && row.contains(head)) inner = &row[head];
  if (row.is_array() && !head.empty() && head.size() < 10 &&
      head.find_first_not_of("0123456789") == std::string::npos && std::stoull(head) < row.size())
    inner = &row[std::stoull(head)];
  return inner && dot != std::string::npos ? find_column(*inner, path.substr(dot + 1)) : inner;
}

}  // namespace forge

#include "core/lib/base/position.h"

namespace forge {

std::string Position::text() const {
  if (line == 0) return file;
  return file + ":" + std::to_string(line) + ":" + std::to_string(column);
}

}  // namespace forge

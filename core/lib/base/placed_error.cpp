#include "core/lib/base/placed_error.h"

namespace forge {

std::string place_text(int64_t line, int64_t column) {
  return column == 0 ? "row " + std::to_string(line) : std::to_string(line) + ":" + std::to_string(column);
}

PlacedError::PlacedError(ErrorKind kind, PlaceInFile at, std::string problem, const std::string& hint)
    : Error(Error(kind, at.file + ":" + place_text(at.line, at.column) + ": " + problem).hint(hint)),
      at_(std::move(at)),
      problem_(std::move(problem)) {}

}  // namespace forge

#include "core/lib/base/key_error.h"

namespace forge {
namespace {

std::string lines_of(const std::vector<KeyFault>& faults) {
  std::string lines;
  for (const KeyFault& fault : faults) lines += (lines.empty() ? "" : "\n") + fault.text();
  return lines;
}

}  // namespace

std::string KeyFault::text() const {
  return (place.file.empty() ? "" : place.text() + ": ") + (key.empty() ? "" : key + ": ") + message;
}

KeyError::KeyError(ErrorKind kind, std::vector<KeyFault> faults, const std::string& hint)
    : Error(Error(kind, lines_of(faults)).hint(hint)), faults_(std::move(faults)) {}

KeyError::KeyError(ErrorKind kind, const std::string& key, const std::string& message, const std::string& hint)
    : KeyError(kind, {KeyFault{key, message, {}}}, hint) {}

}  // namespace forge

#pragma once
#include <optional>

namespace forge {

// A value that is written `auto` in the file, and that the plan then decides.
template <class T>
using Auto = std::optional<T>;

}  // namespace forge

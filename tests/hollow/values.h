#pragma once
// The few kernels whose results the host reads to decide what to do next, computed from the actual
// memory. All others do nothing: their outputs keep their old values, mostly zero.
#include <cstdint>
#include <functional>
#include <string>

namespace forge::hollow {

// Returns the function that replaces a kernel with these arguments, which are copied, and so many
// blocks; null if none does.
std::function<void()> stand_in(const std::string& mangled, void** arguments, int64_t blocks);

}  // namespace forge::hollow

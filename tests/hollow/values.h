#pragma once
// The few kernels whose results the host reads to decide what to do next, computed truly from what
// lies in memory. All others do nothing: what they would write stays what it was, mostly zero.
#include <cstdint>
#include <functional>
#include <string>

namespace forge::hollow {

// Returns what runs in the place of a kernel with these arguments, which are copied, and so many
// blocks; null: nothing.
std::function<void()> stand_in(const std::string& mangled, void** arguments, int64_t blocks);

}  // namespace forge::hollow

#pragma once
#include <cstdint>

namespace forge {

// Returns the number of parts of `size` that cover `total`; neither is negative.
constexpr int64_t ceil_div(int64_t total, int64_t size) { return (total + size - 1) / size; }

}  // namespace forge

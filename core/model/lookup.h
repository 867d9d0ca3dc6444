#pragma once
// Prompt lookup (Saxena, Prompt Lookup Decoding, 2023): a text that repeats itself or its prompt is
// likely to go on as it did.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace forge {

// Returns `most` tokens that may come next: those that followed the latest earlier place of the
// last three tokens of `held`, or two; none if there is no such place. `held` is the prompt and the
// answer so far.
std::vector<int32_t> look_up(const std::vector<int32_t>& held, size_t most);

}  // namespace forge

#pragma once
// Prompt lookup (Saxena, Prompt Lookup Decoding, 2023): a text that repeats itself or its prompt is likely to go on as it did.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace forge {

// held: prompt and answer so far. → `most` tokens that may come next: those that followed the latest earlier place of its last
// three tokens, or two; none where there is no such place.
std::vector<int32_t> look_up(const std::vector<int32_t>& held, size_t most);

}  // namespace forge

#pragma once
// The code books of four bits. No torch here.
#include <array>

namespace forge {

using FourBitBook = std::array<float, 16>;

// Dettmers et al., QLoRA, appendix E.
inline constexpr FourBitBook kNf4Book{-1.0f,
                                      -0.6961928009986877f,
                                      -0.5250730514526367f,
                                      -0.39491748809814453f,
                                      -0.28444138169288635f,
                                      -0.18477343022823334f,
                                      -0.09105003625154495f,
                                      0.0f,
                                      0.07958029955625534f,
                                      0.16093020141124725f,
                                      0.24611230194568634f,
                                      0.33791524171829224f,
                                      0.44070982933044434f,
                                      0.5626170039176941f,
                                      0.7229568362236023f,
                                      1.0f};
// A sign, two bits of exponent and one of mantissa, over 12.
inline constexpr FourBitBook kFp4Book{
    0.0f, 0.0625f / 12,  8.0f / 12,  1.0f,  4.0f / 12,  0.5f,  2.0f / 12,  0.25f,
    0.0f, -0.0625f / 12, -8.0f / 12, -1.0f, -4.0f / 12, -0.5f, -2.0f / 12, -0.25f};

}  // namespace forge

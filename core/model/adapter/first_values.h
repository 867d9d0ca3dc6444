#pragma once
// The first values of an adapter. They depend only on the seed, a name and the position.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace forge {

// Draws values in ±bound.
void draw_uniform(at::Tensor values, int64_t seed, const std::string& stream, double bound);
void draw_normal(at::Tensor values, int64_t seed, const std::string& stream, double deviation);

}  // namespace forge

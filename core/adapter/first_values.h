#pragma once
// Numbers that an adapter starts from: functions of the seed, a name and the place alone.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace forge {

void draw_uniform(at::Tensor values, int64_t seed, const std::string& stream, double bound);  // in ±bound
void draw_normal(at::Tensor values, int64_t seed, const std::string& stream, double deviation);

}  // namespace forge

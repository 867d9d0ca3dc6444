// The dynamic map of Dettmers (8-Bit Approximations for Parallelism in Deep Learning, 2015) as
// bitsandbytes lays it out: decades 1e-6 … 1; each has twice the fractions of the one below; a
// fraction is the middle of an equal part of [0.1, 1].
#include <algorithm>
#include <array>

#include "kernels/optimizer/optimizer_args.h"
#include "kernels/quantize/blocks.h"

namespace forge {
namespace {

std::array<float, 256> make_unsigned_map() {
  std::array<float, 256> map{};
  const std::vector<float> values = dynamic_values(2);  // between 0 and 1
  std::copy(values.begin(), values.end(), map.begin() + 1);
  map.back() = 1;
  return map;
}

}  // namespace

const float* state_map(bool with_sign) {
  static const std::array<float, 256> positive = make_unsigned_map();
  return with_sign ? dynamic_book().data() : positive.data();
}

}  // namespace forge

// The dynamic map of Dettmers (8-Bit Approximations for Parallelism in Deep Learning, 2015) as
// bitsandbytes lays it out: decades 1e-6 … 1; each has twice the fractions of the one below; a
// fraction is the middle of an equal part of [0.1, 1].
#include <algorithm>
#include <array>

#include "kernels/optimizer/optimizer_args.h"
#include "kernels/quantize/blocks.h"

namespace forge {
namespace {

// torch.linspace(0.1, 1, parts + 1): the first half counted from the start, the second from the
// end.
float boundary(int64_t k, int64_t parts) {
  float step = (1.0f - 0.1f) / static_cast<float>(parts);
  return k < (parts + 1) / 2
             ? static_cast<float>(static_cast<double>(step) * static_cast<double>(k) +
                                  static_cast<double>(0.1f))
             : static_cast<float>(1.0 - static_cast<double>(step) * static_cast<double>(parts - k));
}

std::array<float, 256> make_unsigned_map() {
  constexpr float kDecades[] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f};
  std::array<float, 256> map{};
  size_t next = 0;
  map[next++] = 0;
  for (int64_t decade = 0; decade < 7; ++decade) {
    int64_t parts = int64_t{2} << decade;
    for (int64_t k = 0; k < parts; ++k)
      map[next++] = kDecades[decade] * ((boundary(k, parts) + boundary(k + 1, parts)) / 2);
  }
  map[next] = 1;
  return map;
}

}  // namespace

const float* state_map(bool with_sign) {
  static const std::array<float, 256> positive = make_unsigned_map();
  return with_sign ? dynamic_book().data() : positive.data();
}

}  // namespace forge

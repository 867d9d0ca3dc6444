#pragma once
// What tests of emulated kernels share: reproducible values, element types as host code sees them, the warp
// orders.
#include <cmath>
#include <functional>
#include <vector>

#include "core/base/random.h"
#include "kernels/common/element.h"
#include "tests/emulator/device_buffer.h"
#include "tests/emulator/grid.h"
#include "tests/test.h"

namespace forge {

template <class T>
constexpr Element kElement = sizeof(T) == 4 ? Element::f32 : Element::bf16;
template <>
inline constexpr Element kElement<F16> = Element::f16;

// Relative error of one rounding.
template <class T>
constexpr double kUnit = sizeof(T) == 4 ? 0x1p-24 : 0x1p-8;
template <>
inline constexpr double kUnit<F16> = 0x1p-11;

inline std::vector<double> normals(size_t count, uint64_t stream, double scale = 1) {
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = scale * normal(7, stream, i);
  return values;
}

template <class T>
std::vector<T> stored(const std::vector<double>& values) {
  std::vector<T> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) from_float(static_cast<float>(values[i]), result[i]);
  return result;
}

template <class T>
std::vector<double> widened(const std::vector<T>& values) {
  std::vector<double> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) result[i] = to_float(values[i]);
  return result;
}

// Runs `test` under the three orders and prints how many runs a kernel had: the count is the suite's
// evidence.
inline void in_every_order(const std::function<void()>& test) {
  for (auto order : {emulator::Order::forward, emulator::Order::reverse, emulator::Order::seeded}) {
    emulator::schedule() = {order, 11};
    test();
  }
  emulator::schedule() = {};
}

// The first element further from the expected one than `tolerance` says, in words; empty when there is none.
inline std::string difference(const std::vector<double>& values, const std::vector<double>& expected,
                              const std::function<double(size_t)>& tolerance) {
  if (values.size() != expected.size()) return "another count";
  for (size_t i = 0; i < values.size(); ++i)
    if (!(std::fabs(values[i] - expected[i]) <= tolerance(i)) &&
        !(std::isnan(values[i]) && std::isnan(expected[i])) && values[i] != expected[i])
      return "element " + std::to_string(i) + ": " + std::to_string(values[i]) + ", expected " +
             std::to_string(expected[i]) + " within " + std::to_string(tolerance(i));
  return "";
}

}  // namespace forge

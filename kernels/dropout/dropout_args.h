#pragma once
// Counter-based dropout on plain memory, bit for bit the mask of dropout.h: a function of (seed,
// stream, example, position, feature). Bytes an element of s bytes: 2 s.
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"

namespace forge {

struct CounterDropout {
  Element type = Element::f32;
  int64_t rows = 0, features = 0;
  const void* x = nullptr;  // [rows, features], rows x_stride elements apart
  void* y = nullptr;        // may be x
  int64_t x_stride = 0, y_stride = 0;
  bool add = false;        // y += the kept elements of x, rounded once
  double probability = 0;  // below 1; the rest is scaled by 1 / (1 − probability), rounded to the type
  uint64_t seed = 0;
  uint64_t module = 0;                // stream_of(its name)
  const int64_t* step = nullptr;      // [1], in the device's memory: a launch that was captured reads its own step's
  const int64_t* example = nullptr;   // [rows]
  const int32_t* position = nullptr;  // [rows]
};

// ---- on a GPU

void counter_dropout_cuda(const CounterDropout& args, CudaStream stream);

inline GpuLaunches launches(const CounterDropout& a) {
  return {{"dropout", (a.add ? 3 : 2) * matrix_bytes(a.type, a.rows, a.features)}};
}

}  // namespace forge

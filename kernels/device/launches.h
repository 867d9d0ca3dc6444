#pragma once
// Lists the launches of a GPU without one. launches(args) is declared beside each launcher (in
// kernels/<op>/<op>_args.h or <op>_cuda.h): what it enqueues, in its order, with the bytes that
// each launch must at least move. A test compares them with the launches that the emulated device
// gets.
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/common/element.h"

namespace forge {

struct GpuLaunch {
  std::string name;  // as the launcher or the library's twin enqueues it
  double bytes = 0;  // all of them
  // Part of it that does not grow with the micro-batch: frozen weights, adapters, gradients.
  double weight_bytes = 0;
  // More than one for attention by LibTorch, which launches and copies by itself: counted in its
  // source.
  int64_t launches = 1;
};
using GpuLaunches = std::vector<GpuLaunch>;

// Returns the bytes of a matrix.
inline double matrix_bytes(Element type, int64_t rows, int64_t width = 1) {
  return static_cast<double>(bytes_of(type)) * static_cast<double>(rows) * static_cast<double>(width);
}

// Arguments that are made for a listing have addresses that nothing reads. Those of modules begin
// here, those of an op's other operands lie before it.
constexpr uintptr_t kListedModules = uintptr_t{1} << 60;
inline bool is_of_module(const void* listed) { return reinterpret_cast<uintptr_t>(listed) >= kListedModules; }

}  // namespace forge

#pragma once
// What a GPU is given to do for one op of a list: the launches of gpu_device.cpp's table in their order, with the bytes that each
// must at least move. `forge plan --graph` prints their sums; a test compares them with what the emulated device was given.
#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace forge {

struct GpuLaunch {
  std::string name;  // as the launcher or the library's twin queues it
  double bytes = 0;  // all of them
  double weight_bytes =
      0;  // part of it that does not grow with the micro-batch: frozen weights, adapters, gradients
  int64_t launches =
      1;  // more for attention by LibTorch, which launches and copies by itself: counted in its source
};

// How frozen linear layers are held, if not in the type that they are multiplied in.
struct GpuStep {
  bool in_blocks = false, converted = false;
};

// Empty for the head, norm and update, which belong to the run; and for experts' products, as many as there are experts with rows: a
// micro-batch decides. DoRA is not listed yet.
std::vector<GpuLaunch> gpu_launches(const Graph& graph, const Op& op, const StepSizes& sizes,
                                    const GpuStep& step = {});

// Of ops that stand in layer `layer`, forward and backward.
struct LayerLaunches {
  int64_t launches = 0;
  double bytes = 0, weight_bytes = 0;
};
LayerLaunches layer_launches(const Graph& graph, int64_t layer, const StepSizes& sizes,
                             const GpuStep& step = {});

}  // namespace forge

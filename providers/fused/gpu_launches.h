#pragma once
// The launches of a GPU for one op of a list: those of gpu_device.cpp's table in their order, with
// the bytes that each must at least move. `forge plan --graph` prints their sums; a test compares
// them with the launches that the emulated device gets.
#include <string>
#include <vector>

#include "core/model/graph/graph.h"

namespace forge {

struct GpuLaunch {
  std::string name;  // as the launcher or the library's twin enqueues it
  double bytes = 0;  // all of them
  double weight_bytes =
      0;  // part of it that does not grow with the micro-batch: frozen weights, adapters, gradients
  int64_t launches =
      1;  // more for attention by LibTorch, which launches and copies by itself: counted in its source
};

// The form in which frozen linear layers are held, if it is not the type in which they are
// multiplied.
struct GpuStep {
  bool in_blocks = false, converted = false;
};

// Returns the launches of an op. The list is empty for the head, norm and update, which belong to
// the run. It is also empty for experts' products, whose number depends on the experts that get
// rows in a micro-batch. DoRA is not listed yet.
std::vector<GpuLaunch> gpu_launches(const Graph& graph, const Op& op, const StepSizes& sizes,
                                    const GpuStep& step = {});

// Sums over the ops of layer `layer`, forward and backward.
struct LayerLaunches {
  int64_t launches = 0;
  double bytes = 0, weight_bytes = 0;
};
LayerLaunches layer_launches(const Graph& graph, int64_t layer, const StepSizes& sizes,
                             const GpuStep& step = {});

}  // namespace forge

#pragma once
// A list laid out in memory: the addresses of the values of the current micro-batch.
#include <map>
#include <vector>

#include "core/graph/layout.h"
#include "kernels/common/element.h"
#include "kernels/device/device.h"

namespace forge {

// Returns the sizes of a list on a device, without those of a micro-batch.
StepSizes sizes_on(const ComputeDevice& device, int64_t compute_bytes);

// DoRA's ratios and inverse norms, by the value that holds them.
using DoraRatios = std::map<ValueId, std::vector<float>>;

// Memory of the host for values that wait there, and the events of their copies.
struct HostPlaces {
  HostBlock memory;
  Event computed;            // all work that a copy is enqueued after
  std::vector<Event> copied;  // by slot
};

struct StepMemory {
  const Graph& graph;
  Layout layout;  // without offsets: the arena is only an address, and every value is there
  StepSizes capacity;  // the sizes that it is laid out for
  char* arena = nullptr;
  Element type = Element::f32;      // the compute type
  int64_t tokens = 0, targets = 0, source = 0;  // of the micro-batch at hand
  DoraRatios* ratios = nullptr;     // computed once, where weights do not change; null: each time
  HostPlaces host;
  std::vector<bool> by_aten;  // by op; empty: none

  Element element(ValueId id) const { return graph.buffer_of(id).type == ValueType::compute ? type : Element::f32; }
  int64_t rows(ValueId id) const { return StepSizes{.tokens = tokens, .targets = targets, .source = source}.rows(graph.buffer_of(id).rows); }
  int64_t width(ValueId id) const { return graph.value(id).width; }
  int64_t stride(ValueId id) const { return graph.buffer_of(id).width; }
  void* data(ValueId id) const;
  float* numbers(ValueId id) const { return static_cast<float*>(data(id)); }
  void* workspace(size_t op) const;
  bool in_aten(size_t op) const { return !by_aten.empty() && by_aten[op]; }
  // Tells the device that LibTorch enqueues work that reads or writes a value.
  void touch(ComputeDevice& device, ValueId id, bool writes) const;
};

}  // namespace forge

#include "kernels/call/arena.h"

namespace forge {

StepSizes sizes_on(const ComputeDevice& device, int64_t compute_bytes) {
  StepSizes sizes{.compute_bytes = compute_bytes, .gpu = device.separate()};
  if (sizes.gpu) sizes.multiprocessors = device.multiprocessors(), sizes.capability = device.capability();
  return sizes;
}

void* StepMemory::data(ValueId id) const {
  const Value& value = graph.value(id);
  const int64_t begin = layout.offsets.empty() ? 0 : layout.offsets[static_cast<size_t>(value.buffer)];
  return arena + begin + value.column * capacity.element(graph.buffer_of(id).type);
}

void* StepMemory::workspace(size_t op) const {
  const int64_t offset = layout.workspaces[op];
  return offset < 0 ? nullptr : arena + offset;
}

void StepMemory::touch(ComputeDevice& device, ValueId id, bool writes) const {
  const int64_t bytes = bytes_of(element(id));
  device.library_touches(data(id), rows(id), width(id) * bytes, stride(id) * bytes, writes);
}

}  // namespace forge

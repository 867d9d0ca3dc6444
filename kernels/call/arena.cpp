#include "kernels/call/arena.h"

namespace forge {

void* StepMemory::data(ValueId id) const {
  const Value& value = graph.value(id);
  const int64_t begin = layout.offsets.empty() ? 0 : layout.offsets[static_cast<size_t>(value.buffer)];
  return arena + begin + value.column * capacity.element(graph.buffer_of(id).type);
}

void* StepMemory::workspace(size_t op) const {
  const int64_t offset = layout.workspaces[op];
  return offset < 0 ? nullptr : arena + offset;
}

}  // namespace forge

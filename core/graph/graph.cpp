#include "core/graph/graph.h"

namespace forge {

std::string ModuleUse::path_of(int64_t copy) const {
  if (copies == 1) return path;
  return path.substr(0, number) + std::to_string(copy) + path.substr(number + 1);
}

int32_t Graph::add_buffer(const Buffer& buffer) {
  buffers.push_back(buffer);
  return static_cast<int32_t>(buffers.size() - 1);
}

ValueId Graph::add_value(std::string name, int32_t buffer, int64_t column, int64_t width) {
  values.push_back({std::move(name), buffer, column, width, {}});
  producers.push_back(-1);
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::new_value(std::string name, Rows rows, int64_t width, ValueType type) {
  return add_value(std::move(name), add_buffer({rows, width, type}), 0, width);
}

}  // namespace forge

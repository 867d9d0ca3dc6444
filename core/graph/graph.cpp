#include "core/graph/graph.h"

namespace forge {

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

#include "core/model/stored/grid.h"

#include <cmath>

namespace forge {

std::optional<Grid> grid_of(const StoredSearch& search, size_t scales, int64_t out, int64_t in,
                            const std::vector<int64_t>& block, int64_t group) {
  const TensorInfo& tensor = search.at(scales);
  const std::vector<int64_t>& shape = tensor.shape;
  if (tensor.count() == 1) return Grid{scales, out, in};
  if (shape.size() == 1 && shape[0] == out) return Grid{scales, 1, in};
  if (shape.size() != 2) return {};
  const bool in_blocks = block.size() == 2 && shape[0] == parts_of(out, block[0]) &&
                         shape[1] == parts_of(in, block[1]);
  if (in_blocks) return Grid{scales, block[0], block[1]};
  if (shape[0] != out || shape[1] < 1 || in % shape[1] != 0) return {};
  if (group > 0 && in / shape[1] != group) return {};
  return Grid{scales, 1, in / shape[1]};
}

GridRows::GridRows(const TensorFile& file, const Grid& grid, int64_t begin, int64_t count,
                   int64_t columns)
    : grid_(grid), first_(begin / grid.rows), across_(parts_of(columns, grid.columns)) {
  const int64_t last = (begin + count - 1) / grid.rows;
  values_.resize(static_cast<size_t>((last - first_ + 1) * across_));
  file.read_rows_f32(grid.scales, first_, last - first_ + 1, values_.data());
  // A byte is an exponent with bias 127 (E8M0).
  if (file.tensors()[grid.scales].dtype == DType::u8)
    for (float& value : values_) value = std::ldexp(1.0f, static_cast<int>(value) - 127);
}

}  // namespace forge

#pragma once
// Scales over a matrix: one for each rectangle of rows and columns.
#include <array>

#include "core/model/stored/search.h"

namespace forge {

struct Grid {
  size_t scales = 0;
  int64_t rows = 1, columns = 1;  // that share a scale; the last of them may be fewer
};

// Returns the grid of a scale tensor over [out, in]: one scale, one for each row, for each group of
// a row, or for each block. `block` is its rows and columns (empty: there are none), and `group`
// the inputs of a group (0: not known). Nothing if the shapes do not fit.
std::optional<Grid> grid_of(const StoredSearch& search, size_t scales, int64_t out, int64_t in,
                            const std::vector<int64_t>& block, int64_t group);

// Some rows of a grid as numbers.
class GridRows {
 public:
  // Reads what is over rows [begin, begin + count) of a matrix with `columns` columns.
  GridRows(const TensorFile& file, const Grid& grid, int64_t begin, int64_t count, int64_t columns);
  float at(int64_t row, int64_t column) const {
    return values_[static_cast<size_t>((row / grid_.rows - first_) * across_ +
                                       column / grid_.columns)];
  }

 private:
  Grid grid_;
  int64_t first_, across_;
  std::vector<float> values_;
};

// Endings of tensors that say how activations were quantised, which training leaves out.
inline constexpr std::array<std::string_view, 10> kActivationEndings{
    ".input_global_scale", ".input_scale",      ".input_zero_point", ".input_scale_ub",
    ".activation_scale", ".output_scale",     ".output_zero_point",
    ".k_scale",          ".v_scale",          ".q_scale"};

}  // namespace forge

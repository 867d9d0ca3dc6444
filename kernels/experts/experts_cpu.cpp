// One thread computes a token, so no two threads add to one sum. Widths are long and the loops over
// them vectorise.
#include <algorithm>
#include <cmath>

#include "kernels/common/each_row.h"
#include "kernels/experts/experts_args.h"

namespace forge {

constexpr int64_t kTokensAtOnce = 8;

void expert_rows_cpu(const ExpertRows& a) {
  each_row_of(a.type, a.tokens, kTokensAtOnce, [&](auto zero, int64_t token) {
    using T = decltype(zero);
    const int32_t* places = a.places + token * a.per_token;
    T* x = row_of<T>(a.x, token, a.x_stride);
    if (!a.back) {
      for (int64_t j = 0; j < a.per_token; ++j)
        std::copy(x, x + a.width, row_of<T>(a.rows, places[j], a.width));
      return;
    }
    for (int64_t i = 0; i < a.width; ++i) {
      float sum = a.accumulate ? to_float(x[i]) : 0;
      for (int64_t j = 0; j < a.per_token; ++j) sum += to_float(row_of<T>(a.rows, places[j], a.width)[i]);
      from_float(sum, x[i]);
    }
  });
}

void expert_combine_cpu(const ExpertCombine& a) {
  each_row_of(a.type, a.tokens, kTokensAtOnce, [&](auto zero, int64_t token) {
    using T = decltype(zero);
    const int32_t* places = a.places + token * a.per_token;
    const float* weights = a.weights + token * a.per_token;
    T* y = row_of<T>(a.y, token, a.y_stride);
    for (int64_t i = 0; i < a.width; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < a.per_token; ++j)
        sum += weights[j] * to_float(row_of<T>(a.rows, places[j], a.width)[i]);
      from_float(sum, y[i]);
    }
  });
}

void expert_combine_backward_cpu(const ExpertCombineBackward& a) {
  each_row_of(a.type, a.tokens, kTokensAtOnce, [&](auto zero, int64_t token) {
    using T = decltype(zero);
    const T* d_y = row_of<T>(a.d_y, token, a.d_y_stride);
    for (int64_t j = 0; j < a.per_token; ++j) {
      const int64_t at = token * a.per_token + j;
      const T* row = row_of<T>(a.rows, a.places[at], a.width);
      T* d_row = row_of<T>(a.d_rows, a.places[at], a.width);
      float dot = 0;
      for (int64_t i = 0; i < a.width; ++i) {
        dot += to_float(d_y[i]) * to_float(row[i]);
        from_float(a.weights[at] * to_float(d_y[i]), d_row[i]);
      }
      a.d_weights[at] = dot;
    }
  });
}

void gate_rows_cpu(const GateRows& a) {
  each_row_of(a.type, a.rows, kTokensAtOnce, [&](auto zero, int64_t row) {
    using T = decltype(zero);
    const float open = 1 / (1 + std::exp(-to_float(*row_of<T>(a.gate, row, a.gate_stride))));
    const T* x = row_of<T>(a.x, row, a.x_stride);
    T* y = row_of<T>(a.y, row, a.y_stride);
    for (int64_t i = 0; i < a.width; ++i) from_float(open * to_float(x[i]), y[i]);
  });
}

void gate_rows_backward_cpu(const GateRowsBackward& a) {
  each_row_of(a.type, a.rows, kTokensAtOnce, [&](auto zero, int64_t row) {
    using T = decltype(zero);
    const float open = 1 / (1 + std::exp(-to_float(*row_of<T>(a.gate, row, a.gate_stride))));
    const T *x = row_of<T>(a.x, row, a.x_stride), *d_y = row_of<T>(a.d_y, row, a.d_y_stride);
    T* d_x = row_of<T>(a.d_x, row, a.d_x_stride);
    float dot = 0;
    for (int64_t i = 0; i < a.width; ++i) {
      dot += to_float(d_y[i]) * to_float(x[i]);
      from_float(open * to_float(d_y[i]), d_x[i]);
    }
    from_float(open * (1 - open) * dot, *row_of<T>(a.d_gate, row, a.d_gate_stride));
  });
}

}  // namespace forge

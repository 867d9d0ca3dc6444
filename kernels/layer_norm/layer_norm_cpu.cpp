// Takes three passes over a row, which is in the first-level cache after the first: its mean, its
// variance, results. A variance computed as the mean of squares less the mean's square would cancel
// if the mean is large.
#ifdef FORGE_ISA

namespace forge::FORGE_ISA {
namespace layer {

// Returns x in the lanes that hold elements and 0 in the lanes past a row's end.
template <class T>
FORGE_INLINE Wide in_row(Wide x, WholeWide<T>) {
  return x;
}
template <class T>
FORGE_INLINE F in_row(F x, Part<T> at) {
  if (at.n == kLanes) return x;
  float lanes[kLanes] = {};
  store_part(lanes, x, at.n);
  return load(lanes);
}
FORGE_INLINE void add(Wide& sum, Wide x) { sum = sum + x; }
FORGE_INLINE void add(Wide& sum, F x) { sum.a = sum.a + x; }

// S: the type of x.
template <class T, class S>
void forward(const LayerNormForward& a, int64_t begin, int64_t end) {
  const T *weight = static_cast<const T*>(a.weight), *bias = static_cast<const T*>(a.bias);
  const auto width = static_cast<float>(a.width);
  for (int64_t row = begin; row < end; ++row) {
    const S* x = row_of<S>(a.x, row, a.x_stride);
    T* y = row_of<T>(a.y, row, a.y_stride);
    Wide total{set(0), set(0)}, squares{set(0), set(0)};
    for_all<S>(a.width, [&](int64_t i, auto at) FORGE_LAMBDA { add(total, at.load(x + i)); });
    const float mean = sum(total) / width;
    for_all<S>(a.width, [&](int64_t i, auto at) FORGE_LAMBDA {
      const auto apart = in_row(at.load(x + i) - set(mean), at);
      add_product(squares, apart, apart);
    });
    const float inverse = 1.0f / std::sqrt(sum(squares) / width + a.eps);
    for_all<T>(a.width, [&](int64_t i, auto at) FORGE_LAMBDA {
      auto scaled = (beside<S>(at).load(x + i) - set(mean)) * set(inverse);
      if (weight) scaled = scaled * (at.load(weight + i) + set(a.weight_offset));
      at.store(y + i, bias ? scaled + at.load(bias + i) : scaled);
    });
    if (a.statistics) a.statistics[2 * row] = mean, a.statistics[2 * row + 1] = inverse;
  }
}

template <class T, class S>
void backward(const LayerNormBackward& a, int64_t begin, int64_t end) {
  const T* weight = static_cast<const T*>(a.weight);
  const auto width = static_cast<float>(a.width);
  for (int64_t row = begin; row < end; ++row) {
    const S* x = row_of<S>(a.x, row, a.x_stride);
    const T* d_y = row_of<T>(a.d_y, row, a.d_y_stride);
    S* d_x = row_of<S>(a.d_x, row, a.d_x_stride);
    const F mean = set(a.statistics[2 * row]), inverse = set(a.statistics[2 * row + 1]);
    const auto normed = [&](int64_t i, auto at) FORGE_LAMBDA { return (beside<S>(at).load(x + i) - mean) * inverse; };
    const auto weighted = [&](int64_t i, auto at) FORGE_LAMBDA {
      const auto d = at.load(d_y + i);
      return weight ? d * (at.load(weight + i) + set(a.weight_offset)) : d;
    };
    Wide sums{set(0), set(0)}, products{set(0), set(0)};
    for_all<T>(a.width, [&](int64_t i, auto at) FORGE_LAMBDA {
      const auto g = weighted(i, at);
      add(sums, g);
      add_product(products, g, normed(i, at));
    });
    const F mean_g = set(sum(sums) / width), mean_gn = set(sum(products) / width);
    for_all<T>(a.width, [&](int64_t i, auto at) FORGE_LAMBDA {
      const auto d = (weighted(i, at) - mean_g - normed(i, at) * mean_gn) * inverse;
      const auto stream = beside<S>(at);
      stream.store(d_x + i, a.accumulate ? d + stream.load(d_x + i) : d);
    });
  }
}

// Columns [begin, end) of the weight's and the bias's gradients. Sums of 32 rows first: the error
// grows with the root of fewer terms, and no split of the columns changes the order.
template <class T, class S>
void weight_gradient(const LayerNormBackward& a, int64_t begin, int64_t end) {
  for_lanes(end - begin, [&](int64_t k, int n) FORGE_LAMBDA {
    const int64_t column = begin + k;
    F weight = set(0), bias = set(0);
    if (a.d_weight) weight = load_n(a.d_weight + column, n);
    if (a.d_bias) bias = load_n(a.d_bias + column, n);
    for (int64_t first = 0; first < a.rows; first += 32) {
      F weight_part = set(0), bias_part = set(0);
      for (int64_t row = first; row < std::min(a.rows, first + 32); ++row) {
        const F d_y = load_n(row_of<T>(a.d_y, row, a.d_y_stride) + column, n);
        const F apart = load_n(row_of<S>(a.x, row, a.x_stride) + column, n) - set(a.statistics[2 * row]);
        weight_part = fma(d_y, apart * set(a.statistics[2 * row + 1]), weight_part);
        bias_part = bias_part + d_y;
      }
      weight = weight + weight_part, bias = bias + bias_part;
    }
    if (a.d_weight) store_n(a.d_weight + column, weight, n);
    if (a.d_bias) store_n(a.d_bias + column, bias, n);
  });
}

}  // namespace layer

}  // namespace forge::FORGE_ISA

#else

#include "kernels/common/typed.h"
#include "kernels/cpu/parallel.h"
#include "kernels/layer_norm/layer_norm_args.h"
#define FORGE_KERNEL_FILE "kernels/layer_norm/layer_norm_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {

void layer_norm_forward_cpu(const LayerNormForward& args, CpuLevel level) {
  const Element x_type = args.x_type.value_or(args.type);
  parallel_loop(args, args.rows, 8, FORGE_PICK_OF_TWO(level, args.type, x_type, layer::forward));
}

void layer_norm_backward_cpu(const LayerNormBackward& args, CpuLevel level) {
  const Element x_type = args.x_type.value_or(args.type);
  // Computes the weight's gradient first: the second part may overwrite its operands.
  if (args.d_weight || args.d_bias)
    parallel_loop(args, args.width, 64, FORGE_PICK_OF_TWO(level, args.type, x_type, layer::weight_gradient));
  parallel_loop(args, args.rows, 8, FORGE_PICK_OF_TWO(level, args.type, x_type, layer::backward));
}

}  // namespace forge

#endif

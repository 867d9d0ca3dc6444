// Takes two passes over a row, which is in the first-level cache after the first: sums, then
// results. Traffic to memory is as stated in the header.
#ifdef FORGE_ISA

namespace forge::FORGE_ISA {
namespace rms {

template <class T>
float sum_of_squares(const T* h, int64_t width) {
  Wide total{set(0), set(0)};
  for_all<T>(width, [&](int64_t i, auto at) FORGE_LAMBDA {
    auto v = at.load(h + i);
    add_product(total, v, v);
  });
  return sum(total);
}

// Writes h = x + residual and returns Σ h² of the stored values.
template <class T, class S>
float add_residual(const T* x, const S* residual, S* h, int64_t width) {
  Wide total{set(0), set(0)};
  for_all<T>(width, [&](int64_t i, auto at) FORGE_LAMBDA {
    const auto stream = beside<S>(at);
    stream.store(h + i, at.load(x + i) + stream.load(residual + i));
    auto v = stream.load(h + i);
    add_product(total, v, v);
  });
  return sum(total);
}

// S: the stream's type.
template <class T, class S>
void forward(const RmsNormForward& a, int64_t begin, int64_t end) {
  const T* weight = static_cast<const T*>(a.weight);
  const bool in_place = a.y == a.x || a.y == a.residual;
  const int64_t bytes = static_cast<int64_t>(sizeof(T));
  const bool past = !in_place && goes_to_memory(a.y, a.y_stride * bytes, a.rows * a.width * bytes);
  for (int64_t row = begin; row < end; ++row) {
    const S* h = row_of<S>(a.x, row, a.x_stride);
    float squares;
    if (a.residual) {
      S* stored = row_of<S>(a.h, row, a.h_stride);
      squares = add_residual(row_of<T>(a.x, row, a.x_stride), row_of<S>(a.residual, row, a.residual_stride), stored, a.width);
      h = stored;
    } else {
      squares = sum_of_squares(h, a.width);
    }
    float inverse = 1.0f / std::sqrt(squares / static_cast<float>(a.width) + a.eps);
    T* y = row_of<T>(a.y, row, a.y_stride);
    for_all<T>(a.width, [&](int64_t i, auto at) FORGE_LAMBDA {
      at.store(y + i, beside<S>(at).load(h + i) * set(inverse) * (at.load(weight + i) + set(a.weight_offset)), past);
    });
    if (a.inverse) a.inverse[row] = inverse;
  }
  stream_fence();
}

template <class T, class S>
void backward(const RmsNormBackward& a, int64_t begin, int64_t end) {
  const T* weight = static_cast<const T*>(a.weight);
  for (int64_t row = begin; row < end; ++row) {
    const S* h = row_of<S>(a.h, row, a.h_stride);
    const T* d_y = row_of<T>(a.d_y, row, a.d_y_stride);
    S* d_h = row_of<S>(a.d_h, row, a.d_h_stride);
    T* y = a.y ? row_of<T>(a.y, row, a.y_stride) : nullptr;
    F inverse = set(a.inverse[row]);
    auto weighted = [&](int64_t i, auto at) FORGE_LAMBDA {
      return at.load(d_y + i) * (at.load(weight + i) + set(a.weight_offset));
    };
    Wide total{set(0), set(0)};
    for_all<T>(a.width, [&](int64_t i, auto at)
                            FORGE_LAMBDA { add_product(total, weighted(i, at), beside<S>(at).load(h + i) * inverse); });
    F mean = set(sum(total) / static_cast<float>(a.width));
    for_all<T>(a.width, [&](int64_t i, auto at) FORGE_LAMBDA {
      const auto stream = beside<S>(at);
      auto d = (weighted(i, at) - stream.load(h + i) * inverse * mean) * inverse;
      stream.store(d_h + i, a.accumulate ? d + stream.load(d_h + i) : d);
      if (y) at.store(y + i, stream.load(h + i) * inverse * (at.load(weight + i) + set(a.weight_offset)));
    });
  }
}

// Computes columns [begin, end) of the weight's gradient. Sums of 32 rows are added first: the
// error grows with the root of fewer terms, and no division of the columns changes the order.
template <class T, class S>
void weight_gradient(const RmsNormBackward& a, int64_t begin, int64_t end) {
  for_lanes(end - begin, [&](int64_t k, int n) FORGE_LAMBDA {
    int64_t column = begin + k;
    F total = load_n(a.d_weight + column, n);
    for (int64_t first = 0; first < a.rows; first += 32) {
      F part = set(0);
      for (int64_t row = first; row < std::min(a.rows, first + 32); ++row)
        part = fma(load_n(row_of<T>(a.d_y, row, a.d_y_stride) + column, n),
                   load_n(row_of<S>(a.h, row, a.h_stride) + column, n) * set(a.inverse[row]), part);
      total = total + part;
    }
    store_n(a.d_weight + column, total, n);
  });
}

}  // namespace rms

}  // namespace forge::FORGE_ISA

#else

#include "kernels/common/typed.h"
#include "kernels/cpu/parallel.h"
#include "kernels/rms_norm/rms_norm_args.h"
#define FORGE_KERNEL_FILE "kernels/rms_norm/rms_norm_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {

namespace {

// Advances the pointer to the columns of the next head.
template <class Pointer>
void advance(Pointer& pointer, int64_t bytes) {
  if (pointer) pointer = reinterpret_cast<Pointer>(reinterpret_cast<uintptr_t>(pointer) + static_cast<uintptr_t>(bytes));
}

}  // namespace

void rms_norm_forward_cpu(const RmsNormForward& args, CpuLevel level) {
  auto rows = FORGE_PICK_OF_TWO(level, args.type, args.stream_type.value_or(args.type), rms::forward);
  const int64_t bytes = args.width * bytes_of(args.type), stream_bytes = args.width * bytes_of(args.stream_type.value_or(args.type));
  RmsNormForward a = args;
  for (int64_t head = 0; head < args.heads; ++head) {
    parallel_loop(a, a.rows, 8, rows);
    advance(a.x, args.residual ? bytes : stream_bytes);
    advance(a.residual, stream_bytes), advance(a.h, stream_bytes), advance(a.y, bytes);
    advance(a.inverse, 4 * a.rows);
    if (args.head_weights) advance(a.weight, bytes);
  }
}

void rms_norm_backward_cpu(const RmsNormBackward& args, CpuLevel level) {
  auto columns = FORGE_PICK_OF_TWO(level, args.type, args.stream_type.value_or(args.type), rms::weight_gradient);
  auto rows = FORGE_PICK_OF_TWO(level, args.type, args.stream_type.value_or(args.type), rms::backward);
  const int64_t bytes = args.width * bytes_of(args.type), stream_bytes = args.width * bytes_of(args.stream_type.value_or(args.type));
  RmsNormBackward a = args;
  for (int64_t head = 0; head < args.heads; ++head) {
    // The weight's gradient is computed first: the second part may overwrite its operands.
    if (a.d_weight) parallel_loop(a, a.width, 64, columns);
    parallel_loop(a, a.rows, 8, rows);
    advance(a.d_y, bytes), advance(a.h, stream_bytes), advance(a.d_h, stream_bytes), advance(a.y, bytes);
    advance(a.inverse, 4 * a.rows);
    if (args.head_weights) advance(a.weight, bytes), advance(a.d_weight, 4 * a.width);
  }
}

}  // namespace forge

#endif

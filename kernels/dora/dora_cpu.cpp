// Computes the forward by rows, and the backward by columns, so that one thread computes each sum.
#ifdef FORGE_ISA

namespace forge::FORGE_ISA {
namespace dora {

template <class T>
void forward(const DoraForward& a, int64_t begin, int64_t end) {
  const T* bias = static_cast<const T*>(a.bias);
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(a.x) + row * a.x_stride;
    T* y = static_cast<T*>(a.y) + row * a.y_stride;
    for_lanes(a.width, [&](int64_t i, int n) FORGE_LAMBDA {
      F add = bias ? load_n(bias + i, n) : set(0.0f);
      store_n(y + i, fma(load_n(x + i, n), load_n(a.ratio + i, n), add), n);
    });
  }
}

template <class T>
void backward(const DoraBackward& a, int64_t begin, int64_t end) {
  for_lanes(end - begin, [&](int64_t from, int n) FORGE_LAMBDA {
    const int64_t i = begin + from;
    F sum = set(0.0f), ratio = load_n(a.ratio + i, n);
    for (int64_t row = 0; row < a.rows; ++row) {
      F d = load_n(static_cast<const T*>(a.d_y) + row * a.d_y_stride + i, n);
      sum = fma(d, load_n(static_cast<const T*>(a.x) + row * a.x_stride + i, n), sum);
      store_n(static_cast<T*>(a.d_x) + row * a.d_x_stride + i, d * ratio, n);
    }
    store_n(a.d_magnitude + i, fma(sum, load_n(a.inverse_norm + i, n), load_n(a.d_magnitude + i, n)), n);
  });
}

}  // namespace dora

}  // namespace forge::FORGE_ISA

#else

#include "kernels/cpu/parallel.h"
#include "kernels/dora/dora_args.h"
#define FORGE_KERNEL_FILE "kernels/dora/dora_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {

void dora_forward_cpu(const DoraForward& args, CpuLevel level) {
  parallel_loop(args, args.rows, 16, FORGE_PICK_OF(level, args.type, dora::forward));
}

void dora_backward_cpu(const DoraBackward& args, CpuLevel level) {
  parallel_loop(args, args.width, 64, FORGE_PICK_OF(level, args.type, dora::backward));
}

}  // namespace forge

#endif

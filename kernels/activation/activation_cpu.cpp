// One pass, everything in registers between the load and the store.
#ifdef FORGE_ISA

#include "kernels/cpu/activated.h"

namespace forge::FORGE_ISA {
namespace act {

template <class Args, class V>
FORGE_INLINE Activated<V> activate(const Args& a, V x) {
  if (a.function == Activation::gelu) return gelu(x);
  if (a.function == Activation::gelu_tanh) return gelu_by_tanh(x);
  return a.function == Activation::relu2 ? squared_relu(x) : bounded(x, a.limit);
}

template <class T>
void forward(const ActivationForward& a, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(a.x) + row * a.x_stride;
    T* y = static_cast<T*>(a.y) + row * a.y_stride;
    for_all<T>(a.width, [&](int64_t i, auto at)
                            FORGE_LAMBDA { at.store(y + i, activate(a, at.load(x + i)).value); });
  }
}

template <class T>
void backward(const ActivationBackward& a, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T *x = static_cast<const T*>(a.x) + row * a.x_stride, *d_y = static_cast<const T*>(a.d_y) + row * a.d_y_stride;
    T* d_x = static_cast<T*>(a.d_x) + row * a.d_x_stride;
    for_all<T>(a.width, [&](int64_t i, auto at) FORGE_LAMBDA {
      const auto d = at.load(d_y + i);
      at.store(d_x + i, d * activate(a, at.load(x + i)).slope);
    });
  }
}

}  // namespace act

}  // namespace forge::FORGE_ISA

#else

#include "kernels/activation/activation_args.h"
#include "kernels/cpu/parallel.h"
#define FORGE_KERNEL_FILE "kernels/activation/activation_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {

void activation_forward_cpu(const ActivationForward& args, CpuLevel level) {
  parallel_loop(args, args.rows, 4, FORGE_PICK_OF(level, args.type, act::forward));
}

void activation_backward_cpu(const ActivationBackward& args, CpuLevel level) {
  parallel_loop(args, args.rows, 4, FORGE_PICK_OF(level, args.type, act::backward));
}

}  // namespace forge

#endif

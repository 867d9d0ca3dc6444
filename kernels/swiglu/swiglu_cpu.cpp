// One pass, everything in registers between the loads and the stores.
#ifdef FORGE_ISA

#include "kernels/cpu/activated.h"

namespace forge::FORGE_ISA {
namespace glu {

// Returns the activation for results of type T.
template <class T, class V>
FORGE_INLINE Activated<V> activate(GateFunction function, V x) {
  F one = set(1.0f);
  if (function == GateFunction::product)
    return {x, less(set(0.0f), abs(x), one, one)};  // 1, for as many numbers as x has
  if (function == GateFunction::silu) {
    V s = sizeof(T) == 2 ? sigmoid_near(x) : sigmoid(x);
    // x σ(x) of −∞ is 0 and not ∞ times it: below −104 the product stays at its value there, 1e-36.
    // NaN stays NaN.
    V value = max(set(-104.0f), x) * s;
    return {value, less(x, set(-104.0f), set(0.0f), fma(value, one - s, s))};
  }
  if (function == GateFunction::sigmoid) {
    // NaN stays NaN: of a bounded x, 0 times it is 0.
    const V bounded = min(set(104.0f), max(set(-104.0f), x));
    V s = fma(bounded, set(0.0f), sizeof(T) == 2 ? sigmoid_near(x) : sigmoid(x));
    return {s, s * (one - s)};
  }
  return gelu_by_tanh(x);
}

template <class T>
void forward(const SwigluForward& a, int64_t begin, int64_t end) {
  const bool in_place = a.y == a.gate || a.y == a.up;
  const int64_t bytes = static_cast<int64_t>(sizeof(T));
  const bool past = !in_place && goes_to_memory(a.y, a.y_stride * bytes, a.rows * a.width * bytes);
  for (int64_t row = begin; row < end; ++row) {
    const T* gate = static_cast<const T*>(a.gate) + row * a.gate_stride;
    const T* up = static_cast<const T*>(a.up) + row * a.up_stride;
    T* y = static_cast<T*>(a.y) + row * a.y_stride;
    for_all<T>(a.width, [&](int64_t i, auto at) FORGE_LAMBDA {
      at.store(y + i, activate<T>(a.function, at.load(gate + i)).value * at.load(up + i), past);
    });
  }
  stream_fence();
}

template <class T>
void backward(const SwigluBackward& a, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T* d_y = static_cast<const T*>(a.d_y) + row * a.d_y_stride;
    T* gate = static_cast<T*>(a.gate) + row * a.gate_stride;
    T* up = static_cast<T*>(a.up) + row * a.up_stride;
    T* d_gate = a.d_gate ? static_cast<T*>(a.d_gate) + row * a.d_gate_stride : gate;
    T* d_up = a.d_up ? static_cast<T*>(a.d_up) + row * a.d_up_stride : up;
    T* y = a.y ? static_cast<T*>(a.y) + row * a.y_stride : nullptr;
    for_all<T>(a.width, [&](int64_t i, auto at) FORGE_LAMBDA {
      auto d = at.load(d_y + i), u = at.load(up + i);
      auto f = activate<T>(a.function, at.load(gate + i));
      at.store(d_gate + i, d * u * f.slope);
      at.store(d_up + i, d * f.value);
      if (y) at.store(y + i, f.value * u);
    });
  }
}

}  // namespace glu

}  // namespace forge::FORGE_ISA

#else

#include "kernels/cpu/parallel.h"
#include "kernels/swiglu/swiglu_args.h"
#define FORGE_KERNEL_FILE "kernels/swiglu/swiglu_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {

void swiglu_forward_cpu(const SwigluForward& args, CpuLevel level) {
  parallel_loop(args, args.rows, 4, FORGE_PICK_OF(level, args.type, glu::forward));
}

void swiglu_backward_cpu(const SwigluBackward& args, CpuLevel level) {
  parallel_loop(args, args.rows, 4, FORGE_PICK_OF(level, args.type, glu::backward));
}

}  // namespace forge

#endif

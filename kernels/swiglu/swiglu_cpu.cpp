// One pass, everything in registers between the loads and the stores.
#ifdef FORGE_ISA

namespace forge::FORGE_ISA {
namespace glu {

// f(x) and f'(x).
struct Activated {
  F value, slope;
};

FORGE_INLINE Activated activate(GateFunction function, F x) {
  F one = set(1.0f);
  if (function == GateFunction::silu) {
    F s = sigmoid(x);
    // x σ(x) of −∞ is 0 and not ∞ · 0.
    F value = less(x, set(-104.0f), set(0.0f), x * s);
    return {value, less(x, set(-104.0f), set(0.0f), fma(value, one - s, s))};
  }
  constexpr float kRoot = 0.7978845608028654f, kCubic = 0.044715f;
  F square = x * x;
  F t = tanh(set(kRoot) * fma(square * x, set(kCubic), x));
  F half = set(0.5f) * (one + t);
  F inner = set(kRoot) * fma(square, set(3 * kCubic), one);
  // Past |x| = 12, 1 ∓ t is zero in fp32 and its product with the cube's slope is not: cut it there.
  F tail = less(abs(x), set(12.0f), set(0.5f) * x * (one - t * t) * inner, set(0.0f));
  F value = less(x, set(-12.0f), set(0.0f), x * half);
  return {value, half + tail};
}

template <class T>
void forward(const SwigluForward& a, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T* gate = static_cast<const T*>(a.gate) + row * a.gate_stride;
    const T* up = static_cast<const T*>(a.up) + row * a.up_stride;
    T* y = static_cast<T*>(a.y) + row * a.y_stride;
    for_lanes(a.width, [&](int64_t i, int n) FORGE_LAMBDA {
      store_n(y + i, activate(a.function, load_n(gate + i, n)).value * load_n(up + i, n), n);
    });
  }
}

template <class T>
void backward(const SwigluBackward& a, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T* d_y = static_cast<const T*>(a.d_y) + row * a.d_y_stride;
    T* gate = static_cast<T*>(a.gate) + row * a.gate_stride;
    T* up = static_cast<T*>(a.up) + row * a.up_stride;
    T* y = a.y ? static_cast<T*>(a.y) + row * a.y_stride : nullptr;
    for_lanes(a.width, [&](int64_t i, int n) FORGE_LAMBDA {
      F d = load_n(d_y + i, n), u = load_n(up + i, n);
      Activated f = activate(a.function, load_n(gate + i, n));
      store_n(gate + i, d * u * f.slope, n);
      store_n(up + i, d * f.value, n);
      if (y) store_n(y + i, f.value * u, n);
    });
  }
}

}  // namespace glu

void swiglu_forward(const SwigluForward& a, int64_t begin, int64_t end) {
  if (a.type == Element::f32)
    glu::forward<float>(a, begin, end);
  else if (a.type == Element::bf16)
    glu::forward<Bf16>(a, begin, end);
  else
    glu::forward<F16>(a, begin, end);
}
void swiglu_backward(const SwigluBackward& a, int64_t begin, int64_t end) {
  if (a.type == Element::f32)
    glu::backward<float>(a, begin, end);
  else if (a.type == Element::bf16)
    glu::backward<Bf16>(a, begin, end);
  else
    glu::backward<F16>(a, begin, end);
}

}  // namespace forge::FORGE_ISA

#else

#include "kernels/cpu/parallel.h"
#include "kernels/swiglu/swiglu_args.h"
#define FORGE_KERNEL_FILE "kernels/swiglu/swiglu_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {

void swiglu_forward_cpu(const SwigluForward& args, CpuLevel level) {
  auto rows = FORGE_PICK(level, swiglu_forward);
  parallel_ranges(args.rows, 4, [&](int64_t begin, int64_t end) { rows(args, begin, end); });
}

void swiglu_backward_cpu(const SwigluBackward& args, CpuLevel level) {
  auto rows = FORGE_PICK(level, swiglu_backward);
  parallel_ranges(args.rows, 4, [&](int64_t begin, int64_t end) { rows(args, begin, end); });
}

}  // namespace forge

#endif

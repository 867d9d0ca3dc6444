// Gates and up values alternate in memory: some pairs at a time are separated on the stack and
// merged again.
#ifdef FORGE_ISA

namespace forge::FORGE_ISA {
namespace clamped {

constexpr int64_t kAtOnce = 64;  // pairs

struct Apart {
  alignas(64) float gate[kAtOnce], up[kAtOnce];
};

template <class T>
FORGE_INLINE void take_apart(const T* pairs, int64_t count, Apart& to) {
  for (int64_t i = 0; i < count; ++i)
    to.gate[i] = to_float(pairs[2 * i]), to.up[i] = to_float(pairs[2 * i + 1]);
  for (int64_t i = count; i < (count + kLanes - 1) / kLanes * kLanes; ++i) to.gate[i] = to.up[i] = 0;
}

// Values with their slopes, for y = more · gated.
struct Gated {
  F gated, more, slope_of_gate, slope_of_up;
};
FORGE_INLINE Gated gate_of(F gate, F up, float limit, float alpha) {
  const F one = set(1), zero = set(0), most = set(limit);
  const F g = min(most, gate), open = sigmoid(g * set(alpha));
  const F slope = open * fma(g * set(alpha), one - open, one);
  return {g * open, max(set(-limit), min(most, up)) + one, less(most, gate, zero, slope),
          less(most, abs(up), zero, one)};
}

template <class T>
void forward(const ClampedGluForward& a, int64_t begin, int64_t end) {
  Apart apart;
  for (int64_t row = begin; row < end; ++row) {
    const T* pairs = static_cast<const T*>(a.pairs) + row * a.pairs_stride;
    T* y = static_cast<T*>(a.y) + row * a.y_stride;
    for (int64_t first = 0; first < a.width; first += kAtOnce) {
      const int64_t count = std::min(kAtOnce, a.width - first);
      take_apart(pairs + 2 * first, count, apart);
      for_lanes(count, [&](int64_t i, int n) FORGE_LAMBDA {
        const Gated f = gate_of(load(apart.gate + i), load(apart.up + i), a.limit, a.alpha);
        store_n(y + first + i, f.more * f.gated, n);
      });
    }
  }
}

template <class T>
void backward(const ClampedGluBackward& a, int64_t begin, int64_t end) {
  Apart apart;
  for (int64_t row = begin; row < end; ++row) {
    const T* d_y = static_cast<const T*>(a.d_y) + row * a.d_y_stride;
    T* pairs = static_cast<T*>(a.pairs) + row * a.pairs_stride;
    T* y = a.y ? static_cast<T*>(a.y) + row * a.y_stride : nullptr;
    for (int64_t first = 0; first < a.width; first += kAtOnce) {
      const int64_t count = std::min(kAtOnce, a.width - first);
      take_apart(pairs + 2 * first, count, apart);
      for_lanes(count, [&](int64_t i, int n) FORGE_LAMBDA {
        const F d = load_n(d_y + first + i, n);
        const Gated f = gate_of(load(apart.gate + i), load(apart.up + i), a.limit, a.alpha);
        store(apart.gate + i, d * f.more * f.slope_of_gate);
        store(apart.up + i, d * f.gated * f.slope_of_up);
        if (y) store_n(y + first + i, f.more * f.gated, n);
      });
      for (int64_t i = 0; i < count; ++i)
        from_float(apart.gate[i], pairs[2 * (first + i)]),
            from_float(apart.up[i], pairs[2 * (first + i) + 1]);
    }
  }
}

}  // namespace clamped

}  // namespace forge::FORGE_ISA

#else

#include "kernels/cpu/parallel.h"
#include "kernels/swiglu/swiglu_args.h"
#define FORGE_KERNEL_FILE "kernels/swiglu/clamped_glu_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {

void clamped_glu_forward_cpu(const ClampedGluForward& args, CpuLevel level) {
  parallel_loop(args, args.rows, 4, FORGE_PICK_OF(level, args.type, clamped::forward));
}

void clamped_glu_backward_cpu(const ClampedGluBackward& args, CpuLevel level) {
  parallel_loop(args, args.rows, 4, FORGE_PICK_OF(level, args.type, clamped::backward));
}

}  // namespace forge

#endif

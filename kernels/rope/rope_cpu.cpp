// A token's row is small: its cosines stay in the first-level cache for all its heads.
#ifdef FORGE_ISA

namespace forge::FORGE_ISA {
namespace turn {

// Rotates all heads of a token: a piece of its cosines is read once for all of them.
template <class T>
FORGE_INLINE void half_split(const Rope& a, T* token, const float* cosine, const float* sine, float sign) {
  const int64_t half = a.rotary_dim / 2;
  T* const end = token + (a.heads + a.kv_heads) * a.head_dim;
  for_all<T>(half, [&](int64_t i, auto at) FORGE_LAMBDA {
    const auto c = at.load_table(cosine + i), s = at.load_table(sine + i) * set(sign), minus = set(0.0f) - s;
    for (T* head = token; head != end; head += a.head_dim) {
      auto x = at.load(head + i), y = at.load(head + half + i);
      at.store(head + i, fma(x, c, y * minus));
      at.store(head + half + i, fma(y, c, x * s));
    }
  });
}

template <class T>
FORGE_INLINE void interleaved(T* head, const float* cosine, const float* sine, float sign, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    float c = cosine[i], s = sine[i] * sign, a = to_float(head[2 * i]), b = to_float(head[2 * i + 1]);
    from_float(a * c - b * s, head[2 * i]);
    from_float(b * c + a * s, head[2 * i + 1]);
  }
}

template <class T>
void tokens(const Rope& a, int64_t begin, int64_t end) {
  int64_t half = a.rotary_dim / 2;
  float sign = a.backward ? -1.0f : 1.0f;
  for (int64_t token = begin; token < end; ++token) {
    int64_t position = a.positions ? a.positions[token] : token;
    const float *cosine = a.cosine + position * half, *sine = a.sine + position * half;
    T* head = static_cast<T*>(a.qkv) + token * a.stride;
    if (a.layout == RopeLayout::half_split) {
      half_split(a, head, cosine, sine, sign);
      continue;
    }
    for (int64_t i = 0; i < a.heads + a.kv_heads; ++i, head += a.head_dim)
      interleaved(head, cosine, sine, sign, half);
  }
}

}  // namespace turn

}  // namespace forge::FORGE_ISA

#else

#include "kernels/cpu/parallel.h"
#include "kernels/rope/rope_args.h"
#define FORGE_KERNEL_FILE "kernels/rope/rope_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {

void rope_cpu(const Rope& args, CpuLevel level) {
  parallel_loop(args, args.tokens, 8, FORGE_PICK_OF(level, args.type, turn::tokens));
}

}  // namespace forge

#endif

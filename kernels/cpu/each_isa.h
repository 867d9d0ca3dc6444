// Compiles one file once for every instruction set, each in its own namespace. No include guard:
// every <op>_cpu.cpp includes it once.
//
//   #ifdef FORGE_ISA                     // the loops, compiled per instruction set
//   namespace forge::FORGE_ISA { template <class T> void rows(const Args&, int64_t begin, int64_t end) { … F x = load(p) … } }
//   #else                                // once: checks, threads, choice
//   #define FORGE_KERNEL_FILE "kernels/x/x_cpu.cpp"
//   #include "kernels/cpu/each_isa.h"
//   namespace forge { void x_cpu(const Args& a, CpuLevel level) { auto loop = FORGE_PICK_OF(level, a.type, rows); … } }
//   #endif
//
// A file that defines FORGE_PRODUCTS_OF_PAIRS first is compiled a fourth time, with
// simd_avx512_bf16.h, for FORGE_PICK_PAIRS. GCC 12 reads a whole file before it heeds a pragma, so
// __AVX2__ and its like are never defined in the loops, which must not test them: code that differs
// by instruction set is in simd_*.h.
//
// It is a pragma and not a flag, since with -mavx512f the linker may keep an AVX-512 copy of a
// standard function for every machine. GCC's target_clones cannot be forced by a test, and its
// generic vectors are lowered before they are inlined into an AVX-512 caller.
#pragma GCC diagnostic ignored "-Wpsabi"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"

namespace forge {

// Sixteen numbers at once, whatever the vectors' width: GCC makes several of one that is too wide.
// Decoding blocks uses them.
using Sixteen = float __attribute__((vector_size(64)));
using SixteenCodes = int32_t __attribute__((vector_size(64)));
using Words = int16_t __attribute__((vector_size(64)));

}  // namespace forge

#define FORGE_INLINE inline __attribute__((always_inline))
#define FORGE_LAMBDA __attribute__((always_inline))  // after a lambda's parameters

#define FORGE_ISA isa_baseline
#include "kernels/cpu/simd_baseline.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/wide.h"
#include FORGE_KERNEL_FILE
#undef FORGE_ISA

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#define FORGE_ISA isa_avx2
#include "kernels/cpu/simd_avx2.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/wide.h"
#include FORGE_KERNEL_FILE
#undef FORGE_ISA
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#define FORGE_ISA isa_avx512
#include "kernels/cpu/simd_avx512.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/wide.h"
#include FORGE_KERNEL_FILE
#undef FORGE_ISA
#pragma GCC pop_options

#define FORGE_PICK(level, ...)                                     \
  ((level) >= ::forge::CpuLevel::avx512 ? &isa_avx512::__VA_ARGS__ \
   : (level) == ::forge::CpuLevel::avx2 ? &isa_avx2::__VA_ARGS__   \
                                        : &isa_baseline::__VA_ARGS__)

#ifdef FORGE_PRODUCTS_OF_PAIRS
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni,prefer-vector-width=512")
#define FORGE_ISA isa_avx512_bf16
#include "kernels/cpu/simd_avx512.h"
#include "kernels/cpu/simd_math.h"
#include "kernels/cpu/wide.h"
#include "kernels/cpu/simd_avx512_bf16.h"
#include FORGE_KERNEL_FILE
#undef FORGE_ISA
#pragma GCC pop_options

#define FORGE_PICK_PAIRS(level, function) \
  ((level) >= ::forge::CpuLevel::avx512_bf16 ? &isa_avx512_bf16::function : FORGE_PICK(level, function))
#endif
#else
// A template's name has a type in a choice, and none behind a comma.
#define FORGE_PICK(level, ...) \
  ((level) == ::forge::CpuLevel::baseline ? &isa_baseline::__VA_ARGS__ : &isa_baseline::__VA_ARGS__)
#define FORGE_PICK_PAIRS FORGE_PICK
#endif

// FORGE_PICK of a template over the element's type; and over those of a row and a stream: one type,
// or fp32 beside fp16.
#define FORGE_PICK_OF(level, type, function)                                       \
  ((type) == ::forge::Element::f32    ? FORGE_PICK(level, function<float>)         \
   : (type) == ::forge::Element::bf16 ? FORGE_PICK(level, function<::forge::Bf16>) \
                                      : FORGE_PICK(level, function<::forge::F16>))
#define FORGE_PICK_OF_TWO(level, type, stream, function)                                           \
  ((type) == ::forge::Element::f32     ? FORGE_PICK(level, function<float, float>)                 \
   : (type) == ::forge::Element::bf16  ? FORGE_PICK(level, function<::forge::Bf16, ::forge::Bf16>) \
   : (stream) == ::forge::Element::f32 ? FORGE_PICK(level, function<::forge::F16, float>)          \
                                       : FORGE_PICK(level, function<::forge::F16, ::forge::F16>))

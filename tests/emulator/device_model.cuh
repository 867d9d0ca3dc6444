#pragma once
// The CUDA model as host C++: the names that device code uses, each with its meaning in the
// emulator. The counterpart for nvcc and NVRTC is kernels/device/cuda/device_model.cuh; the include
// path decides which one a file gets.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>

#include "kernels/device/launch.h"
#include "tests/emulator/grid.h"
#include "tests/emulator/pointer.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...) \
  __attribute__((patchable_function_entry(::forge::emulator::nothings(__VA_ARGS__))))
#define threadIdx (::forge::emulator::indices().thread)
#define blockIdx (::forge::emulator::indices().block)
#define blockDim (::forge::emulator::indices().block_dim)
#define gridDim (::forge::emulator::indices().grid_dim)

// A static shared array, one for each instantiation of the function that holds it.
#define FORGE_SHARED(type, name, count) \
  static char name##_key;               \
  ::forge::Shared<type> name = ::forge::shared_of<type>(&name##_key, count)

#define FORGE_SITE \
  ::forge::emulator::Site { file, line }
#define FORGE_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(FORGE_HERE) {
  forge::emulator::block_barrier(forge::emulator::BarrierKind::sync, 0, FORGE_SITE);
}
inline int __syncthreads_count(int predicate, FORGE_HERE) {
  return forge::emulator::block_barrier(forge::emulator::BarrierKind::count, predicate, FORGE_SITE);
}
inline int __syncthreads_or(int predicate, FORGE_HERE) {
  return forge::emulator::block_barrier(forge::emulator::BarrierKind::any, predicate, FORGE_SITE);
}
inline int __syncthreads_and(int predicate, FORGE_HERE) {
  return forge::emulator::block_barrier(forge::emulator::BarrierKind::all, predicate, FORGE_SITE);
}
inline void __threadfence() { forge::emulator::fence(); }
inline void __threadfence_block() {}

namespace forge {

template <class T>
using Global = emulator::Pointer<T>;
template <class T>
using Shared = emulator::Pointer<T>;

template <class T>
Shared<T> shared_of(const void* key, size_t count) {
  emulator::Allocation* array = emulator::shared_array(key, count * sizeof(T), alignof(T));
  return {reinterpret_cast<T*>(array->begin), array};
}
template <class T>
Shared<T> dynamic_shared() {
  emulator::Allocation* array = emulator::dynamic_shared_array();
  return {reinterpret_cast<T*>(array->begin), array};
}

namespace emulator {

template <class T>
T warp_call(CollectiveKind kind, uint32_t mask, T value, int operand, int width, Site site) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = warp_collective(kind, mask, bits, operand, width, site);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace emulator
}  // namespace forge

inline void __syncwarp(uint32_t mask = 0xFFFFFFFF, FORGE_HERE) {
  forge::emulator::warp_collective(forge::emulator::CollectiveKind::sync, mask, 0, 0, 32, FORGE_SITE);
}
template <class T>
T __shfl_sync(uint32_t mask, T value, int lane, int width = 32, FORGE_HERE) {
  return forge::emulator::warp_call(forge::emulator::CollectiveKind::shuffle, mask, value, lane, width,
                                    FORGE_SITE);
}
template <class T>
T __shfl_up_sync(uint32_t mask, T value, unsigned delta, int width = 32, FORGE_HERE) {
  return forge::emulator::warp_call(forge::emulator::CollectiveKind::shuffle_up, mask, value,
                                    static_cast<int>(delta), width, FORGE_SITE);
}
template <class T>
T __shfl_down_sync(uint32_t mask, T value, unsigned delta, int width = 32, FORGE_HERE) {
  return forge::emulator::warp_call(forge::emulator::CollectiveKind::shuffle_down, mask, value,
                                    static_cast<int>(delta), width, FORGE_SITE);
}
template <class T>
T __shfl_xor_sync(uint32_t mask, T value, int lanes, int width = 32, FORGE_HERE) {
  return forge::emulator::warp_call(forge::emulator::CollectiveKind::shuffle_xor, mask, value, lanes, width,
                                    FORGE_SITE);
}
inline uint32_t __ballot_sync(uint32_t mask, int predicate, FORGE_HERE) {
  return static_cast<uint32_t>(forge::emulator::warp_collective(forge::emulator::CollectiveKind::ballot, mask,
                                                                predicate != 0, 0, 32, FORGE_SITE));
}
inline int __any_sync(uint32_t mask, int predicate, FORGE_HERE) {
  return static_cast<int>(forge::emulator::warp_collective(forge::emulator::CollectiveKind::any, mask,
                                                           predicate != 0, 0, 32, FORGE_SITE));
}
inline int __all_sync(uint32_t mask, int predicate, FORGE_HERE) {
  return static_cast<int>(forge::emulator::warp_collective(forge::emulator::CollectiveKind::all, mask,
                                                           predicate != 0, 0, 32, FORGE_SITE));
}

// Reduce integers over a mask, like the instructions of sm_80.
inline uint32_t __reduce_add_sync(uint32_t mask, uint32_t value, FORGE_HERE) {
  return forge::emulator::warp_call(forge::emulator::CollectiveKind::reduce_add, mask, value, 0, 32,
                                    FORGE_SITE);
}
inline int32_t __reduce_add_sync(uint32_t mask, int32_t value, FORGE_HERE) {
  return forge::emulator::warp_call(forge::emulator::CollectiveKind::reduce_add, mask, value, 0, 32,
                                    FORGE_SITE);
}
inline uint32_t __reduce_min_sync(uint32_t mask, uint32_t value, FORGE_HERE) {
  return forge::emulator::warp_call(forge::emulator::CollectiveKind::reduce_min, mask, value, 0, 32,
                                    FORGE_SITE);
}
inline int32_t __reduce_min_sync(uint32_t mask, int32_t value, FORGE_HERE) {
  return forge::emulator::warp_call(forge::emulator::CollectiveKind::reduce_min_signed, mask, value, 0, 32,
                                    FORGE_SITE);
}
inline uint32_t __reduce_max_sync(uint32_t mask, uint32_t value, FORGE_HERE) {
  return forge::emulator::warp_call(forge::emulator::CollectiveKind::reduce_max, mask, value, 0, 32,
                                    FORGE_SITE);
}
inline int32_t __reduce_max_sync(uint32_t mask, int32_t value, FORGE_HERE) {
  return forge::emulator::warp_call(forge::emulator::CollectiveKind::reduce_max_signed, mask, value, 0, 32,
                                    FORGE_SITE);
}
inline uint32_t __reduce_and_sync(uint32_t mask, uint32_t value, FORGE_HERE) {
  return forge::emulator::warp_call(forge::emulator::CollectiveKind::reduce_and, mask, value, 0, 32,
                                    FORGE_SITE);
}
inline uint32_t __reduce_or_sync(uint32_t mask, uint32_t value, FORGE_HERE) {
  return forge::emulator::warp_call(forge::emulator::CollectiveKind::reduce_or, mask, value, 0, 32,
                                    FORGE_SITE);
}
inline uint32_t __reduce_xor_sync(uint32_t mask, uint32_t value, FORGE_HERE) {
  return forge::emulator::warp_call(forge::emulator::CollectiveKind::reduce_xor, mask, value, 0, 32,
                                    FORGE_SITE);
}

template <class T>
T atomicAdd(forge::emulator::Pointer<T> p, std::type_identity_t<T> value) {
  return forge::emulator::atomic_update(p, [&](T old) { return static_cast<T>(old + value); });
}
template <class T>
T atomicMax(forge::emulator::Pointer<T> p, std::type_identity_t<T> value) {
  return forge::emulator::atomic_update(p, [&](T old) { return std::max(old, value); });
}
template <class T>
T atomicMin(forge::emulator::Pointer<T> p, std::type_identity_t<T> value) {
  return forge::emulator::atomic_update(p, [&](T old) { return std::min(old, value); });
}
template <class T>
T atomicOr(forge::emulator::Pointer<T> p, std::type_identity_t<T> value) {
  return forge::emulator::atomic_update(p, [&](T old) { return static_cast<T>(old | value); });
}
template <class T>
T atomicExch(forge::emulator::Pointer<T> p, std::type_identity_t<T> value) {
  return forge::emulator::atomic_update(p, [&](T) { return value; });
}
template <class T>
T atomicCAS(forge::emulator::Pointer<T> p, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return forge::emulator::atomic_update(p, [&](T old) { return old == expected ? value : old; });
}

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline uint32_t __umulhi(uint32_t a, uint32_t b) { return static_cast<uint32_t>(uint64_t{a} * b >> 32); }
inline uint32_t __float_as_uint(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float __uint_as_float(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
// Each operation is rounded by itself and never contracted to a fused multiply-add (the emulated
// files are compiled with -ffp-contract=off).
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }

namespace forge {

// ---- Counterparts of the PTX in kernels/device/cuda/device_model.cuh.
inline uint16_t bf16_bits(float value) {
  uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return 0x7FFF;  // the NaN that cvt.rn.bf16 gives
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// Rounds to nearest even; subnormals are kept, and overflow gives infinity.
inline uint16_t fp16_bits(float value) {
  uint32_t bits = __float_as_uint(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return 0x7FFF;
  if (magnitude >= 0x477FF000) return static_cast<uint16_t>(sign | 0x7C00);
  if (magnitude < 0x38800000) {
    // Below 2^-14: adding 0.5 leaves the subnormal's bits, rounded to even, at the end of the
    // fraction.
    float shifted = __uint_as_float(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (__float_as_uint(shifted) - 0x3F000000));
  }
  uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1) - 0x38000000;
  return static_cast<uint16_t>(sign | rounded >> 13);
}

inline float fp16_value(uint16_t half) {
  uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16, exponent = half >> 10 & 31,
           fraction = half & 0x3FF;
  if (exponent == 31) return __uint_as_float(sign | 0x7F800000 | fraction << 13);
  if (exponent != 0) return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
  float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

// The emulator has none: it runs the code that replaces them on old GPUs.
template <bool kBf16>
constexpr bool kTensorCores = false;
template <bool kBf16>
bool tensor_cores(float (&)[4], const uint32_t (&)[4], const uint32_t (&)[2]) {
  return false;
}

// Reads sizeof(Packed) bytes with one access, which must be aligned to them.
template <class Packed, class T>
Packed load_packed(emulator::Pointer<T> p) {
  return emulator::checked_load<Packed>(p.allocation(), reinterpret_cast<const Packed*>(p.address()));
}
template <class Packed, class T>
void store_packed(emulator::Pointer<T> p, const Packed& value) {
  emulator::checked_store<Packed>(p.allocation(), reinterpret_cast<Packed*>(p.address()), value);
}

// Launches a kernel. Without a runtime it runs immediately: the launch has ended when this returns.
// Throws emulator::Fault.
template <class... Params, class... Args>
void launch(const char* name, void (*kernel)(Params...), LaunchShape shape, CudaStream stream, Args... args) {
  std::tuple<Params...> converted{static_cast<Params>(args)...};
  emulator::queue(name, stream, [=] {
    emulator::Grid grid{name,
                        {shape.blocks, shape.blocks_y, 1},
                        {shape.threads, 1, 1},
                        shape.shared_bytes,
                        emulator::launch_bounds_of(reinterpret_cast<const void*>(kernel))};
    emulator::run_grid(grid, [&] { std::apply(kernel, converted); });
  });
}

inline void clear_device(void* pointer, size_t bytes, CudaStream stream) {
  emulator::queue("clear", stream, [=] {
    emulator::mark_written(pointer, bytes);
    emulator::touch("clear", pointer, 1, static_cast<int64_t>(bytes), 0, /*writes=*/true);
    std::memset(pointer, 0, bytes);
  });
}

}  // namespace forge

using std::fabs;
using std::fmax;
using std::fmin;

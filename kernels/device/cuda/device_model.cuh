#pragma once
// The CUDA model for nvcc and NVRTC. Everything here that is PTX or differs between a GPU and the
// emulator has its twin in the emulator's header of the same name; the include path decides which
// one a file gets.
#ifdef __CUDACC_RTC__
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;
#else
#include <cuda_runtime_api.h>
#include <stdint.h>

#include <stdexcept>
#include <string>

#include "kernels/device/launch.h"
#endif

#define FORGE_SHARED(type, name, count) __shared__ type name[count]

namespace forge {

template <class T>
using Global = T*;
template <class T>
using Shared = T*;

template <class T>
__device__ __forceinline__ Shared<T> dynamic_shared() {
  extern __shared__ __align__(16) unsigned char forge_dynamic_shared[];
  return reinterpret_cast<T*>(forge_dynamic_shared);
}

// Round to nearest even; a NaN becomes 0x7FFF. One instruction from sm_80 on.
__device__ __forceinline__ uint16_t bf16_bits(float value) {
#if __CUDA_ARCH__ >= 800
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return 0x7FFF;
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
#endif
}

__device__ __forceinline__ uint16_t fp16_bits(float value) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

__device__ __forceinline__ float fp16_value(uint16_t half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
}

// d += a b by tensor cores, whose layout is described in kernels/device/tiles.cuh. Returns false
// where they do not support the type. sm_75 multiplies half the depth at once, of fp16 alone.
template <bool kBf16>
#if __CUDA_ARCH__ >= 800
constexpr bool kTensorCores = true;
#elif __CUDA_ARCH__ >= 750
constexpr bool kTensorCores = !kBf16;
#else
constexpr bool kTensorCores = false;
#endif
template <bool kBf16>
__device__ __forceinline__ bool tensor_cores(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
#define FORGE_MMA(type)                                                                                             \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                                               \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                               \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                     \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
  if constexpr (kBf16)
    FORGE_MMA("bf16");
  else
    FORGE_MMA("f16");
#undef FORGE_MMA
  return true;
#elif __CUDA_ARCH__ >= 750
  if constexpr (!kBf16)
    for (int half = 0; half < 2; ++half)
      asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                   : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                   : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
  return !kBf16;
#else
  return false;
#endif
}

// The widest access a register group has for `kBytes`.
template <int kBytes>
struct Words;
template <>
struct Words<1> {
  using Type = unsigned char;
};
template <>
struct Words<2> {
  using Type = unsigned short;
};
template <>
struct Words<4> {
  using Type = unsigned int;
};
template <>
struct Words<8> {
  using Type = uint2;
};
template <>
struct Words<16> {
  using Type = uint4;
};

// Loads sizeof(Packed) bytes in one access; p must be aligned to that size.
template <class Packed, class T>
__device__ __forceinline__ Packed load_packed(T* p) {
  using Word = typename Words<sizeof(Packed)>::Type;
  Word word = *reinterpret_cast<const Word*>(p);
  Packed value;
  memcpy(&value, &word, sizeof value);
  return value;
}
template <class Packed, class T>
__device__ __forceinline__ void store_packed(T* p, const Packed& value) {
  using Word = typename Words<sizeof(Packed)>::Type;
  Word word;
  memcpy(&word, &value, sizeof word);
  *reinterpret_cast<Word*>(p) = word;
}

#ifndef __CUDACC_RTC__
// Enqueues the kernel. Throws if the launch itself is refused; faults of the kernel show at the
// next synchronisation.
template <class... Params, class... Args>
void launch(const char* name, void (*kernel)(Params...), LaunchShape shape, CudaStream stream, Args... args) {
  kernel<<<dim3(shape.blocks, shape.blocks_y), dim3(shape.threads), shape.shared_bytes, stream>>>(args...);
  cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) throw std::runtime_error(std::string(name) + ": " + cudaGetErrorString(status));
}

// Enqueues zeros.
inline void clear_device(void* pointer, size_t bytes, CudaStream stream) {
  cudaError_t status = cudaMemsetAsync(pointer, 0, bytes, stream);
  if (status != cudaSuccess) throw std::runtime_error(std::string("clear: ") + cudaGetErrorString(status));
}
#endif

}  // namespace forge
